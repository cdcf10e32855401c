"""Hidden states of a stack: said once, by the label set of its entries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from limelight.v1 import model_pb2
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import Map

T = TypeVar("T")


def named_states(stack: str, states: Iterable[T]) -> dict[str, T]:
    """Name the hidden states of a stack, the embeddings' first."""
    return {f"{stack}.hidden.{layer}": each for layer, each in enumerate(states)}


@dataclass(frozen=True, kw_only=True)
class HiddenStates:
    """The vectors of a stack's entries: its embeddings, then what each layer puts out, [batch, entry, feature] each.

    A step of a decoder has [batch, feature]. stack: as in the names of its maps. size: of a vector. tokens: the
    most that the model's head reads from one; 0 where it has none for them.
    """

    stack: str
    labels: LabelSet
    layers: int
    size: int
    tokens: int = 0

    @property
    def names(self) -> list[str]:
        """Names of the tensors, the embeddings' first."""
        return list(named_states(self.stack, range(self.layers + 1)))

    @classmethod
    def of_maps(cls, maps: Mapping[str, Map], stack: str, size: int) -> "HiddenStates":
        """Those of a stack whose layers make the maps `<stack>.<layer>.self`: of the queries of these."""
        own = [each for name, each in maps.items() if name.startswith(f"{stack}.") and name.endswith(".self")]
        return cls(stack=stack, labels=own[0].queries, layers=len(own), size=size)

    def describe(self) -> list[model_pb2.HiddenDescription]:
        """As a description has them."""
        return [
            model_pb2.HiddenDescription(
                name=name,
                stack=self.stack,
                layer=layer,
                label_set=self.labels.name,
                size=self.size,
                max_top_tokens=self.tokens,
            )
            for layer, name in enumerate(self.names)
        ]
