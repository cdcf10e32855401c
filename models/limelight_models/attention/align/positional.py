"""Positional masks as part of an alignment (C9): directional, diagonal-disabled, block."""

from collections.abc import Mapping

from torch import Tensor

from limelight_models.attention.align.soft import Softmax
from limelight_models.attention.alignment import CAPABILITIES, Align, both
from limelight_models.attention.context import Context
from limelight_models.attention.masks import Mask


class PositionalMask(Align):
    """An alignment that looks only where a mask over positions allows (Shen et al. 2018a, eq. 15–17; G §3.3, S §5.1).

    a = align(e + M), M_ij = 0 where position i may attend to position j, otherwise -∞

    The masks are those of `limelight_models.attention.masks`: forward, backward, diagonal_disabled, block, window, …
    What the alignment inside is, needs and reads (signed, sparse, a kernel, noise, …), this one is, needs and reads.

    Shapes: scores [..., query, key], positions from the context (default 0, 1, …) -> weights of the scores' shape.
    """

    key_order = True

    def __init__(self, *, mask: Mask, align: Align | None = None) -> None:
        super().__init__()
        self.mask = mask
        self.align = Softmax() if align is None else align
        for capability in CAPABILITIES:
            if capability != "key_order":
                setattr(self, capability, getattr(self.align, capability))
        positions = ("query_positions", "key_positions")
        self.context_fields = tuple(dict.fromkeys((*positions, *self.align.context_fields)))

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        weights: Tensor = self.align(scores, self.allowed(scores, mask, context), context)
        return weights

    def signals(self, scores: Tensor, mask: Tensor | None, context: Context) -> Mapping[str, Tensor]:
        return self.align.signals(scores, self.allowed(scores, mask, context), context)

    def carried(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return self.align.carried(scores, self.allowed(scores, mask, context), context)

    def allowed(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        """The keys that both masks allow."""
        return both(mask, self.mask(*context.positions(scores)))
