"""Imported models of speech answer as transformers does, from a recording to its text, maps, and times of words."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers.models.whisper import generation_whisper

import limelight
from limelight import Generation
from limelight.cli import main
from limelight.speech import warp
from limelight.v1 import service_pb2, service_pb2_grpc, values_pb2
from limelight_bundle.tolerance import output_scale
from limelight_bundle.values import Array, Audio
from limelight_bundle.wire import to_tensor
from limelight_export.errors import CheckpointError, ExportError
from limelight_export.execution.generation import run_generation
from limelight_export.execution.pytorch_runner import PyTorchGenerationRunner
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_export.importing.huggingface.imported_speech import ImportedSpeech
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from limelight_export.precision import Precision
from limelight_export.verification.comparison import Comparison
from limelight_export.verification.fitted_tolerances import FittingComparison
from limelight_export.verification.samples import example_rows
from limelight_models.cards.results import NEVER
from limelight_models.network import StepAnswer
from tests.bundle.recordings import RATE, tones, wav
from tests.importing.huggingface.checkpoints import change_config, write_json
from tests.importing.huggingface.decoders import END, VOCABULARY, tokenizer
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import serving
from tests.service.open_inference.calls import infer

NAME, LIBRARY = "whisper", "WhisperForConditionalGeneration"
SPECIAL = ("<|startoftranscript|>", "<|en|>", "<|fr|>", "<|transcribe|>", "<|translate|>", "<|notimestamps|>")
START, ENGLISH, FRENCH, TRANSCRIBE, TRANSLATE, NO_TIMES = range(VOCABULARY, VOCABULARY + len(SPECIAL))
LAYERS, HEADS, ALIGNMENT = 3, 2, [[1, 0], [2, 1]]
BEGUN = 24  # a letter, which is not put out first
SECONDS = 1
STEPS, FORCED = 12, 3
RECORDINGS = {"short": tones(6_000), "long": tones(SECONDS * RATE, seed=1), "single": tones(1)}


def write(folder: Path, *, generation: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write a checkpoint with random weights: two languages, two suppressed tokens, one more at the beginning."""
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY + len(SPECIAL),
        num_mel_bins=16,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_layers=LAYERS,
        decoder_attention_heads=HEADS,
        decoder_ffn_dim=40,
        max_source_positions=SECONDS * 50,
        max_target_positions=40,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=END,
        decoder_start_token_id=START,
        begin_suppress_tokens=None,
        **changes,
    )
    model = transformers.WhisperForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1 and parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    made = Tokenizer.from_str(tokenizer(begins=False))
    made.add_special_tokens(list(SPECIAL))
    unlike_words = [number for token, number in made.get_vocab().items() if not (token.strip("Ġ") + "!").isascii()]
    (folder / "tokenizer.json").write_text(made.to_str())
    extractor = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=SECONDS)
    extractor.save_pretrained(folder)
    stated = {
        "decoder_start_token_id": START,
        "eos_token_id": END,
        "pad_token_id": 0,
        "is_multilingual": True,
        "lang_to_id": {"<|en|>": ENGLISH, "<|fr|>": FRENCH},
        "task_to_id": {"transcribe": TRANSCRIBE, "translate": TRANSLATE},
        "no_timestamps_token_id": NO_TIMES,
        "suppress_tokens": [each for each in unlike_words if each != END],
        "begin_suppress_tokens": [BEGUN, END],
        "alignment_heads": ALIGNMENT,
        "max_length": 40,
    }
    write_json(folder / "generation_config.json", stated | (generation or {}))
    return folder


def features(samples: Array) -> torch.Tensor:
    extractor = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=SECONDS)
    return extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address at which the checkpoint is served."""
    repository = tmp_path_factory.mktemp("repository")
    import_checkpoint(folder, repository)
    with serving(repository) as running:
        yield running.server.address


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[limelight.Client]:
    with limelight.Client(address) as found:
        yield found


def generated(library: Any, samples: Array, **options: Any) -> list[int]:
    """Output of transformers behind the start token: the forced tokens, and STEPS more or up to the end token."""
    with torch.no_grad():
        answer = library.generate(
            features(samples), max_new_tokens=STEPS, do_sample=False, return_dict_in_generate=True, **options
        )
    tokens = [each for each in answer.sequences[0].tolist() if each != START]
    return tokens[: tokens.index(END) + 1] if END in tokens else tokens


def attended(client: limelight.Client, samples: Array, **options: Any) -> limelight.Attended:
    generation = Generation(max_new_tokens=STEPS + FORCED)
    return client.attend("whisper", {"audio": limelight.Audio(samples, RATE)}, generation=generation, **options)


def test_explanations_silence_parts_and_force_what_comes_behind_the_language(
    address: str, client: limelight.Client
) -> None:
    samples = RECORDINGS["short"]
    sent = values_pb2.Audio(samples=values_pb2.AudioSamples(samples=to_tensor(samples), sample_rate=RATE))
    with grpc.insecure_channel(address) as channel:
        request = service_pb2.ExplainRequest(
            model=values_pb2.Model(name="whisper"),
            instances=[values_pb2.Instance(inputs={"audio": values_pb2.Value(audio=sent)})],
            generation=service_pb2.GenerationOptions(max_new_tokens=STEPS),
            units=service_pb2.UnitOptions(size=5),
            ways=[service_pb2.WAY_ERASE],
        )
        (found,) = service_pb2_grpc.AttentionServiceStub(channel).Explain(request).explanations
    own = found.prediction.results[0].sequences.sequences[0]
    assert found.target.score == pytest.approx(sum(own.log_probabilities[FORCED:]), abs=1e-4)
    assert [*zip(found.units.starts, found.units.ends, strict=True)] == [(0, 100), (100, 200), (200, 300), (300, 380)]
    forced = np.array([each for each in own.token_ids[FORCED:] if each != END], np.int64)
    for place, value in enumerate(found.ways[0].values):
        silenced = samples.copy()
        silenced[found.units.starts[place] * RATE // 1000 : found.units.ends[place] * RATE // 1000] = 0
        answer = client.predict("whisper", {"audio": limelight.Audio(silenced, RATE), "target_ids": forced})
        again = answer.sequences[0].log_probabilities[FORCED : len(own.token_ids)]
        assert value == pytest.approx(sum(again) - found.target.score, abs=1e-3)


@pytest.mark.parametrize("name", RECORDINGS)
def test_texts_and_maps_equal_transformers(name: str, client: limelight.Client, library: Any) -> None:
    samples = RECORDINGS[name]
    answer = attended(client, samples)
    output = list(answer.prediction.sequences[0].token_ids)
    assert output == generated(library, samples, task="transcribe")
    assert output[:3] in ([ENGLISH, TRANSCRIBE, NO_TIMES], [FRENCH, TRANSCRIBE, NO_TIMES])
    with torch.no_grad():
        whole = library(
            input_features=features(samples),
            decoder_input_ids=torch.tensor([[START, *output[:-1]]]),
            output_attentions=True,
            use_cache=False,
        )
    for kind, maps in (
        ("encoder.{}.self", whole.encoder_attentions),
        ("decoder.{}.self", whole.decoder_attentions),
        ("decoder.{}.cross", whole.cross_attentions),
    ):
        for layer, weights in enumerate(maps):
            np.testing.assert_allclose(answer[kind.format(layer)].weights, weights[0].numpy(), atol=1e-4)
    aligned = np.stack([answer[f"decoder.{layer}.cross"].weights[head] for layer, head in ALIGNMENT])
    np.testing.assert_array_equal(answer["alignment"].weights, aligned)


def test_recordings_answer_alike_alone_together_and_as_files(client: limelight.Client) -> None:
    inputs = [{"audio": limelight.Audio(each, RATE)} for each in RECORDINGS.values()]
    inputs += [{"audio": wav(each)} for each in RECORDINGS.values()]
    generation = Generation(max_new_tokens=STEPS)
    together = client.attend("whisper", inputs, maps="decoder.1.cross", generation=generation)
    for sent, answer in zip(inputs, together, strict=True):
        alone = client.attend("whisper", sent, maps="decoder.1.cross", generation=generation)
        assert alone.prediction.sequences[0].token_ids == answer.prediction.sequences[0].token_ids
        np.testing.assert_allclose(alone["decoder.1.cross"].weights, answer["decoder.1.cross"].weights, atol=1e-5)
    frames = together[0]["decoder.1.cross"].key
    assert frames.kind == "frames" and frames.labels[18] == "0.36 s"
    assert frames.special.tolist() == [False] * 19 + [True] * 31


def test_the_open_inference_protocol_takes_the_bytes_of_a_file(address: str, client: limelight.Client) -> None:
    files = [wav(RECORDINGS["short"]), wav(RECORDINGS["long"])]
    with grpc.insecure_channel(address) as channel:
        answer = infer(channel, "whisper", {"audio": np.array(files, object)}, "text", "decoder.2.cross")
    for place, file in enumerate(files):
        expected = client.attend("whisper", {"audio": file}, maps="decoder.2.cross")
        assert answer["text"][place, 0].decode() == expected.prediction.text
        weights = expected["decoder.2.cross"].weights
        np.testing.assert_allclose(answer["decoder.2.cross"][place, :, : weights.shape[1]], weights, atol=1e-5)


def test_a_stated_language_and_task_begin_the_output(folder: Path, library: Any) -> None:
    trained = read_model(folder, task="speech-translation", options=ImportOptions(language="fr"))
    for samples in RECORDINGS.values():
        (row,) = example_rows(trained.card, [{"audio": Audio(samples, RATE)}])
        trace = run_generation(
            PyTorchGenerationRunner(trained.model, trained.card),
            trained.card,
            trained.card.collate([row]),
            {"batch": 1},
            lambda step, scores: (scores.argmax(-1), step + 1 == STEPS + FORCED or scores.argmax() == END),
        )
        output = trace.tokens[0].tolist()
        assert output[:3] == [FRENCH, TRANSLATE, NO_TIMES]
        assert output == generated(library, samples, task="translate", language="fr")
        assert output[3] not in (BEGUN, END)


def test_a_model_of_one_language_begins_without_language_and_task(tmp_path: Path) -> None:
    made = write(tmp_path / "english", generation={"is_multilingual": False})
    stated = json.loads((made / "generation_config.json").read_text())
    for name in ("lang_to_id", "task_to_id", "alignment_heads"):
        del stated[name]
    write_json(made / "generation_config.json", stated)
    trained = read_model(made)
    assert "alignment" not in [each.name for each in trained.card.description.maps]
    (row,) = example_rows(trained.card, [{"audio": Audio(RECORDINGS["short"], RATE)}])
    runner = PyTorchGenerationRunner(trained.model, trained.card)
    trace = run_generation(
        runner,
        trained.card,
        trained.card.collate([row]),
        {"batch": 1},
        lambda step, scores: (scores.argmax(-1), step == 3),
    )
    library = transformers.WhisperForConditionalGeneration.from_pretrained(made, attn_implementation="eager").eval()
    assert trace.tokens[0].tolist() == generated(library, RECORDINGS["short"])[:4]
    assert trace.tokens[0, 0] == NO_TIMES
    with pytest.raises(CheckpointError, match="the model transcribes one language only"):
        read_model(made, task="speech-translation")


@pytest.mark.parametrize("name", ["short", "long"])
def test_times_of_words_are_those_of_the_alignment(name: str, client: limelight.Client) -> None:
    answer = attended(client, RECORDINGS[name], maps="alignment")
    attention = answer["alignment"]
    assert attention.head_labels is not None
    assert attention.head_labels.labels == ("layer 1, head 0", "layer 2, head 1")
    words = limelight.word_times(answer)
    assert "".join(each.text for each in words) == "".join((answer.prediction.text or "").split())
    assert len(words) > 1
    frames = int((~attention.key.special).sum())
    weights = torch.tensor(attention.weights[:, FORCED:, :frames])
    weights = weights / weights.sum(-1, keepdim=True)
    deviations, means = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    smooth = generation_whisper._median_filter((weights - means) / deviations, 7).mean(0)
    rows, columns = generation_whisper._dynamic_time_warping(-smooth.double().numpy())
    reached = columns[np.flatnonzero(np.diff(rows, prepend=-1))] * 0.02
    begins = [0] + [
        place
        for place in range(1, len(reached))
        if attention.query.starts[FORCED + place] > attention.query.ends[FORCED + place - 1]
    ]
    assert [each.start for each in words] == pytest.approx([reached[place] for place in begins])
    assert [each.end for each in words] == pytest.approx([*(each.start for each in words[1:]), frames * 0.02])


def test_a_transcript_that_is_given_is_aligned_with_its_recording(
    client: limelight.Client, folder: Path, library: Any
) -> None:
    text, samples = " the cat sat", RECORDINGS["long"]
    spoken = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    answer = client.attend("whisper", {"audio": limelight.Audio(samples, RATE), "target": text})
    (sequence,) = answer.prediction.sequences
    free = client.predict("whisper", {"audio": limelight.Audio(samples, RATE)}).sequences[0].token_ids
    tokens = [*free[:FORCED], *spoken, END]
    assert (list(sequence.token_ids), sequence.finish_reason) == (tokens, "target")
    put_in = torch.tensor([[START, *tokens[:-1]]])
    with torch.no_grad():
        maps = library(features(samples), decoder_input_ids=put_in, output_attentions=True).cross_attentions
    np.testing.assert_allclose(answer["decoder.2.cross"].weights, maps[2][0].numpy(), atol=1e-5)
    assert [each.text for each in limelight.word_times(answer)] == ["the", "cat", "sat"]


def test_the_program_of_the_docs_prints_the_times_of_words(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "recordings.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "speech.wav").write_bytes(wav(RECORDINGS["long"]))
    monkeypatch.chdir(tmp_path)
    exec(program.replace("127.0.0.1:50051", address).replace("whisper-tiny", "whisper"), {})
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert lines and all(0 <= float(start) <= float(end) <= SECONDS and word for start, end, word in lines)


def test_the_command_prints_the_times_of_words(
    address: str, client: limelight.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "speech.wav"
    file.write_bytes(wav(RECORDINGS["short"]))
    words = limelight.word_times(client.attend("whisper", {"audio": file}, maps="alignment"))
    command = ["attend", "whisper", str(file), "--times", "--target", address]
    assert main(command) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert [(float(start), float(end), word) for start, end, word in lines] == [
        (pytest.approx(each.start), pytest.approx(each.end), each.text) for each in words
    ]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"text": each.text, "start": each.start, "end": each.end} for each in words
    ]


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(1, 12), columns=st.integers(1, 12), levels=st.integers(2, 1000), seed=st.integers(0, 2**31))
def test_warping_finds_the_path_of_transformers(rows: int, columns: int, levels: int, seed: int) -> None:
    costs = np.random.default_rng(seed).integers(0, levels, (rows, columns)) / levels - 0.5
    for found, expected in zip(warp(costs), generation_whisper._dynamic_time_warping(costs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_input_that_cannot_be_read_is_refused_by_name(client: limelight.Client) -> None:
    for audio, message in (
        (limelight.Audio(tones(100), 8000), "has 8000 samples a second; the model takes 16000"),
        (wav(tones(100))[:-2], "is cut off: its header states 400 bytes of samples, and it has 398"),
        (limelight.Audio(tones(SECONDS * RATE + 400), RATE), "lasts 1.02 s; at most 1 s are allowed"),
    ):
        with pytest.raises(limelight.InvalidArgument, match=message):
            client.predict("whisper", {"audio": audio})
    cut = client.predict("whisper", {"audio": limelight.Audio(tones(SECONDS * RATE + 400), RATE)}, truncate=True)
    assert cut.truncated
    assert client.model("whisper").max_audio_seconds == SECONDS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"no_timestamps_token_id": 999}, "states no token of the model as no_timestamps_token_id"),
        ({"suppress_tokens": [999]}, "states no token of the model as suppress_tokens"),
        ({"task_to_id": {}}, "states no token of the model as transcribe of task_to_id"),
        ({"alignment_heads": [[1, 2]]}, r"states alignment_heads \[1, 2\], which the model does not have"),
        ({"language": "de"}, "the model knows no language 'de'; it knows en, fr"),
        ({"eos_token_id": None}, "a text would never end"),
    ],
)
def test_an_output_that_is_not_stated_is_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    stated = folder / "generation_config.json"
    before = stated.read_text()
    try:
        write_json(stated, json.loads(before) | changes)
        if "eos_token_id" in changes:
            change_config(folder, eos_token_id=None)
        with pytest.raises(CheckpointError, match=message):
            read_model(folder)
    finally:
        stated.write_text(before)
        change_config(folder, eos_token_id=END)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dither": 0.1}, "states dither 0.1; it can be 0"),
        ({"chunk_length": 2}, "makes spectrograms of 16 x 200 numbers; the model takes 16 x 100"),
        ({"top_db": 3}, "states top_db 3, which is not classified"),
        ({"sampling_rate": 0}, "states sampling_rate 0; it is a positive number"),
    ],
)
def test_a_feature_extractor_that_makes_another_spectrogram_is_refused(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    stated = folder / "preprocessor_config.json"
    before = stated.read_text()
    try:
        write_json(stated, json.loads(before) | changes)
        with pytest.raises(CheckpointError, match=message):
            read_model(folder)
    finally:
        stated.write_text(before)


def test_a_feature_extractor_in_the_file_of_a_whole_processor_is_read(tmp_path: Path) -> None:
    """As transformers 5 saves it, with fields that are null."""
    made = write(tmp_path / "whisper")
    before = read_model(made).card.description
    library = transformers.PreTrainedTokenizerFast(tokenizer_file=str(made / "tokenizer.json"))
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(made)
    (made / "preprocessor_config.json").unlink()
    transformers.WhisperProcessor(extractor, library).save_pretrained(made)
    stated = json.loads((made / "processor_config.json").read_text())
    stated["feature_extractor"]["something_new"] = None
    write_json(made / "processor_config.json", stated)
    assert not (made / "preprocessor_config.json").exists()
    assert read_model(made).card.description == before


@pytest.mark.parametrize("language", ["en", "EN", "english", "English", "<|en|>", "<|EN|>"])
def test_a_language_has_the_names_that_transformers_knows(tmp_path: Path, language: str) -> None:
    by_option = write(tmp_path / "option")
    by_file = write(tmp_path / "file", generation={"language": language})
    for read in (read_model(by_option, options=ImportOptions(language=language)), read_model(by_file)):
        assert isinstance(read.model, ImportedSpeech)
        assert read.model.allowed is not None
        assert read.model.allowed[0].nonzero().flatten().tolist() == [ENGLISH]


def test_the_token_of_no_times_is_found_where_an_older_file_does_not_state_it(tmp_path: Path) -> None:
    made = write(tmp_path / "whisper", generation={"no_timestamps_token_id": None})
    read = read_model(made)
    assert isinstance(read.model, ImportedSpeech)
    assert read.model.allowed is not None
    assert read.model.allowed[2].nonzero().flatten().tolist() == [NO_TIMES]
    text = (made / "tokenizer.json").read_text()
    (made / "tokenizer.json").write_text(text.replace("<|notimestamps|>", "<|something|>"))
    with pytest.raises(CheckpointError, match="states no no_timestamps_token_id, and the tokenizer has no"):
        read_model(made)


def test_every_field_that_transformers_writes_is_classified() -> None:
    written = json.loads(transformers.WhisperConfig().to_json_string(use_diff=False))
    assert "classifier_proj_size" in ARCHITECTURES["whisper"].fields.check(written)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("use_weighted_layer_sum", True, "states use_weighted_layer_sum True, which is not computed; it can be False"),
        ("local_attention", 5, "states local_attention 5, which is not classified for whisper"),
    ],
)
def test_a_field_that_the_modules_do_not_compute_is_refused(
    tmp_path: Path, field: str, value: Any, message: str
) -> None:
    made = write(tmp_path / "whisper")
    change_config(made, **{field: value})
    with pytest.raises(CheckpointError, match=message):
        read_model(made)


def test_positions_that_differ_from_the_librarys_are_not_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = ImportedSpeech.step

    def shifted(self: ImportedSpeech, token: torch.Tensor, **tensors: torch.Tensor) -> StepAnswer:
        return step(self, token, **(tensors | {"position": (tensors["position"] - 1).clamp(min=0)}))

    monkeypatch.setattr(ImportedSpeech, "step", shifted)
    with pytest.raises(ExportError, match="differs from transformers' eager attention by "):
        read_model(folder)


def test_scores_of_tokens_that_are_never_put_out_do_not_loosen_tolerances(folder: Path) -> None:
    card = read_model(folder).card
    expected = np.array([[1.0, NEVER, -3.0, NEVER]], np.float32)
    assert output_scale(expected) == 3
    exact = Comparison(card)
    exact.record("scores", expected + np.float32(1e-6), expected)
    assert exact.parity()[0].relative == pytest.approx(exact.parity()[0].absolute / 3)
    fitted = FittingComparison(card, Precision.FLOAT16)
    fitted.compare_arrays("scores", expected + 1, expected, "a case")
    with pytest.raises(ExportError, match="scores differs by up to 1 from PyTorch's, of 4, the range of its answers"):
        fitted.fit_tolerances()


def test_a_language_is_for_speech_only(tmp_path: Path) -> None:
    folder = ENCODERS["bert"].write(tmp_path / "bert")
    with pytest.raises(CheckpointError, match="BERT reads no speech; leave out --language"):
        read_model(folder, options=ImportOptions(language="en"))
