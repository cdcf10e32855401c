"""A target between its left and its right, rotatory or target-object attention, a class: aspect sentiment."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from limelight_models.attention.features import Rotatory
from limelight_models.attention.levels import TargetObject
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.cards.card import Card
from limelight_models.cards.inputs import TextInput, Tokenizer
from limelight_models.cards.labels import LabelSet, numbered, one
from limelight_models.cards.maps import Map
from limelight_models.cards.parts import PARTS, parts_of
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.taxonomy import classifier
from limelight_models.catalogue.testbed.text import Features, Texts
from limelight_models.network import Answer
from limelight_models.tasks.heads import Scores

TARGET = one("target as one")


def parts(texts: Texts) -> Mapping[str, TextInput]:
    """The three inputs."""
    return parts_of(Tokenizer(text=texts.tokenizer), max_tokens=texts.max_tokens)


def part_map(texts: Texts, weights: Weights, queries: LabelSet, keys: str, *, part: bool = False) -> Map:
    """Weights over one part of the sentence. part: of a distribution over the whole sentence."""
    return Map(
        weights=weights,
        kind="pool",
        queries=queries,
        keys=parts(texts)[keys].tokens(keys),
        features=texts.d,
        part=part,
        summary=f"Weights over the {keys} part.",
    )


class Parts(NamedTuple):
    """Features [batch, position, d] or masks [batch, position] of the three parts of a sentence."""

    left: Tensor
    target: Tensor
    right: Tensor


class AspectModel(SmallModel):
    """Aspect sentiment: the class of a sentence's opinion about a target (Zheng & Xia 2018; Ma et al. 2018).

    Shapes: left_ids, target_ids, right_ids int64 [batch, position], masks bool of the same
        -> logits [batch, class], maps by the names of `maps`.
    """

    def __init__(self, texts: Texts, maps: Mapping[str, Map], *, d_in: int) -> None:
        super().__init__()
        self.maps = maps
        self.features = Features(texts)
        self.classify = Scores(d_in=d_in, d_out=len(texts.labels), dropout=texts.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        masks = Parts(*(tensors[f"{name}_mask"] for name in PARTS))
        features = Parts(*(self.features(tensors[f"{n}_ids"], m) for n, m in zip(PARTS, masks, strict=True)))
        vector, maps = self.read(features, masks)
        return Answer({"logits": self.classify(vector)}, maps)

    def read(self, features: Parts, masks: Parts) -> tuple[Tensor, Mapping[str, Tensor]]:
        """From the three parts to one vector [batch, d_in], and the maps."""
        raise NotImplementedError


class RotatoryModel(AspectModel):
    """Rotatory attention (G6): the target asks its surroundings, and they ask back."""

    def __init__(self, texts: Texts, module: Rotatory) -> None:
        turns = numbered("rotations", "hops", "rotation", len(module.rotations))
        names = {"left": "left", "right": "right", "left_target": "target", "right_target": "target"}
        maps = {
            name: part_map(texts, weights, turns, keys)
            for (name, keys), weights in zip(names.items(), weights_of(module), strict=True)
        }
        super().__init__(texts, maps, d_in=4 * texts.d)
        self.module = module

    def read(self, features: Parts, masks: Parts) -> tuple[Tensor, Mapping[str, Tensor]]:
        vector, weights = self.module(*features, *masks)
        return vector, weights._asdict()


class TargetObjectModel(AspectModel):
    """Target-object hierarchy (E4): what the target says is the question to the whole sentence.

    The three parts are laid one after the other, padding and all: attention does not read where they stand.
    """

    def __init__(self, texts: Texts, module: TargetObject) -> None:
        over_target, over_text = weights_of(module)
        maps = {"target": part_map(texts, over_target, TARGET, "target")} | {
            f"text.{keys}": part_map(texts, over_text, TARGET, keys, part=True) for keys in PARTS
        }
        super().__init__(texts, maps, d_in=texts.d)
        self.module = module

    def read(self, features: Parts, masks: Parts) -> tuple[Tensor, Mapping[str, Tensor]]:
        nothing = torch.zeros_like(masks.left), masks.target, torch.zeros_like(masks.right)
        vector, weights = self.module(torch.cat(features, 1), torch.cat(nothing, 1), torch.cat(masks, 1))
        left, target = masks.left.shape[1], masks.target.shape[1]
        return vector, {
            "target": weights.target[..., left : left + target],
            "text.left": weights.text[..., :left],
            "text.target": weights.text[..., left : left + target],
            "text.right": weights.text[..., left + target :],
        }


def card(texts: Texts, maps: Mapping[str, Map], **more: Any) -> Card:
    """Describe the model. more: as `classifier` takes it."""
    return classifier("what is said of a target,", texts, list(parts(texts).values()), maps, **more)
