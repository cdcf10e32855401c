"""α-entmax (C8): between softmax (α = 1) and sparsemax (α = 2)."""

import math

import torch
from torch import Tensor, nn

from limelight_models.attention.align.sparse import centred
from limelight_models.attention.alignment import Align, keep
from limelight_models.attention.context import Context

NEWTON_STEPS = 6  # four reach rounding in double precision, for α from 1.01 to 2 and up to 4,096 keys
REFINING_STEPS = 3  # after sorting: from 1e-3 off to rounding


def entmax15(scores: Tensor) -> Tensor:
    """1.5-entmax of the last axis, by sorting (Peters et al. 2019, algorithm 2) and a few steps of Newton's method.

    The sums over sorted scores cancel: with thousands of keys the threshold that they give is right to about 1e-3 in
    float32. Newton's steps from there make the weights sum to 1 as exactly as they are added, and the last one, taken
    with gradients, is the implicit function theorem, as in `entmax`.
    """
    scaled = (scores - scores.amax(-1, keepdim=True)) / 2
    with torch.no_grad():
        threshold = _sorted_threshold(scaled)
        for _ in range(REFINING_STEPS):
            # No weight exceeds 1, so τ is at least -1: a step from beyond the support may land anywhere.
            threshold = _square_step(threshold, scaled).clamp(min=-1)
    return (scaled - _square_step(threshold, scaled)).clamp(min=0).square()


def _square_step(threshold: Tensor, scaled: Tensor) -> Tensor:
    """`_newton_step` for α = 1.5."""
    above = (scaled - threshold).clamp(min=0)
    slope = 2 * above.sum(-1, keepdim=True).detach()
    return threshold + (above.square().sum(-1, keepdim=True) - 1) / slope.clamp(min=1e-6)


def _sorted_threshold(scaled: Tensor) -> Tensor:
    """τ with Σ [z_l - τ]₊² ≈ 1, for z whose largest entry is 0 [..., 1]."""
    ranked = scaled.sort(-1, descending=True).values
    rank = torch.arange(1, scaled.shape[-1] + 1, device=scaled.device, dtype=scaled.dtype)
    mean = ranked.cumsum(-1) / rank
    spread = rank * (ranked.square().cumsum(-1) / rank - mean.square())
    thresholds = mean - ((1 - spread) / rank).clamp(min=0).sqrt()
    # τ is at least -1: a key at -1 or below never takes part, however the sums are rounded.
    support = ((thresholds <= ranked) & (ranked > -1)).sum(-1, keepdim=True)
    return thresholds.gather(-1, support - 1)


def entmax(scores: Tensor, alpha: Tensor) -> Tensor:
    """α-entmax of the last axis for 1 < α ≤ 2, by Newton's method.

    With p = 1/(α-1), the norm (Σ_l [(α-1) e_l - τ]₊^p)^{1/p} - 1 is convex and decreasing in τ, nearly a line, and not
    negative at τ = (α-1) max e - 1, so that Newton's method climbs to its root from there in a few steps without ever
    passing it. One more step, on the sum itself, is taken with gradients: that is the implicit function theorem, and
    makes them exact in the scores and in α.
    """
    power = 1 / (alpha - 1)
    scaled = (alpha - 1) * (scores - scores.amax(-1, keepdim=True))
    threshold = torch.full_like(scaled[..., :1], -1.0)
    with torch.no_grad():
        for _ in range(NEWTON_STEPS):
            above = (scaled - threshold).clamp(min=0)
            lower = _powers(above, power - 1)
            total = (lower * above).sum(-1, keepdim=True)
            threshold = threshold + (total - total ** (2 - alpha)) / lower.sum(-1, keepdim=True).clamp(min=1e-6)
    above = scaled - threshold
    slope = (power * _powers(above, power - 1).sum(-1, keepdim=True)).detach()
    threshold = threshold + (_powers(above, power).sum(-1, keepdim=True) - 1) / slope.clamp(min=1e-6)
    return _powers(scaled - threshold, power)


def _powers(above: Tensor, power: Tensor) -> Tensor:
    """above^power where above > 0, else 0; the inner replacement keeps gradients finite at 0."""
    positive = above > 0
    return torch.where(positive, torch.where(positive, above, torch.ones_like(above)) ** power, torch.zeros_like(above))


class Entmax15(Align):
    """1.5-entmax (Peters et al. 2019, eq. 10 with α = 1.5; survey C §3).

    a = argmax_p pᵀe + H_α(p) over the simplex, H_α the Tsallis entropy, α = 1.5: a_l = [e_l / 2 - τ]₊²

    Shapes: scores [..., query, key] -> weights of the same shape, some exactly 0.
    """

    sparse = True

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return keep(entmax15(centred(scores, mask, depth=4)).to(scores.dtype), mask)


class Entmax(Align):
    """α-entmax with a fixed α, or one learned by each head (Correia et al. 2019, eq. 8; survey C §3, S §5.3).

    a_l = [(α-1) e_l - τ]₊^{1/(α-1)}, τ so that Σ a_l = 1;  learned: α = 1 + sigmoid(z_head)

    Shapes: scores [..., head, query, key] -> weights of the same shape, some exactly 0.
    Raises: ValueError where α is outside 1.01 … 2 (softmax is α = 1).
    """

    sparse = True

    def __init__(self, *, alpha: float = 1.5, learned: bool = False, heads: int = 1) -> None:
        super().__init__()
        if not 1.01 <= alpha <= 2 or (learned and alpha == 2):
            raise ValueError(f"alpha must lie in 1.01 … 2 (below 2 where it is learned); it is {alpha}")
        start = torch.full((heads, 1, 1), math.log((alpha - 1) / (2 - alpha)) if learned else alpha)
        self.learned = learned
        self.weight = nn.Parameter(start, requires_grad=learned)

    @property
    def alpha(self) -> Tensor:
        """α of each head [head, 1, 1], at least 1.01: Newton's method needs too many steps below.

        A learned α below that has the gradient of 1.01, so that it can come back: weights hardly change with α there.
        """
        if not self.learned:
            return self.weight
        alpha = 1 + self.weight.sigmoid()
        return alpha + (1.01 - alpha).clamp(min=0).detach()

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        rows = centred(scores, mask, depth=100)
        return keep(entmax(rows, self.alpha.to(rows.dtype)).to(scores.dtype), mask)
