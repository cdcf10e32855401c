"""Imported decoders answer as transformers does with eager attention: scores and maps of prompts and of every step."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModelForCausalLM

from limelight_bundle.values import Text
from limelight_export.errors import CheckpointError, ExportError
from limelight_export.importing.huggingface import decoder_attention
from limelight_export.importing.huggingface.imported_decoder import ImportedDecoder, output_map, prompt_map
from limelight_export.importing.huggingface.importer import read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from tests.importing.huggingface.checkpoints import Read, change_config, reader, write_json
from tests.importing.huggingface.decoders import DECODERS, END, VOCABULARY

SPARE = 3  # entries of a cache that no row has


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    return reader(DECODERS, AutoModelForCausalLM, tmp_path_factory)


def eager(library: Any, tokens: list[int]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Answer for a whole text: scores [token, vocabulary], and a map [head, query, key] of each layer."""
    with torch.no_grad():
        output = library(torch.tensor([tokens]), output_attentions=True, use_cache=False)
    return output.logits[0], tuple(each[0] for each in output.attentions)


def close(found: Tensor, expected: Tensor) -> bool:
    """Compare, within the rounding of the largest number."""
    atol = 2e-5 * max(1.0, float(expected.abs().max()))
    return found.shape == expected.shape and torch.allclose(found, expected, atol=atol, rtol=2e-4)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 8)), min_size=1, max_size=3), seed=st.integers(0))
def test_prompts_and_steps_equal_transformers(name: str, read: Read, lengths: list[tuple[int, int]], seed: int) -> None:
    """lengths: of each row, tokens that are read at once, and steps."""
    trained, library = read(name)
    network, written = trained.model, trained.card.written
    assert isinstance(network, ImportedDecoder) and written is not None
    random = torch.Generator().manual_seed(seed % 2**32)
    texts = [torch.randint(3, VOCABULARY, (sum(each),), generator=random).tolist() for each in lengths]
    expected = [eager(library, each) for each in texts]
    longest = max(prompt for prompt, _ in lengths)
    token = torch.zeros((len(texts), longest), dtype=torch.int64)
    for row, (text, (prompt, _)) in enumerate(zip(texts, lengths, strict=True)):
        token[row, :prompt] = torch.tensor(text[:prompt])
    with torch.no_grad():
        read_at_once = network.prefill(token, torch.arange(longest).expand(len(texts), -1))
    for row, (prompt, _) in enumerate(lengths):
        for layer, weights in enumerate(expected[row][1]):
            assert close(read_at_once[prompt_map(layer)][row, :, :prompt, :prompt], weights[:, :prompt, :prompt])
    capacity = max(map(len, texts)) + SPARE
    states = {}
    for each in written.states:
        new = read_at_once[each.output]
        states[each.input] = torch.full((*new.shape[:2], capacity, new.shape[3]), 7.0)
        states[each.input][:, :, :longest] = new
    position = torch.tensor([prompt for prompt, _ in lengths])
    for step in range(max(steps for _, steps in lengths)):
        at = [min(prompt + step, len(text) - 1) for text, (prompt, _) in zip(texts, lengths, strict=True)]
        put_in = torch.tensor([text[place] for text, place in zip(texts, at, strict=True)])
        with torch.no_grad():
            answer = network.step(put_in, position=position, **states)
        for row, (_, steps) in enumerate(lengths):
            if step >= steps:
                continue
            scores, maps = expected[row]
            assert close(answer.scores[row], scores[at[row]])
            for layer, weights in enumerate(maps):
                found = answer.maps[output_map(layer)][row]
                assert close(found[:, : at[row] + 1], weights[:, at[row], : at[row] + 1])
                assert not found[:, at[row] + 1 :].any()
        for each in written.states:
            states[each.input] = states[each.input].clone()
            states[each.input][torch.arange(len(texts)), :, position.clamp(max=capacity - 1)] = answer.states[
                each.output
            ][:, :, 0]
        position = (position + 1).clamp(max=capacity - 1)


def test_rows_of_sinks_sum_to_less_than_one_and_say_so(read: Read) -> None:
    trained, library = read("gpt-oss")
    assert not any(each.normalised for each in trained.card.description.maps)
    assert all(each.normalised for each in read("llama")[0].card.description.maps)
    sums = eager(library, [5, 6, 7, 8])[1][0].sum(-1)
    assert float(sums.max()) < 1


@pytest.mark.parametrize("name", DECODERS)
def test_a_prompt_and_its_output_fit_the_positions_within_which_frequencies_are_the_same(name: str, read: Read) -> None:
    written = read(name)[0].card.written
    assert written is not None and written.prompt is not None
    assert written.prompt.max_tokens + written.max_new_tokens == DECODERS[name].positions


@pytest.mark.parametrize("name", DECODERS)
def test_the_lens_reads_from_a_layer_what_a_model_that_ends_there_writes(name: str, read: Read) -> None:
    trained, library = read(name)
    network = trained.model
    assert isinstance(network, ImportedDecoder)
    tokens = torch.tensor([[5, 6, 7, 8, 9]])
    shorter = copy.deepcopy(library)
    layers = next(each for each in shorter.get_decoder().children() if isinstance(each, torch.nn.ModuleList))
    del layers[1]
    with torch.no_grad():
        output = library(tokens, output_hidden_states=True, use_cache=False)
        wanted = torch.stack([shorter(tokens, use_cache=False).logits[0, -1], output.logits[0, -1]])
        vectors = torch.stack([each[0, -1] for each in output.hidden_states[1:]])
        found, chances = network.lens(vectors, torch.tensor([False, True]))
    best = wanted.log_softmax(-1).topk(found.shape[1])
    assert close(chances, best.values) and torch.equal(found, best.indices)


def _twice_the_scale(run: Any) -> Any:
    return lambda self, products, mask: run(self, 2 * products, mask)


def _no_mask(run: Any) -> Any:
    return lambda self, products, mask: run(self, products, torch.ones_like(mask))


def _swapped_heads(run: Any) -> Any:
    return lambda self, products, mask: run(self, products.flip(1), mask)


@pytest.mark.parametrize("sabotage", [_twice_the_scale, _no_mask, _swapped_heads])
def test_a_decoder_that_computes_something_else_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sabotage: Any
) -> None:
    folder = DECODERS["llama"].write(tmp_path / "llama")
    scores = decoder_attention._Scores
    monkeypatch.setattr(scores, "weights", sabotage(scores.weights))
    with pytest.raises(ExportError, match="differs from transformers' eager attention by "):
        read_model(folder)


def test_tokens_that_end_a_text_are_those_of_the_generation_config(tmp_path: Path) -> None:
    folder = DECODERS["llama"].write(tmp_path / "llama")
    write_json(folder / "generation_config.json", {"eos_token_id": [7, END, 7]})
    generation = read_model(folder).card.generation
    assert generation is not None
    assert (generation.end_token, list(generation.more_end_tokens)) == (7, [END])
    (folder / "generation_config.json").unlink()
    change_config(folder, eos_token_id=None)
    with pytest.raises(CheckpointError, match="a text would never end"):
        read_model(folder)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("gemma2", "use_bidirectional_attention", True),
        # transformers reads it no more.
        ("gemma3", "attn_logit_softcapping", 50.0),
        ("gpt2", "add_cross_attention", True),
        ("gpt2", "reorder_and_upcast_attn", True),
        ("bloom", "slow_but_exact", True),
        # transformers ignores them.
        ("phi3", "attention_bias", True),
        ("mpt", "logit_scale", 0.5),
    ],
)
def test_a_value_that_a_decoder_does_not_compute_is_refused(
    tmp_path: Path, name: str, field: str, value: object
) -> None:
    folder = DECODERS[name].write(tmp_path / name)
    change_config(folder, **{field: value})
    with pytest.raises(CheckpointError, match=f"states {field} {value}, which is not computed; it can be "):
        read_model(folder)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("mpt", {"attn_config": {"qk_ln": True}}, "states qk_ln True, which is not computed; it can be False"),
        ("gpt-neox", {"rope_theta": 500.0}, "states rope_theta 500.0, which is not classified for gpt_neox"),
        ("opt", {"rms_norm_eps": 1.0}, "states rms_norm_eps 1.0, which is not classified for opt"),
    ],
)
def test_a_field_that_a_decoder_does_not_read_is_refused(
    tmp_path: Path, name: str, change: dict[str, Any], message: str
) -> None:
    folder = DECODERS[name].write(tmp_path / name)
    change_config(folder, **change)
    with pytest.raises(CheckpointError, match=message):
        read_model(folder)


def test_a_decoder_whose_last_vectors_have_another_size_is_refused(tmp_path: Path) -> None:
    folder = DECODERS["opt-behind"].write(tmp_path / "opt", word_embed_proj_dim=16)
    with pytest.raises(CheckpointError, match="vectors of 16 and 32 features follow one another"):
        read_model(folder)


def test_a_model_whose_tokens_see_those_behind_them_continues_no_text(tmp_path: Path) -> None:
    folder = DECODERS["gemma3"].write(tmp_path / "gemma3", use_bidirectional_attention=True)
    with pytest.raises(CheckpointError, match="no text can be continued; the model can be an embedding: --task emb"):
        read_model(folder)


def test_more_tokens_than_the_model_has_positions_are_refused(tmp_path: Path) -> None:
    folder = DECODERS["llama"].write(tmp_path / "llama")
    with pytest.raises(CheckpointError, match="reads at most 96 tokens, not 97"):
        read_model(folder, options=ImportOptions(max_tokens=97))
    short = read_model(folder, options=ImportOptions(max_tokens=12))
    assert [example["text"] for example in short.examples] == [Text("The cat")]
    with pytest.raises(CheckpointError, match="too long for the model; give it one: --example TEXT"):
        read_model(folder, options=ImportOptions(max_tokens=2))
