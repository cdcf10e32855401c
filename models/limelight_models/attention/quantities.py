"""The quantities of attention that can be asked for: weights, scores, norms."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from limelight_bundle.names import quantity_key

QUANTITIES = ("scores", "norms")  # beside weights


@dataclass(frozen=True)
class AttentionQuantities:
    """Three tensors [batch, head, query, key].

    weights: what values are multiplied by. scores: before alignment, with the dtype's lowest number where no attention
    is possible. norms: of each weighted, transformed value (Kobayashi et al. 2020, eq. 4).
    """

    weights: Tensor
    scores: Tensor
    norms: Tensor

    def maps(self, name: str) -> Mapping[str, Tensor]:
        """All three by the names that a network's answer has for the map `name`."""
        return {name: self.weights, **{quantity_key(name, each): getattr(self, each) for each in QUANTITIES}}
