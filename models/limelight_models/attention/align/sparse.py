"""Sparse alignments: sparsemax (C7)."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import Align, fill, in_single, keep
from limelight_models.attention.context import Context


def sparsemax(scores: Tensor) -> Tensor:
    """Euclidean projection of the last axis on the simplex, by sorting (Martins & Astudillo 2016, algorithm 1)."""
    scores = scores - scores.amax(-1, keepdim=True)
    ranked = scores.sort(-1, descending=True).values
    rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    excess = ranked.cumsum(-1) - 1
    support = (rank * ranked > excess).sum(-1, keepdim=True)
    threshold = excess.gather(-1, support - 1) / support.to(scores.dtype)
    return (scores - threshold).relu()  # unlike clamp, without gradient for a key right at the threshold


def centred(scores: Tensor, mask: Tensor | None, depth: float) -> Tensor:
    """Scores from 0 down to -depth, the best allowed key at 0, keys that are not allowed at -depth.

    A projection that gives nothing to keys less than `depth` below the best is not changed by this, and its sums stay
    exact however large the scores are. `depth` is twice what the projection needs: a key just there would tie with the
    threshold of a row whose best key takes all, and rounding would let thousands of them in.
    """
    scores = fill(in_single(scores), mask)
    return (scores - scores.amax(-1, keepdim=True)).clamp(min=-depth)


class Sparsemax(Align):
    """Sparsemax (Martins & Astudillo 2016; survey G §3.3, C §3).

    a = argmin_p ‖p - e‖² over the simplex: many weights are exactly 0

    Shapes: scores [..., query, key] -> weights of the same shape.
    """

    sparse = True

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return keep(sparsemax(centred(scores, mask, depth=2)).to(scores.dtype), mask)
