"""Two sentences, a form of co-attention, a class: natural language inference in miniature."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention.weights import weights_of
from limelight_models.cards.card import Card
from limelight_models.cards.inputs import PairInput, Tokenizer
from limelight_models.cards.labels import LabelSet, one
from limelight_models.cards.maps import Map, MapKind
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.taxonomy import classifier
from limelight_models.catalogue.testbed.text import Features, Texts
from limelight_models.network import Answer

FIRST = LabelSet(name="first", kind="tokens", input="pair", tensor="first_ids", dimension="first")
SECOND = LabelSet(name="second", kind="tokens", input="pair", tensor="second_ids", dimension="second")
PAIR = one("pair")


@dataclass(frozen=True)
class Axes:
    """Query axis and key axis of one map of a co-attention."""

    queries: LabelSet
    keys: LabelSet
    kind: MapKind = "pool"


ROW_OF_FIRST, ROW_OF_SECOND, AFFINITY = Axes(PAIR, FIRST), Axes(PAIR, SECOND), Axes(FIRST, SECOND, "co")


def maps_of(module: nn.Module, axes: Mapping[str, Axes], texts: Texts) -> Mapping[str, Map]:
    """The maps of a module, in the order in which it makes them; each with its name and its axes."""
    return {
        name: Map(
            weights=weights,
            kind=each.kind,
            queries=each.queries,
            keys=each.keys,
            features=texts.d,
            summary=f"Weights over the {each.keys.name} sentence.",
        )
        for (name, each), weights in zip(axes.items(), weights_of(module), strict=True)
    }


class PairModel(SmallModel):
    """Co-attention over two sentences, whose vectors are compared (Mou et al. 2016; Conneau et al. 2017).

    logits = W₂ relu(W₁ [c¹; c²; |c¹ - c²|; c¹ ⊙ c²])

    `read` calls the co-attention: (module, first, second, first_mask, second_mask) -> pairs of vectors, weights. The
    vectors are compared pair by pair.

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same
        -> logits [batch, class], maps by the names of `maps`.
    """

    def __init__(
        self, texts: Texts, module: nn.Module, maps: Mapping[str, Map], *, read: "Read | None" = None, pairs: int = 1
    ) -> None:
        super().__init__()
        self.features = Features(texts)
        self.module, self.maps, self.read = module, maps, read or plain
        self.compare = nn.Sequential(
            nn.Linear(4 * pairs * texts.d, 2 * texts.d),
            nn.ReLU(),
            nn.Dropout(texts.dropout),
            nn.Linear(2 * texts.d, len(texts.labels)),
        )

    def forward(self, **tensors: Tensor) -> Answer:
        masks = tensors["first_mask"], tensors["second_mask"]
        first, second = (self.features(tensors[f"{n}_ids"], m) for n, m in zip(("first", "second"), masks, strict=True))
        vectors, weights = self.read(self.module, first, second, *masks)
        compared = [
            torch.cat([a, b, (a - b).abs(), a * b], -1) for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        maps = dict(zip(self.maps, flat(weights), strict=True))
        return Answer({"logits": self.compare(torch.cat(compared, -1))}, maps)


def flat(weights: Tensor | tuple) -> tuple[Tensor, ...]:
    """All tensors of nested tuples, in order."""
    return (weights,) if isinstance(weights, Tensor) else tuple(tensor for part in weights for tensor in flat(part))


Read = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], tuple[tuple[Tensor, ...], tuple]]


def plain(
    module: nn.Module, first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor
) -> tuple[tuple[Tensor, ...], tuple]:
    """A co-attention that gives a vector of each sentence."""
    return module(first, second, first_mask, second_mask)


def card(texts: Texts, maps: Mapping[str, Map], **more: Any) -> Card:
    """Describe the model. more: as `classifier` takes it."""
    read = "Two sentences, the premise first."
    pair = PairInput(summary=read, tokenizer=Tokenizer(text=texts.tokenizer), max_tokens=texts.max_tokens)
    return classifier("pairs of sentences", texts, [pair], maps, **more)
