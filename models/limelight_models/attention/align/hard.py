"""Hard alignment (C3): all weight on one key."""

from collections.abc import Mapping

import torch
from torch import Tensor

from limelight_models.attention.alignment import Align, fill, in_single, keep, softmax
from limelight_models.attention.context import Context


def one_hot(index: Tensor, size: int) -> Tensor:
    """True at `index` of a new last axis. (`torch.nn.functional.one_hot` freezes its size in an export.)"""
    return torch.arange(size, device=index.device) == index.unsqueeze(-1)


def gumbel(noise: Tensor) -> Tensor:
    """Standard Gumbel numbers from uniform ones; arg max of scores + Gumbel numbers is a draw from their softmax."""
    noise = noise.float().clamp(min=1e-12, max=1 - 1e-7)
    return -torch.log(-torch.log(noise))


class Hard(Align):
    """Hard alignment: one key drawn from the softmax (Xu et al. 2015, §4.1; survey BF eq. 26).

    m ~ multinomial(softmax(e));  a = one-hot(m)

    With `Context(noise=uniform numbers)` the draw is theirs; without, it is arg max when serving and a random draw when
    training. Gradients: none through the draw (REINFORCE uses `log_probability`), or those of the softmax with
    `straight_through`. With `expected`, the weights of that share of the queries are the softmax, the draw's expected
    value, where the context has `query_noise`, uniform numbers too: half of the instances, in training (§4.1, end).

    Shapes: scores [..., query, key], noise [batch, head, query, key], query_noise [batch, head, query] -> weights of
        the scores' shape.
    """

    stochastic = True
    sparse = True
    context_fields = ("noise",)

    def __init__(self, *, straight_through: bool = False, expected: float = 0.0) -> None:
        super().__init__()
        self.straight_through, self.expected = straight_through, expected

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        noise = torch.rand_like(scores.float()) if context.noise is None and self.training else context.noise
        noisy = scores if noise is None else scores.float() + gumbel(noise)
        chosen = one_hot(fill(noisy, mask).argmax(-1), scores.shape[-1]).to(scores.dtype)
        weights = keep(chosen, mask)
        if self.expected and context.query_noise is not None:
            whole = (context.query_noise < self.expected).unsqueeze(-1)
            weights = torch.where(whole, softmax(scores, mask), weights)
        if not self.straight_through:
            return weights
        soft = softmax(scores, mask)
        return weights + (soft - soft.detach())

    def signals(self, scores: Tensor, mask: Tensor | None, context: Context) -> Mapping[str, Tensor]:
        if self.straight_through or context.noise is None:
            return {}
        drawn = self.log_probability(self(scores, mask, context), scores, mask)
        return {"log_probability": drawn.sum((-2, -1)), "entropy": self.entropy(scores, mask).sum((-2, -1))}

    def log_probability(self, weights: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Log-probability of the drawn `weights`, differentiable in the scores; 0 where nothing may be attended to.

        Shapes: weights and scores [..., query, key] -> [..., query].
        """
        return (fill(scores, mask).log_softmax(-1) * weights.detach()).sum(-1)

    def entropy(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Entropy of the draw, which REINFORCE may reward (Xu et al. 2015, eq. 13); 0 where there is nothing to draw.

        Shapes: scores [..., query, key] -> [..., query].
        """
        logs = fill(in_single(scores), mask).log_softmax(-1)
        return -keep(logs.exp() * logs, mask).sum(-1)
