"""Small untrained models of the zoo, made as their data decide by the preset `tiny`, and batches for them."""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from limelight.v1 import model_pb2
from limelight_bundle.rows import Row
from limelight_models.cards.card import Card, TrainedModel, TrainingData
from limelight_models.data.dataset import Dataset
from limelight_models.index import MECHANISM, ZOO, names, recipe, variants
from limelight_models.network import Answer, Network
from limelight_models.recipes.recipe import Blueprint
from limelight_models.tasks.segment import Segment
from limelight_models.tasks.task import Task
from tests.kit import examples

NAMES = tuple(name for name in names() if name != MECHANISM)
PUBLISHED = tuple(ZOO)
VOCABULARY = 20  # token ids below this are known to every model that reads texts
LIMITS = {"max_new_tokens": 12}  # where a config has them: an untrained model rarely puts out its end
DATA = TrainingData(name="none", licence="CC0-1.0")


def data(name: str) -> Dataset:
    """The examples that a model is made for."""
    return examples.dataset(recipe(name).data)


@cache
def blueprint(name: str) -> Blueprint[Any]:
    """Sizes that the examples decide."""
    chosen = recipe(name)
    preset, known = chosen.presets["tiny"], {each.name for each in fields(chosen.config)}
    sizes = {**preset.sizes, **{limit: most for limit, most in LIMITS.items() if limit in known}}
    return chosen.prepare(data(name), replace(preset, sizes=sizes))


def config(name: str) -> Any:
    """A model's config, before a variant changes it."""
    return blueprint(name).config


def build(name: str) -> Network:
    """A model as its recipe builds it."""
    return recipe(name).build(blueprint(name))


@cache
def unlike(model: str) -> tuple[str, ...]:
    """Name a published model, and those of its variants that have a kind of part which none before them has."""
    known: set[type[nn.Module]] = set()
    found = []
    for name in (model, *variants(model)):
        parts = {type(each) for each in build(name).modules() if type(each).__module__.startswith("limelight_models.")}
        if not parts <= known:
            found.append(name)
        known |= parts
    return tuple(found)


@cache
def card(name: str) -> Card:
    """Card of a model."""
    made = recipe(name).card(build(name), blueprint(name))
    made.description.name = name
    return made


def make(name: str) -> Network:
    """A model in evaluation mode, its weights drawn from seed 0.

    They are larger than usual, and those differ that begin as ones and zeros, so that differences show.
    """
    torch.manual_seed(0)
    made = build(name)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2).add_(0.1 * torch.randn_like(parameter))
    # In float64: what is asserted is arithmetic, not the rounding of one CPU's kernels.
    return made.double().eval().requires_grad_(False)


def trained(name: str) -> TrainedModel:
    """A model as it is before its first step, with what is made of its data, as one to export."""
    chosen, plan = recipe(name), blueprint(name)
    network = chosen.build(plan)
    described = chosen.card(network, plan)
    described.description.name = name
    if chosen.start:
        chosen.start(network, data(name), plan)
    asked = {each.name for each in inputs(described)}
    shown = ({key: value for key, value in each.instance.items() if key in asked} for each in data(name).test)
    return TrainedModel(network.eval(), described, tuple(shown), DATA, ())


def telling(name: str) -> TrainedModel:
    """A model as `trained`, but for larger weights than a fresh one's, so that differences show."""
    torch.manual_seed(3)
    made = trained(name)
    normed = any(isinstance(each, nn.LayerNorm | nn.BatchNorm1d) for each in made.model.modules())
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter.mul_(1.25 if normed else 2)  # norms make them larger still
    return made


def inputs(card: Card) -> list[model_pb2.InputDescription]:
    """The inputs that a caller sends, who does not say what is to be put out."""
    return [each for each in card.description.inputs if not each.optional]


def task(name: str) -> Task:
    """A model's task; where it knows the size of pictures, for those of the examples."""
    made = recipe(name).task
    return replace(made, grid=examples.GRID, size=examples.SIZE) if isinstance(made, Segment) else made


def batch(card: Card, rows: Sequence[Row]) -> dict[str, Tensor]:
    """Rows as the tensors of a batch; noise is where a draw comes out as it most likely does."""
    made = card.collate(rows)
    drawn = {name: np.full(shape, 0.5, np.float32) for name, shape in card.noise_shapes(rows).items()}
    return {name: torch.from_numpy(array) for name, array in {**made, **drawn}.items()}


def document(lengths: list[int], seed: int) -> Tensor:
    """Token ids [sentence, word] of a document alone: sentences of these lengths, padded with 0 to the longest."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def text(length: int, seed: int, known: int = VOCABULARY) -> Tensor:
    """Token ids [token]. known: of a vocabulary that may have fewer."""
    return torch.randint(1, min(known, VOCABULARY), (length,), generator=torch.Generator().manual_seed(seed))


def stack(arrays: list[Tensor], extra: int = 0) -> Tensor:
    """Pad with 0 to one size, `extra` larger than needed on every axis, and stack."""
    sizes = [max(sizes) + extra for sizes in zip(*(array.shape for array in arrays), strict=True)]
    stacked = torch.zeros(len(arrays), *sizes, dtype=arrays[0].dtype)
    for place, array in zip(stacked, arrays, strict=True):
        place[tuple(slice(size) for size in array.shape)] = array
    return stacked


def same(alone: Answer, batched: Answer, row: int, *, steps: bool = False) -> None:
    """Assert that a row of a batch says what the instance says alone, and nothing about its padding.

    steps: queries are what is put out, of which one row may have more than another.
    """
    for group, others in ((alone.outputs, batched.outputs), (alone.maps, batched.maps)):
        for name, wanted in group.items():
            found = others[name][row]
            inside = tuple(slice(size) for size in wanted.shape[1:])
            assert torch.allclose(found[inside], wanted[0], atol=1e-12, rtol=1e-9), name
            if others is batched.maps:
                outside = found[:, : wanted.shape[2]].clone() if steps else found.clone()
                outside[inside] = 0
                assert not outside.any(), f"{name} has weight on padding"
