"""REINFORCE (I7): gradients for choices that have none, hard and reinforced alignment."""

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from limelight_models.attention.alignment import in_single


def reinforce_loss(
    log_probability: Tensor,
    reward: Tensor,
    baseline: Tensor | float = 0.0,
    entropy: Tensor | None = None,
    entropy_weight: float = 0.0,
) -> Tensor:
    """Loss whose gradient estimates that of minus the expected reward (Williams 1992; Xu et al. 2015, §4.1; S §3).

    L = -(R - b) log p(choice) - λ H, mean over draws; no gradient flows through R and b

    The estimate is unbiased for any baseline that does not depend on the draw, and varies least with one near E[R].

    Shapes: log_probability, reward, baseline and entropy broadcastable to [draw, …] -> a number.
    """
    advantage = in_single((reward - baseline).detach() if isinstance(reward, Tensor) else reward)
    loss = -(advantage * in_single(log_probability)).mean()
    return loss if entropy is None else loss - entropy_weight * in_single(entropy).mean()


class MovingBaseline(nn.Module):
    """Moving average of past rewards (Xu et al. 2015, §4.1).

    b_k = 0.9 b_{k-1} + 0.1 mean(R_k). It gives b_{k-1} for the draw at hand, which b_k would make dependent on itself.

    Shapes: reward of any shape -> a number. Only training moves it.
    """

    average: Tensor

    def __init__(self, *, momentum: float = 0.9) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("average", torch.zeros(()))

    def forward(self, reward: Tensor) -> Tensor:
        before = self.average.clone()
        if self.training:
            self.average.mul_(self.momentum).add_((1 - self.momentum) * in_single(reward.detach()).mean())
        return before


def selection_log_probability(selected: Tensor, scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Log-probability of a drawn subset (Shen et al. 2018b, eq. 14; survey S §5.1, reinforced sequence sampling).

    log p(z) = Σ_l z_l log sigmoid(e_l) + (1 - z_l) log sigmoid(-e_l), over the allowed positions

    Shapes: selected (boolean or 0 and 1) and scores [..., position], mask broadcastable -> [...].
    """
    chosen = in_single(selected.detach().to(scores.dtype))
    terms = chosen * logsigmoid(in_single(scores)) + (1 - chosen) * logsigmoid(-in_single(scores))
    return (terms if mask is None else torch.where(mask, terms, torch.zeros_like(terms))).sum(-1)


def selection_cost(selected: Tensor, mask: Tensor | None = None) -> Tensor:
    """The part of the positions that was selected, which the reward pays for (Shen et al. 2018b, eq. 15).

    R = log p(y) - λ · cost

    Shapes: selected [batch, position], mask [batch, position] -> [batch].
    """
    chosen = selected.float()
    if mask is None:
        return chosen.mean(-1)
    return (chosen * mask).sum(-1) / mask.sum(-1).clamp(min=1)
