"""A model of the study, with its batches and the weights that are measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from limelight.v1 import model_pb2
from limelight_bundle.maps import canonical
from limelight_models.cards.card import Card
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.form import Built
from limelight_models.catalogue.testbed.text import ATTENTION
from limelight_models.network import Answer
from research.mechanisms.data import Part, collate

NEUTRAL = 0.5  # uniform noise that draws the most likely, as a server does without a seed
Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Map:
    """Weights [batch, head, query, key(, feature)] and where a real query meets a real key, bool [batch, 1, query, key]
    or broadcastable to that.
    """

    weights: np.ndarray
    real: np.ndarray


@dataclass(frozen=True)
class Subject:
    """A model. prepare: what a batch of rows needs beside them, drawn in training; maps: weights that look, by name."""

    model: SmallModel
    prepare: Callable[[Batch, bool], Batch] = field(default=lambda batch, training: batch)
    maps: Callable[[Answer, Batch], Mapping[str, Map]] = field(default=lambda answer, batch: {})

    def batch(self, part: Part, index: np.ndarray, *, training: bool) -> Batch:
        """Rows as the model takes them."""
        return self.prepare(collate(part, index), training)


def of_form(built: Built) -> Subject:
    """A small task model of the registry: its card says what is drawn and what its maps are."""
    model, card = built
    return Subject(model, lambda batch, training: with_noise(batch, card, training), lambda a, b: of_card(a, b, card))


def of_attention(model: SmallModel, queries: str, keys: str) -> Subject:
    """A model with one map; queries and keys: names of their masks, "" where all queries are real."""

    def maps(answer: Answer, batch: Batch) -> Mapping[str, Map]:
        real = batch[keys].numpy()[:, None, None, :]
        real = real.any(-1) if real.ndim == 5 else real  # facts, of which a word is real
        if queries:
            real = real & batch[queries].numpy()[:, None, :, None]
        return {ATTENTION: Map(answer.maps[ATTENTION].numpy(), real)}

    return Subject(model, maps=maps)


def with_noise(batch: Batch, card: Card, draw: bool) -> Batch:
    """The batch with the noise that the card asks for, drawn or neutral."""
    made = dict(batch)
    for each in card.noise:
        like = batch["token_ids"]
        fixed = [axis.size for axis in each.tensor.dimensions if axis.size]
        shape = (like.shape[0], *fixed, *like.shape[1:])
        made[each.tensor.name] = torch.rand(shape) if draw else torch.full(shape, NEUTRAL)
    return made


def of_card(answer: Answer, batch: Batch, card: Card) -> Mapping[str, Map]:
    """The maps of a form, but affinities, which are no weights."""
    masks = {name: tensor.numpy() for name, tensor in batch.items() if name.endswith("mask")}
    return {
        each.name: Map(
            canonical(answer.maps[each.name].numpy(), list(card.map_axes[each.name])), real_places(card, each, masks)
        )
        for each in card.description.maps
        if not each.name.endswith("affinity")
    }


def real_places(card: Card, description: model_pb2.MapDescription, masks: Mapping[str, np.ndarray]) -> np.ndarray:
    """Places of a map with a real query and a real key, broadcastable to [batch, head, query, key]."""
    queries = _real(card, description.query_labels, masks)
    keys = _real(card, description.key_labels, masks)
    return queries[:, None, :, None] & keys[:, None, None, :]


def _real(card: Card, name: str, masks: Mapping[str, np.ndarray]) -> np.ndarray:
    """Which entries of a label set are real [batch, entry]; all of them in a fixed set."""
    labels = next(each for each in card.description.label_sets if each.name == name)
    if not labels.tensor:
        return np.ones((1, max(1, len(labels.names))), dtype=bool)
    return masks[labels.tensor.removesuffix("ids") + "mask"]
