"""Hidden states of a stack: said once, by the label set of its entries."""

from dataclasses import dataclass

from limelight.v1 import model_pb2
from limelight_models.cards.labels import LabelSet


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
        return [f"{self.stack}.hidden.{layer}" for layer in range(self.layers + 1)]

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
