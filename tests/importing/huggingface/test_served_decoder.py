"""Imported models that generate as a client reads them: texts, and maps of prompts, sources and output tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

import limelight
from limelight import Attention, Generation
from limelight_bundle.reader import read_bundle
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface.checkpoints import write_json
from tests.importing.huggingface.decoders import BEGIN, DECODERS, END, TEXT
from tests.importing.huggingface.encoder_decoders import ENCODER_DECODERS
from tests.kit.serving import serving

PROMPTS = ("a", "the cat", TEXT)
STEPS = 9
POSITIONS = 320  # so many that maps of prompts are optional


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A checkpoint with grouped queries and a layer with a window, and the model by transformers alone.

    The third token that it puts out after "the cat" ends a text.
    """
    folder = DECODERS["qwen2"].write(tmp_path_factory.mktemp("checkpoint") / "small", max_position_embeddings=POSITIONS)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode("the cat").ids
    third = model.generate(torch.tensor([ids]), max_new_tokens=3, do_sample=False)[0, -1]
    write_json(folder / "generation_config.json", {"eos_token_id": [END, int(third)]})
    return folder, model


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of an encoder–decoder with relative positions."""
    return ENCODER_DECODERS["t5"].write(tmp_path_factory.mktemp("checkpoint") / "pairs")


@pytest.fixture(scope="module")
def repository(library: tuple[Path, Any], pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("repository")
    for folder in (library[0], pairs):
        import_checkpoint(folder, found)
    return found


@pytest.fixture(scope="module")
def client(repository: Path) -> Iterator[limelight.Client]:
    with serving(repository) as running, limelight.Client(running.server.address) as found:
        yield found


def expected(library: Any, prompt: list[int], output: list[int]) -> tuple[torch.Tensor, list[np.ndarray]]:
    with torch.no_grad():
        answer = library(torch.tensor([prompt + output]), output_attentions=True, use_cache=False)
    return answer.logits[0], [each[0].numpy() for each in answer.attentions]


def test_texts_and_maps_equal_transformers_alone_and_together(client: limelight.Client, library: Any) -> None:
    generation = Generation(max_new_tokens=STEPS)
    together = client.attend("small", [{"text": each} for each in PROMPTS], generation=generation)
    for prompt, answer in zip(PROMPTS, together, strict=True):
        alone = client.attend("small", {"text": prompt}, generation=generation)
        ids = answer.label_sets["prompt"].ids.tolist()
        output = list(answer.prediction.sequences[0].token_ids)
        assert ids[0] == BEGIN and output == list(alone.prediction.sequences[0].token_ids)
        scores, maps = expected(library[1], ids, output)
        assert scores[len(ids) - 1 : -1].argmax(-1).tolist() == output
        assert len(answer.maps) == 2 * len(maps)
        for layer, weights in enumerate(maps):
            of_prompt, of_output = answer[f"prompt.{layer}.self"], answer[f"decoder.{layer}.self"]
            last = len(ids) - 1
            np.testing.assert_allclose(of_prompt.weights, weights[:, : len(ids), : len(ids)], atol=1e-5)
            np.testing.assert_allclose(of_output.weights, weights[:, last:-1, :-1], atol=1e-5)
            np.testing.assert_allclose(of_prompt.weights, alone[f"prompt.{layer}.self"].weights, atol=1e-5)
        assert answer["decoder.0.self"].key.ids.tolist() == ids + output[:-1]


def test_each_token_that_ends_a_text_ends_it(client: limelight.Client) -> None:
    (sequence,) = client.predict("small", {"text": "the cat"}, generation=Generation(max_new_tokens=STEPS)).sequences
    assert (len(sequence.token_ids), sequence.finish_reason) == (3, "end")


def test_tokens_of_a_stream_have_their_maps_and_its_end_has_those_of_the_prompt(client: limelight.Client) -> None:
    whole = client.attend("small", {"text": TEXT}, generation=Generation(max_new_tokens=4))
    *_, end = events = list(client.generate("small", {"text": TEXT}, max_new_tokens=4, attention=Attention()))
    tokens = [each for each in events if isinstance(each, limelight.GeneratedToken)]
    assert [each.id for each in tokens] == list(whole.prediction.sequences[0].token_ids)
    for step, each in enumerate(tokens):
        found = next(one for one in each.maps if one.name == "decoder.1.self").weights
        wanted = whole["decoder.1.self"].weights[:, step : step + 1, : found.shape[2]]
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert isinstance(end, limelight.GenerationEnd)
    of_prompt = {each.name: each.weights for each in end.maps}
    assert set(of_prompt) == {"prompt.0.self", "prompt.1.self"}
    np.testing.assert_allclose(of_prompt["prompt.0.self"], whole["prompt.0.self"].weights, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_what_a_stream_adds_is_its_text_wherever_it_ends(client: limelight.Client, seed: int) -> None:
    """Tokens of this tokenizer are bytes, so that most of these texts end inside a character."""
    events = list(client.generate("small", {"text": "the cat"}, max_new_tokens=1 + seed, temperature=3.0, seed=seed))
    end = events[-1]
    assert isinstance(end, limelight.GenerationEnd)
    added = "".join(each.delta for each in events if isinstance(each, limelight.GeneratedToken))
    assert added == end.sequences[0].text


def test_beams_and_selected_heads_of_a_prompt(client: limelight.Client) -> None:
    beams = Generation(strategy="beam", beams=3, max_new_tokens=4)
    answer = client.attend("small", {"text": TEXT}, maps="prompt.*", heads=[1], queries=[-1], generation=beams)
    whole = client.attend("small", {"text": TEXT}, generation=Generation(max_new_tokens=1))
    assert answer["prompt.1.self"].weights.shape[:2] == (1, 1)
    np.testing.assert_allclose(answer["prompt.1.self"].weights[0, 0], whole["prompt.1.self"].weights[1, -1], atol=1e-5)


def test_a_prompt_without_text_is_refused_and_the_next_is_answered(client: limelight.Client) -> None:
    with pytest.raises(limelight.InvalidArgument, match="is empty"):
        client.predict("small", {"text": ""})
    assert client.predict("small", {"text": "the"}, generation=Generation(max_new_tokens=1)).sequences


def test_maps_of_prompts_and_sources_are_optional_and_those_of_steps_are_not(repository: Path) -> None:
    for name, encoded in (("small", "prompt"), ("pairs", "encoder")):
        bindings = read_bundle(repository / name / "1").bundle.maps
        optional = {each.map for each in bindings if each.gate and each.HasField("probe")}
        assert optional == {each.map for each in bindings if each.map.startswith(encoded)}
        assert len(optional) < len(bindings)
        projected = {each.map for each in bindings if each.HasField("projections")}
        assert projected == (optional if name == "small" else set())  # T5 has a bias by relative position


def test_maps_of_a_prompt_are_streamed_as_they_are_answered(client: limelight.Client) -> None:
    generation = Generation(max_new_tokens=2)
    whole = client.attend("small", {"text": TEXT}, generation=generation)
    events = client.attend_stream("small", {"text": TEXT}, maps="prompt.*", generation=generation)
    (streamed,) = limelight.put_together(events)
    assert [each.name for each in streamed.maps] == ["prompt.0.self", "prompt.1.self"]
    for each in streamed.maps:
        np.testing.assert_allclose(each.weights, whole[each.name].weights, atol=1e-5)


def test_rows_that_request_other_maps_share_a_prefill(client: limelight.Client) -> None:
    """Prompts of one call, each with its own part: the last query of the longest, and of the shortest."""
    generation = Generation(max_new_tokens=1)
    alone = [client.attend("small", {"text": each}, generation=generation) for each in PROMPTS]
    inputs = [{"text": each} for each in PROMPTS]
    together = client.attend("small", inputs, maps="prompt.1.self", heads=[3], queries=[-1], generation=generation)
    for some, whole in zip(together, alone, strict=True):
        np.testing.assert_allclose(
            some["prompt.1.self"].weights, whole["prompt.1.self"].weights[[3], -1:, :], atol=1e-5
        )


def test_a_decoder_attends_along_a_text_that_is_given(client: limelight.Client, library: tuple[Path, Any]) -> None:
    target = " sat on a mat"
    output = Tokenizer.from_file(str(library[0] / "tokenizer.json")).encode(target, add_special_tokens=False).ids
    answer = client.attend("small", {"text": "the cat", "target": target})
    (sequence,) = answer.prediction.sequences
    assert (list(sequence.token_ids), sequence.finish_reason, sequence.text) == (output, "target", target)
    ids = answer.label_sets["prompt"].ids.tolist()
    scores, maps = expected(library[1], ids, output)
    last = len(ids) - 1
    log_probabilities = scores.log_softmax(-1)[range(last, last + len(output)), output]
    np.testing.assert_allclose(sequence.log_probabilities, log_probabilities.numpy(), atol=1e-4)
    for layer, weights in enumerate(maps):
        np.testing.assert_allclose(answer[f"decoder.{layer}.self"].weights, weights[:, last:-1, :-1], atol=1e-5)


def test_an_encoder_decoder_attends_along_a_text_that_is_given(client: limelight.Client, pairs: Path) -> None:
    answer = client.attend("pairs", {"text": TEXT, "target": "a dog ran"})
    output = list(answer.prediction.sequences[0].token_ids)
    tokenizer = Tokenizer.from_file(str(pairs / "tokenizer.json"))
    assert output == tokenizer.encode("a dog ran").ids
    model = AutoModelForSeq2SeqLM.from_pretrained(pairs, attn_implementation="eager").eval()
    begin = model.config.decoder_start_token_id
    with torch.no_grad():
        wanted = model(
            input_ids=torch.tensor([tokenizer.encode(TEXT).ids]),
            decoder_input_ids=torch.tensor([[begin, *output[:-1]]]),
            output_attentions=True,
        )
    for name, maps in (
        ("encoder.{}.self", wanted.encoder_attentions),
        ("decoder.{}.self", wanted.decoder_attentions),
        ("decoder.{}.cross", wanted.cross_attentions),
    ):
        for layer, weights in enumerate(maps):
            np.testing.assert_allclose(answer[name.format(layer)].weights, weights[0].numpy(), atol=1e-5)
    one = client.attend("pairs", {"text": TEXT}, maps="encoder.1.self", heads=[2], queries=[4])
    np.testing.assert_allclose(one["encoder.1.self"].weights[0, 0], wanted.encoder_attentions[1][0, 2, 4], atol=1e-5)
