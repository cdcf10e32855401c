"""Adaptive computation time: a layer that is repeated until each token has had enough of it."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.weights import Weights


class Pondered(NamedTuple):
    """Tokens after some steps: shapes [batch, token], state and result [batch, token, d], weights of steps so far.

    state: what the next step begins with. cost: steps that a token took, and its remainder, which alone has a gradient.
    """

    state: Tensor
    result: Tensor
    halted: Tensor
    running: Tensor
    cost: Tensor
    weights: tuple[Tensor, ...]


class Halting(nn.Module):
    """Dynamic halting of each token by itself (Dehghani et al. 2019, appendix C; Graves 2016).

    p_t = sigmoid(w x_t + b);  w_t = p_t while Σ p ≤ threshold, 1 - Σ_{s<t} p_s at the step that passes it, then 0
    y_t = w_t h_t + (1 - w_t) y_{t-1}, y_0 = 0

    x_t is what step t reads and h_t what it makes of it. Without halting, the last step has all the weight. A token
    that has halted goes on being transformed, and others attend to it as it is by then (listing 2); where `copied`, it
    stays as it was when it halted (§2.2). Either way nothing more of it counts in y.

    Shapes: x_t, h_t [batch, token, d] -> result y [batch, token, d], weights of h_1 … h_T in it [batch, 1, token, T].
    """

    makes = (Weights(normalised=False),)

    def __init__(self, *, d: int, threshold: float, halting: bool = True, copied: bool = False) -> None:
        super().__init__()
        self.threshold, self.copied = threshold, copied
        self.stop = nn.Linear(d, 1) if halting else None
        if self.stop is not None:
            nn.init.ones_(self.stop.bias)  # as the authors begin: tokens halt early

    def begin(self, features: Tensor) -> Pondered:
        """Before the first step."""
        nothing = torch.zeros_like(features[..., 0])
        running = torch.ones_like(nothing, dtype=torch.bool)
        return Pondered(features, torch.zeros_like(features), nothing, running, nothing, ())

    def forward(self, before: Pondered, entered: Tensor, made: Tensor) -> Pondered:
        """A step more."""
        halted, running = before.halted, before.running
        if self.stop is None:
            weight, remainder, running = torch.ones_like(halted), torch.zeros_like(halted), torch.zeros_like(running)
        else:
            p = torch.sigmoid(self.stop(entered)).squeeze(-1)
            ends = running & (halted + p > self.threshold)
            remainder = torch.where(ends, 1 - halted, 0.0)
            weight = remainder + torch.where(running & ~ends, p, 0.0)
            running = running & ~ends
        goes_on = before.running.unsqueeze(-1)
        return Pondered(
            state=torch.where(goes_on, made, before.state) if self.copied and self.stop is not None else made,
            result=before.result + weight.unsqueeze(-1) * (made - before.result),
            halted=halted + weight,
            running=running,
            cost=before.cost + before.running.to(weight.dtype) + remainder,
            weights=(*(each * (1 - weight) for each in before.weights), weight),
        )

    @staticmethod
    def shown(pondered: Pondered) -> Tensor:
        """The weights of all steps."""
        return torch.stack(pondered.weights, -1).unsqueeze(1)
