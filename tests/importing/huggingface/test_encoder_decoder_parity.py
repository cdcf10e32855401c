"""Imported encoder–decoders answer as transformers does: maps of the source, and scores and maps of every step."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM

from limelight_export.errors import CheckpointError, ExportError
from limelight_export.importing.huggingface import decoder_attention
from limelight_export.importing.huggingface.imported_decoder import output_map
from limelight_export.importing.huggingface.imported_encoder_decoder import (
    ImportedEncoderDecoder,
    cross_map,
    source_map,
)
from limelight_export.importing.huggingface.importer import read_model
from tests.importing.huggingface.checkpoints import Read, change_config, reader, write_json
from tests.importing.huggingface.decoders import VOCABULARY
from tests.importing.huggingface.encoder_decoders import ENCODER_DECODERS

STEPS = 5
SPARE = 2  # entries of a cache that no row has


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    return reader(ENCODER_DECODERS, AutoModelForSeq2SeqLM, tmp_path_factory)


def close(found: Tensor, expected: Tensor) -> bool:
    return found.shape == expected.shape and torch.allclose(found, expected, atol=5e-5, rtol=5e-4)


@pytest.mark.parametrize("name", ENCODER_DECODERS)
@settings(max_examples=6, deadline=None)
@given(lengths=st.lists(st.integers(1, 24), min_size=1, max_size=3), seed=st.integers(0, 2**31))
def test_sources_and_steps_equal_transformers(name: str, read: Read, lengths: list[int], seed: int) -> None:
    trained, library = read(name)
    network, written = trained.model, trained.card.written
    assert isinstance(network, ImportedEncoderDecoder) and written is not None
    random = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    source = torch.randint(3, VOCABULARY, mask.shape, generator=random)
    output = torch.randint(3, VOCABULARY, (len(lengths), STEPS), generator=random)
    output[:, 0] = written.begin
    with torch.no_grad():
        expected = [
            library(
                input_ids=source[row : row + 1, :length],
                decoder_input_ids=output[row : row + 1],
                output_attentions=True,
                use_cache=False,
            )
            for row, length in enumerate(lengths)
        ]
        encoded = network.encode(token_ids=source, token_mask=mask)
    for row, (length, answer) in enumerate(zip(lengths, expected, strict=True)):
        for layer, weights in enumerate(answer.encoder_attentions):
            assert close(encoded[source_map(layer)][row, :, :length, :length], weights[0])
    states = {
        each.input: torch.full((len(lengths), each.cache[0], STEPS + SPARE, each.cache[1]), 7.0)
        for each in written.states
        if each.cache is not None
    }
    for step in range(STEPS):
        position = torch.full((len(lengths),), step)
        with torch.no_grad():
            found = network.step(output[:, step], position=position, token_mask=mask, **states, **encoded)
        for each in written.states:
            states[each.input][:, :, step] = found.states[each.output][:, :, 0]
        for row, (length, answer) in enumerate(zip(lengths, expected, strict=True)):
            assert close(found.scores[row], answer.logits[0, step])
            for layer, weights in enumerate(answer.decoder_attentions):
                assert close(found.maps[output_map(layer)][row, :, : step + 1], weights[0, :, step, : step + 1])
                assert not found.maps[output_map(layer)][row, :, step + 1 :].any()
            for layer, weights in enumerate(answer.cross_attentions):
                assert close(found.maps[cross_map(layer)][row, :, :length], weights[0, :, step])
                assert not found.maps[cross_map(layer)][row, :, length:].any()


@pytest.mark.parametrize("name", ["bart", "marian"])
def test_tokens_are_forced_and_suppressed_as_generation_config_states(tmp_path: Path, name: str) -> None:
    folder = ENCODER_DECODERS[name].write(tmp_path / name)
    source = torch.arange(3, 11)[None]
    free = _written(AutoModelForSeq2SeqLM.from_pretrained(folder), source)
    change_config(folder, forced_bos_token_id=9)
    rules = {"forced_bos_token_id": 7, "bad_words_ids": [[free[0]], [free[1]], [4, 5]], "begin_suppress_tokens": [11]}
    stated = json.loads((folder / "generation_config.json").read_text())
    write_json(folder / "generation_config.json", stated | rules)
    expected = _written(AutoModelForSeq2SeqLM.from_pretrained(folder), source)
    assert expected[0] == 7 and not {free[0], free[1]} & set(expected[1:])
    trained = read_model(folder)
    network, written = trained.model, trained.card.written
    assert isinstance(network, ImportedEncoderDecoder) and written is not None
    mask = torch.ones_like(source, dtype=torch.bool)
    with torch.no_grad():
        encoded = network.encode(token_ids=source, token_mask=mask)
        states = {
            each.input: torch.zeros((1, each.cache[0], STEPS, each.cache[1])) for each in written.states if each.cache
        }
        token, found = torch.tensor([written.begin]), list[int]()
        for step in range(STEPS):
            answer = network.step(token, position=torch.tensor([step]), token_mask=mask, **states, **encoded)
            for each in written.states:
                states[each.input][:, :, step] = answer.states[each.output][:, :, 0]
            token = answer.scores.argmax(-1)
            found.append(int(token))
    assert found == expected


def _written(library: Any, source: Tensor) -> list[int]:
    """Write with transformers: the tokens behind the first."""
    library.generation_config.eos_token_id = library.generation_config.forced_eos_token_id = None
    with torch.no_grad():
        tokens = library.eval().generate(source, do_sample=False, num_beams=1, max_new_tokens=STEPS)
    return tokens[0, 1:].tolist()


def test_relative_positions_that_differ_from_the_librarys_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ENCODER_DECODERS["t5"].write(tmp_path / "t5")
    bias = decoder_attention._relative_bias
    monkeypatch.setattr(
        decoder_attention, "_relative_bias", lambda module, entries, position: bias(module, entries, position + 1)
    )
    with pytest.raises(ExportError, match="differs from transformers' eager attention by "):
        read_model(folder)


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        ("bart", "forced_bos_token_id", VOCABULARY, "states no token of the model as forced_bos_token_id"),
        ("t5", "bad_words_ids", [[-1]], "states no token of the model as bad_words_ids"),
        ("bart", "normalize_before", True, "states normalize_before True, which is not computed"),
        ("t5", "is_decoder", True, "states is_decoder True, which is not computed"),
        ("marian", "share_encoder_decoder_embeddings", False, "which is not computed; it can be True"),
        ("t5", "decoder_start_token_id", None, "no token of the model as decoder_start_token_id"),
        ("t5", "eos_token_id", None, "a text would never end"),
    ],
)
def test_what_an_encoder_decoder_does_not_compute_is_refused(
    tmp_path: Path, name: str, field: str, value: object, message: str
) -> None:
    folder = ENCODER_DECODERS[name].write(tmp_path / name)
    change_config(folder, **{field: value})
    (folder / "generation_config.json").unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match=message):
        read_model(folder)
