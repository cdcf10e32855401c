"""Dense alignments: softmax (C1) and sigmoid (C2)."""

from torch import Tensor

from limelight_models.attention.alignment import Align, keep, softmax
from limelight_models.attention.context import Context


class Softmax(Align):
    """Soft, or global, alignment (Bahdanau et al. 2015, eq. 6; survey BF eq. 25).

    a_l = exp(e_l) / Σ_j exp(e_j)

    Shapes: scores [..., query, key] -> weights of the same shape.
    """

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return softmax(scores, mask)


class Sigmoid(Align):
    """Every key judged by itself, in (0, 1) (Kim & Kim 2018; survey G §3.3).

    a_l = 1 / (1 + exp(-e_l))

    Shapes: scores [..., query, key] -> weights of the same shape.
    """

    normalised = False
    shift_invariant = False
    scale_hardens = False

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return keep(scores.sigmoid(), mask)
