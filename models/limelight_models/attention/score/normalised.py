"""The additive score with a normalised weight (C15): the energy of online alignments."""

import torch
from torch import Tensor, nn

from limelight_models.attention.score.additive import Additive
from limelight_models.attention.score.pairwise import Activation


class NormalisedAdditive(Additive):
    """Additive score whose weight vector has a learned length (Raffel et al. 2017, §2.4; survey C §8.1).

    e = g · wᵀ / ‖w‖ · act(W₁ q + W₂ k + b)

    g is one number a head and starts at 1 / √d_w. An alignment that compares a score with a fixed threshold, as the
    monotonic ones do, depends on how large scores are: g alone says so. The offset r of the paper's energy is that of
    `HardMonotonic`.

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key].
    Memory: as for the additive score.
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    def __init__(
        self,
        *,
        d_q: int,
        d_k: int,
        d_w: int,
        heads: int = 1,
        act: Activation = torch.tanh,
        bias: bool = True,
        chunk: int | None = None,
    ) -> None:
        super().__init__(d_q=d_q, d_k=d_k, d_w=d_w, heads=heads, act=act, bias=bias, chunk=chunk)
        self.length = nn.Parameter(torch.full((heads, 1, 1), d_w**-0.5))

    def pair_score(self, pair: Tensor) -> Tensor:
        """g · wᵀ / ‖w‖ · act(pair) [batch, head, query, key]."""
        weight = self.importance.weight
        return super().pair_score(pair) * (self.length / weight.norm(dim=1, keepdim=True))
