"""A target between its left and its right, rotatory or target-object attention, a class: aspect sentiment."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2
from models.attention.features import Rotatory
from models.attention.levels import TargetObject
from models.cards import describe
from models.cards.card import Card
from models.network import Answer
from models.testbed.classifier import SmallModel
from models.testbed.layout import Layout, axes, fixed_sets, map_description
from models.testbed.text import MAX_CHARACTERS, TOKENIZER, Classify, Features, Texts, text_input, tokens

PARTS = ("left", "target", "right")


class Parts(NamedTuple):
    """Features [batch, position, d] or masks [batch, position] of the three parts of a sentence."""

    left: Tensor
    target: Tensor
    right: Tensor


class AspectModel(SmallModel):
    """What a sentence says of a target in it (Zheng & Xia 2018; Ma et al. 2018).

    Shapes: left_ids, target_ids, right_ids int64 [batch, position], masks bool of the same
        -> logits [batch, class], maps by the names of `layouts`.
    """

    def __init__(self, texts: Texts, layouts: Mapping[str, Layout], *, d_in: int) -> None:
        super().__init__()
        self.layouts = layouts
        self.features = Features(texts)
        self.classify = Classify(texts, d_in=d_in)

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

    def __init__(self, texts: Texts, layouts: Mapping[str, Layout], module: Rotatory) -> None:
        super().__init__(texts, layouts, d_in=4 * texts.d)
        self.module = module

    def read(self, features: Parts, masks: Parts) -> tuple[Tensor, Mapping[str, Tensor]]:
        vector, weights = self.module(*features, *masks)
        return vector, weights._asdict()


class TargetObjectModel(AspectModel):
    """Target-object hierarchy (E4): what the target says is the question to the whole sentence.

    The three parts are laid one after the other, padding and all: attention does not read where they stand.
    """

    def __init__(self, texts: Texts, layouts: Mapping[str, Layout], module: TargetObject) -> None:
        super().__init__(texts, layouts, d_in=texts.d)
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


def card(texts: Texts, layouts: Mapping[str, Layout], *, title: str, taxonomy: model_pb2.Taxonomy) -> Card:
    """Describe the model."""
    inputs = [text_input(texts, name=name, prefix=f"{name}_", axis=name) for name in PARTS]
    for each, what in zip(inputs, ("before the target", "the target", "after the target"), strict=True):
        each.summary = f'The part of a sentence {what}; "." where there is none.'
    label_sets = [tokens(name, input=name, tensor=f"{name}_ids", dimension=name) for name in PARTS]
    description = model_pb2.ModelDescription(
        title=title,
        summary=f"A small classifier of what is said of a target, whose attention is {title}.",
        task=model_pb2.TASK_CLASSIFICATION,
        inputs=inputs,
        outputs=[describe.logits(len(texts.labels))],
        result=describe.class_result(texts.labels),
        maps=[
            map_description(name, layout, summary=f"Weights of {title} over the {layout.keys} part.")
            for name, layout in layouts.items()
        ],
        label_sets=[*label_sets, *fixed_sets(layouts, set(PARTS))],
        limits=model_pb2.Limits(max_characters=MAX_CHARACTERS),
        taxonomy=taxonomy,
    )
    return Card(
        description=description,
        preprocessing=tuple(
            bundle_pb2.Preprocessing(input=name, steps=[describe.tokenize(TOKENIZER, f"{name}_ids")]) for name in PARTS
        ),
        map_axes={name: axes(layout) for name, layout in layouts.items()},
        files={TOKENIZER: texts.tokenizer},
    )


def rotations(count: int) -> Mapping[str, Layout]:
    """The four maps of rotatory attention, a row a rotation."""
    names = tuple(f"rotation {number + 1}" for number in range(count))
    keys = {"left": "left", "right": "right", "left_target": "target", "right_target": "target"}
    return {
        name: Layout(queries="rotations", keys=key, names=names, label_kind=attention_pb2.LABEL_KIND_HOPS)
        for name, key in keys.items()
    }
