"""Alignments without exponential (C17): the scores are a kernel's values already."""

from torch import Tensor

from limelight_models.attention.alignment import Align, in_single, keep, normalise
from limelight_models.attention.context import Context


class KernelRatio(Align):
    """A kernel divided by its sum (Katharopoulos et al. 2020, eq. 4; Peng et al. 2021, eq. 5; survey S §5.3).

    a_l = κ(q, k_l) / Σ_j κ(q, k_j)

    A query whose kernel values sum to nothing (or, with signed random features, to less) keeps them undivided.

    Shapes: scores [..., query, key], values of a kernel -> weights of the same shape.
    """

    needs_kernel = True
    shift_invariant = False
    scale_hardens = False

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return normalise(keep(in_single(scores), mask))


class KernelWeights(Align):
    """A kernel's values as they are: softmax-free attention (SOFT, Lu et al. 2021, eq. 3; Skyformer; survey S §5.3).

    a_l = κ(q, k_l)

    Shapes: scores [..., query, key], values of a kernel -> weights of the same shape, which sum to anything.
    """

    needs_kernel = True
    normalised = False
    shift_invariant = False
    scale_hardens = False

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return keep(scores, mask)
