"""Imported models that generate as a client reads them: texts, and maps of prompts, sources and output tokens."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

import limelight
from limelight import Attention, Generation, Grouping, TextSpan
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


def test_weights_stand_once_whatever_graphs_read_them(library: tuple[Path, Any], repository: Path) -> None:
    """A checkpoint's, which has each once: those of prompts, steps, the head that the lens reads, interventions."""
    folder = read_bundle(repository / "small" / "1")
    tensors = {
        graph.name: onnx.load(folder.file(graph.file), load_external_data=False).graph.initializer
        for graph in folder.bundle.graphs
    }
    assert tensors.keys() == {"step", "prefill", "lens", "intervened_step", "intervened_prefill"}
    shared = {
        name: {each.value: math.prod(one.dims) for one in found for each in one.external_data if each.key == "offset"}
        for name, found in tensors.items()
    }
    assert shared["lens"] and shared["lens"].keys() <= shared["step"].keys() == shared["intervened_step"].keys()
    own = [one.raw_data for found in tensors.values() for one in found if len(one.raw_data) > 4096]
    values = sum({place: size for each in shared.values() for place, size in each.items()}.values())
    assert values * 4 + sum(map(len, own)) <= (library[0] / "model.safetensors").stat().st_size


@pytest.fixture(scope="module")
def client(repository: Path) -> Iterator[limelight.Client]:
    with serving(repository) as running, limelight.Client(running.server.address) as found:
        yield found


@pytest.fixture(scope="module")
def processes(repository: Path) -> Iterator[limelight.Client]:
    """The same models behind frontends of their own."""
    with serving(repository, frontends=1) as running, limelight.Client(running.server.address) as found:
        yield found


@pytest.fixture(scope="module")
def changing(library: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    """The decoder with interventions."""
    found = tmp_path_factory.mktemp("changing")
    import_checkpoint(library[0], found)
    with serving(found) as running, limelight.Client(running.server.address) as caller:
        yield caller


def expected(library: Any, prompt: list[int], output: list[int]) -> tuple[torch.Tensor, list[np.ndarray]]:
    with torch.no_grad():
        answer = library(torch.tensor([prompt + output]), output_attentions=True, use_cache=False)
    return answer.logits[0], [each[0].numpy() for each in answer.attentions]


def check_texts_and_maps(client: limelight.Client, name: str, library: Any, *, begins: bool = True) -> None:
    """Check answers against transformers, alone and together. begins: whether prompts get a begin token."""
    generation = Generation(max_new_tokens=STEPS)
    together = client.attend(name, [{"text": each} for each in PROMPTS], generation=generation)
    for prompt, answer in zip(PROMPTS, together, strict=True):
        alone = client.attend(name, {"text": prompt}, generation=generation)
        ids = answer.label_sets["prompt"].ids.tolist()
        output = list(answer.prediction.sequences[0].token_ids)
        assert (ids[0] == BEGIN) == begins and output == list(alone.prediction.sequences[0].token_ids)
        scores, maps = expected(library, ids, output)
        assert scores[len(ids) - 1 : -1].argmax(-1).tolist() == output
        assert len(answer.maps) == 2 * len(maps)
        for layer, weights in enumerate(maps):
            of_prompt, of_output = answer[f"prompt.{layer}.self"], answer[f"decoder.{layer}.self"]
            last = len(ids) - 1
            np.testing.assert_allclose(of_prompt.weights, weights[:, : len(ids), : len(ids)], atol=1e-5)
            np.testing.assert_allclose(of_output.weights, weights[:, last:-1, :-1], atol=1e-5)
            np.testing.assert_allclose(of_prompt.weights, alone[f"prompt.{layer}.self"].weights, atol=1e-5)
        assert answer["decoder.0.self"].key.ids.tolist() == ids + output[:-1]


def test_texts_and_maps_equal_transformers_alone_and_together(client: limelight.Client, library: Any) -> None:
    check_texts_and_maps(client, "small", library[1])


# What differs in their graphs: merged projections, parts of heads that are turned, offsets of positions, one head of
# keys, norms, keys and values of different sizes and experts, and modules that compute attention by themselves.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["phi3", "gpt-neox", "opt", "gpt-bigcode", "nemotron", "deepseek-v3", "gpt-neo", "gptj", "bloom", "xglm", "mpt"],
)
def test_decoders_of_every_kind_answer_as_transformers_does(name: str, tmp_path: Path) -> None:
    folder = DECODERS[name].write(tmp_path / name)
    import_checkpoint(folder, tmp_path / "repository", interventions=False)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    with serving(tmp_path / "repository") as running, limelight.Client(running.server.address) as client:
        check_texts_and_maps(client, name, model, begins=DECODERS[name].begins)


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


ACUTE = "\N{COMBINING ACUTE ACCENT}"
SPANNED = f"the cat \N{DOG FACE}e{ACUTE} sat on"
OF_STEPS = {"maps": "decoder.*", "generation": Generation(max_new_tokens=4)}


def places_by_library(folder: Path) -> list[tuple[int, int]]:
    """Where the tokens stand. Of a letter that is composed with a mark, the library tells the letter's place alone; the
    last token of it has the mark.
    """
    offsets = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(SPANNED).offsets
    mark, places = (
        SPANNED.index(ACUTE),
        [place for place, (_, end) in enumerate(offsets) if end == SPANNED.index(ACUTE)],
    )
    if not any(start == mark for start, _ in offsets):
        offsets[places[-1]] = (offsets[places[-1]][0], mark + 1)
    return offsets


def in_groups(**groups: Any) -> Grouping:
    return Grouping(groups=groups, label_set="input")


def test_what_is_read_has_its_place_in_the_prompt_or_in_the_generated_text(
    client: limelight.Client, processes: limelight.Client
) -> None:
    text = "the cat \N{DOG FACE} <s>"  # whose last letters are one token
    answers = [each.attend("small", {"text": text}, **OF_STEPS) for each in (client, processes)]
    assert answers[0].label_sets["input"] == answers[1].label_sets["input"]
    read, (sequence,) = answers[0].label_sets["input"], answers[0].prediction.sequences
    for place, (start, end) in enumerate(read.offsets):
        source = {"text": text, "output": sequence.text}[read.origins[place]]
        assert source[start:end].strip() == ("" if read.special[place] else read.labels[place].strip())
    prompt = client.tokenize("small", text).tokens
    count = len(prompt)
    assert read.origins == ("text",) * count + ("output",) * (len(sequence.token_ids) - 1)
    assert read.offsets[:count] == prompt.offsets
    last = None
    for event in client.generate("small", {"text": text}, max_new_tokens=4, attention=Attention(maps="decoder.0.self")):
        last = event.maps[0].key if isinstance(event, limelight.GeneratedToken) else last
    assert last is not None
    assert (last.offsets, last.origins) == (read.offsets, read.origins)


@settings(max_examples=15, deadline=None)
@given(ends=st.lists(st.integers(0, len(SPANNED)), min_size=2, max_size=2, unique=True).map(sorted))
def test_a_span_of_the_prompt_has_the_sum_of_the_tokens_that_it_covers(
    client: limelight.Client, processes: limelight.Client, library: tuple[Path, Any], ends: list[int]
) -> None:
    offsets = places_by_library(library[0])
    places = [place for place, (start, end) in enumerate(offsets) if start < ends[1] and ends[0] < end]
    groups = in_groups(span=TextSpan(*ends), prompt="text", written="output")
    whole = client.attend("small", {"text": SPANNED}, **OF_STEPS)
    alone = processes.attend("small", {"text": SPANNED}, key_groups=groups, **OF_STEPS)
    inputs = [{"text": each} for each in (TEXT, SPANNED)]
    key_groups = in_groups(span=TextSpan(0, 1), prompt="text", written="output")
    _, together = client.attend("small", inputs, key_groups=key_groups, **OF_STEPS)
    tokens = [
        {one.name: one.weights for one in each.maps}
        for each in client.generate(
            "small", {"text": SPANNED}, max_new_tokens=4, attention=Attention(maps="decoder.*", key_groups=groups)
        )
        if isinstance(each, limelight.GeneratedToken)
    ]
    for name in ("decoder.0.self", "decoder.1.self"):
        weights, read = whole[name].weights, len(offsets)
        wanted = [weights[:, :, each].sum(-1) for each in (places, range(1, read), range(read, weights.shape[2]))]
        np.testing.assert_allclose(alone[name].weights, np.stack(wanted, -1), atol=1e-6)
        np.testing.assert_allclose(together[name].weights[..., 1:], alone[name].weights[..., 1:], atol=1e-6)
        for step, found in enumerate(tokens):
            np.testing.assert_allclose(found[name][:, 0], alone[name].weights[:, step], atol=1e-6)


def test_spans_of_the_generated_text_group_output_steps_and_what_is_read(client: limelight.Client) -> None:
    asked = {"text": "the cat", "target": " sat on a mat"}
    whole = client.attend("small", asked, maps="decoder.0.self")
    key = whole["decoder.0.self"].key
    (start,) = (place for place, label in enumerate(key.labels) if key.offsets[place] == (8, 9))
    answer = client.attend(
        "small",
        asked,
        maps="decoder.0.self",
        key_groups=in_groups(a=TextSpan(8, 9, part="output")),
        query_groups=Grouping(groups={"sentence": TextSpan(0, 4), "rest": TextSpan(5, 13)}, label_set="output"),
    )
    steps = whole["decoder.0.self"].query.offsets
    for number, (begin, end) in enumerate(((0, 4), (5, 13))):
        rows = [place for place, each in enumerate(steps) if each[0] < end and each[1] > begin]
        wanted = whole["decoder.0.self"].weights[:, rows, start].mean(-1)
        np.testing.assert_allclose(answer["decoder.0.self"].weights[:, number, 0], wanted, atol=1e-6)


def test_a_span_that_the_prompt_lacks_is_refused_before_anything_is_generated(client: limelight.Client) -> None:
    for part, said in (("", "where none of"), ("text", "where none of"), ("title", "come from text, output")):
        groups = in_groups(first=0, span=[TextSpan(0, 3), TextSpan(90, 91, part=part)])
        with pytest.raises(limelight.InvalidArgument, match=said) as refused:
            client.attend("small", "the cat", key_groups=groups, generation=Generation(max_new_tokens=100))
        field = "attention.key_groups[0].groups[1].spans[1]"
        assert field + (".part" if part == "title" else "") in str(refused.value)


def test_keys_of_steps_are_changed_by_spans_of_the_prompt(client: limelight.Client, changing: limelight.Client) -> None:
    names = ("decoder.0.self", "decoder.1.self")
    by_span = [limelight.scale_keys(each, TextSpan(4, 7), 0.25) for each in names]
    prompt = client.tokenize("small", SPANNED).tokens
    places = [place for place, (start, end) in enumerate(prompt.offsets) if start < 7 and end > 4]
    by_place = [limelight.scale_keys(each, places, 0.25) for each in names]
    written = limelight.scale_keys(names[0], ["output"], 0.0)
    asked = (by_span, by_place, [written])
    found = [changing.attend("small", SPANNED, interventions=each, **OF_STEPS) for each in asked]
    for name in names:
        np.testing.assert_array_equal(found[0][name].weights, found[1][name].weights)
    assert not found[2][names[0]].weights[:, :, len(prompt) :].any()
    for keys, said in ((TextSpan(90, 91), "where none of"), (TextSpan(0, 1, part="output"), "is not known yet")):
        with pytest.raises(limelight.InvalidArgument, match=said) as refused:
            changing.predict("small", SPANNED, interventions=[limelight.scale_keys(names[0], keys)])
        assert "instances[0].interventions[0].key_factor.keys.spans[0]" in str(refused.value)


def test_tokens_are_those_of_the_library(client: limelight.Client, library: tuple[Path, Any], pairs: Path) -> None:
    for name, folder in (("small", library[0]), ("pairs", pairs)):
        wanted = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(SPANNED)
        found = client.tokenize(name, SPANNED)
        assert (len(found), found.truncated, found.tokens.ids.tolist()) == (len(wanted.ids), False, wanted.ids)
        assert found.tokens.special.tolist() == list(map(bool, wanted.special_tokens_mask))
        assert list(found.tokens.offsets) == places_by_library(folder)
    with pytest.raises(limelight.InvalidArgument, match="shorten it or set truncate"):
        client.tokenize("small", "the cat " * POSITIONS)
    cut = client.tokenize("small", ["the cat", "the cat " * POSITIONS], truncate=True)
    assert [each.truncated for each in cut] == [False, True]


def test_a_decoder_goes_on_behind_a_target_as_transformers_does(
    client: limelight.Client, library: tuple[Path, Any]
) -> None:
    folder, model = library
    tokenizer, target = Tokenizer.from_file(str(folder / "tokenizer.json")), " sat on"
    prompt, given = tokenizer.encode("a dog").ids, tokenizer.encode(target, add_special_tokens=False).ids
    ends = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    wanted = model.generate(
        torch.tensor([prompt + given]),
        max_new_tokens=5,
        do_sample=False,
        eos_token_id=ends,
        output_logits=True,
        return_dict_in_generate=True,
    )
    tokens = wanted.sequences[0, len(prompt) :].tolist()
    options = {"continue_target": True, "max_new_tokens": 5, "top_logprobs": 20}
    inputs = [{"text": "the cat", "target": " sat"}, {"text": "a dog", "target": target}]
    together = client.attend("small", inputs, generation=Generation(**options))[1]
    (sequence,) = together.prediction.sequences
    assert (list(sequence.token_ids), sequence.forced_tokens) == (tokens, len(given))
    assert sequence.text == tokenizer.decode(tokens) and sequence.text.startswith(target)
    scores, maps = expected(model, prompt, tokens)
    of_steps = scores[len(prompt) - 1 : -1].log_softmax(-1)
    np.testing.assert_allclose(sequence.log_probabilities, of_steps[range(len(tokens)), tokens], atol=1e-4)
    most, ids = of_steps.topk(20)
    assert sequence.top is not None
    np.testing.assert_allclose(sequence.top.log_probabilities, most, atol=1e-4)
    chosen = of_steps.gather(1, torch.tensor(sequence.top.token_ids, dtype=torch.int64))
    np.testing.assert_allclose(chosen, most, atol=1e-4)
    assert sequence.top.texts[0][0] == tokenizer.id_to_token(int(ids[0, 0]))
    behind = torch.stack(wanted.logits)[:, 0].log_softmax(-1)
    chosen = behind[range(len(behind)), tokens[len(given) :]]
    np.testing.assert_allclose(sequence.log_probabilities[len(given) :], chosen, atol=1e-4)
    for layer, weights in enumerate(maps):
        np.testing.assert_allclose(
            together[f"decoder.{layer}.self"].weights, weights[:, len(prompt) - 1 : -1, :-1], atol=1e-5
        )
    events = [*client.generate("small", inputs[1], **options)]
    streamed = [each for each in events if isinstance(each, limelight.GeneratedToken)]
    assert [each.id for each in streamed] == tokens
    assert [each.forced for each in streamed] == [place < len(given) for place in range(len(tokens))]
    for place, each in enumerate(streamed):
        assert each.top is not None
        np.testing.assert_array_equal(each.top.token_ids[0], sequence.top.token_ids[place])


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_an_encoder_decoder_goes_on_behind_a_target(
    client: limelight.Client, pairs: Path, strategy: Literal["greedy", "beam", "sample"]
) -> None:
    tokenizer = Tokenizer.from_file(str(pairs / "tokenizer.json"))
    model = AutoModelForSeq2SeqLM.from_pretrained(pairs, attn_implementation="eager").eval()
    given = tokenizer.encode("a dog").ids
    begin, asked = model.config.decoder_start_token_id, {"text": TEXT, "target": "a dog"}
    options = Generation(
        strategy=strategy, beams=3, hypotheses=3, continue_target=True, max_new_tokens=4, top_k=3, length_penalty=1.0
    )
    sequences = client.predict("pairs", asked, generation=options, seed=5 if strategy == "sample" else None).sequences
    assert [list(each.token_ids[: len(given)]) for each in sequences] == [given] * len(sequences)
    assert {each.forced_tokens for each in sequences} == {len(given)}
    if strategy == "sample":
        again = client.predict("pairs", asked, generation=options, seed=5).sequences
        assert again == sequences
        return
    beams = {"num_beams": 3, "num_return_sequences": 3, "early_stopping": "never"} if strategy == "beam" else {}
    wanted = model.generate(
        torch.tensor([tokenizer.encode(TEXT).ids]),
        decoder_input_ids=torch.tensor([[begin, *given]]),
        max_new_tokens=4,
        do_sample=False,
        use_cache=False,
        length_penalty=1.0,
        **beams,
    )
    ends = model.config.eos_token_id
    found = {tuple(each.token_ids) for each in sequences}
    cut = {tuple(row[1 : row.index(ends, 1) + 1] if ends in row[1:] else row[1:]) for row in wanted.tolist()}
    assert found == cut
