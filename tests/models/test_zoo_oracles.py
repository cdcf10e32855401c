"""Published models against transcriptions of their papers in NumPy (`tests/oracles/zoo`)."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tests.oracles.zoo
from limelight_models.index import ZOO, published, variants
from tests.kit import small

FILES = {path.stem for path in Path(tests.oracles.zoo.__file__).parent.glob("[a-z]*.py")}
MODELS = {name: file for name, entry in ZOO.items() if (file := entry.module.rpartition(".")[2]) in FILES}
SIGNAL = "signal."


def transcription(name: str) -> Any:
    """The file of a model's paper, or of that whose variant it is."""
    return import_module(f"tests.oracles.zoo.{MODELS[published(name)]}")


def test_every_transcription_is_of_a_model() -> None:
    assert set(MODELS.values()) == FILES


@pytest.mark.parametrize("name", [name for model in MODELS for name in (model, *variants(model))])
def test_a_model_answers_as_its_paper_says(name: str) -> None:
    oracle = transcription(name)
    network, card = small.make(name), small.card(name)
    for example in small.data(name).test:
        read = small.batch(card, [card.preprocessor().row(example.instance)])
        batch = {each: tensor.double() if tensor.is_floating_point() else tensor for each, tensor in read.items()}
        found = network(**batch)
        wanted = oracle.answer(network, {each: tensor[0].numpy() for each, tensor in batch.items()})
        signals = {f"{SIGNAL}{each}": value for each, value in found.signals.items()}
        given = {**found.outputs, **found.maps, **signals}
        assert set(given) == set(wanted)
        for each, value in wanted.items():
            np.testing.assert_allclose(given[each][0].numpy(), value, rtol=1e-9, atol=1e-11, err_msg=each)


def test_a_transcription_notices_what_a_model_does_otherwise() -> None:
    """The sabotage that the test above must notice: weights of another question."""
    network, card = small.make("memn2n"), small.card("memn2n")
    row = card.preprocessor().row(small.data("memn2n").test[0].instance)
    batch = small.batch(card, [row])
    wanted = transcription("memn2n").answer(network, {each: tensor[0].numpy() for each, tensor in batch.items()})
    batch["question_ids"] = torch.flip(batch["question_ids"], [1])
    assert not np.allclose(network(**batch).maps["hops"][0].numpy(), wanted["hops"])
