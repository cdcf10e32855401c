"""A memory as a state: slots that heads read and write, step after step (Graves et al. 2014, §3)."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from limelight_models.attention import Attention
from limelight_models.attention.score import Dot
from limelight_models.attention.weights import Weights, weights_of

_SHIFTS = 3  # by 1, 0 and -1 slots
_FOCUS = 4.0  # log-odds of the first slot, to begin with


class Slots(NamedTuple):
    """Memory [batch, slot, width], what was read last [batch, head · width], weights of heads [batch, head, slot]."""

    memory: Tensor
    found: Tensor
    read: Tensor
    write: Tensor


class Addressing(nn.Module):
    """Weights of heads over slots, by what stands there and by where the heads were (§3.3).

    w^c(i) = softmax_i(β K(k, M(i))), K the cosine (eq. 5, 6);  w^g = g w^c + (1 - g) w_{t-1} (eq. 7);
    w̃(i) = Σ_j w^g(j) s(i - j), in a circle (eq. 8);  w(i) = w̃(i)^γ / Σ_j w̃(j)^γ (eq. 9)
    β = softplus, g = sigmoid, s = softmax over shifts by 1, 0 and -1, γ = 1 + softplus of maps of the state

    located: whether they know where they were; without, w = w^c.

    Shapes: state [batch, d], memory [batch, slot, width], before w_{t-1} [batch, head, slot] -> the same.
    """

    deciding = ("asks",)

    def __init__(self, *, d: int, width: int, heads: int, located: bool) -> None:
        super().__init__()
        self.heads, self.located = heads, located
        self.sizes = [width, 1, 1, _SHIFTS, 1] if located else [width, 1]
        self.asks = nn.Linear(d, heads * sum(self.sizes))
        self.attention = Attention(score=Dot())

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights."""
        return tuple(replace(each, heads=self.heads) for each in weights_of(self.attention))

    def forward(self, state: Tensor, memory: Tensor, before: Tensor) -> Tensor:
        key, strength, *where = self.asks(state).unflatten(-1, (self.heads, -1)).split(self.sizes, -1)
        query = softplus(strength) * normalize(key, dim=-1)
        content = self.attention.weights(query.unsqueeze(2), normalize(memory, dim=-1).unsqueeze(1)).squeeze(2)
        if not self.located:
            return content
        gate, shift, sharpness = where[0].sigmoid(), where[1].softmax(-1), 1 + softplus(where[2])
        gated = gate * content + (1 - gate) * before
        around = torch.cat([gated[..., -1:], gated, gated[..., :1]], -1).unfold(-1, _SHIFTS, 1)
        moved = (around @ shift.unsqueeze(-1)).squeeze(-1)
        raised = (moved / moved.amax(-1, keepdim=True)) ** sharpness  # whose sum is never 0
        return raised / raised.sum(-1, keepdim=True)


class Memory(nn.Module):
    """A step of a memory: its heads write, then others read (§3.1, 3.2).

    M_t(i) = M_{t-1}(i) ⊙ Π_h (1 - w_h(i) e_h) + Σ_h w_h(i) a_h (eq. 3, 4);  r_h = Σ_i w_h(i) M_t(i) (eq. 2)
    e = sigmoid, a = tanh of maps of the state; M_0 and the first weights are learned

    Shapes: state [batch, d], slots -> slots as they are then.
    """

    def __init__(self, *, d: int, slots: int, width: int, heads: int, located: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.read, self.write = (Addressing(d=d, width=width, heads=heads, located=located) for _ in range(2))
        self.change = nn.Linear(d, heads * 2 * width)
        self.begun = nn.Parameter(torch.empty(slots, width).uniform_(-1, 1) / (slots + width) ** 0.5)
        self.focus = nn.Parameter(torch.zeros(2, heads, slots))
        with torch.no_grad():
            self.focus[..., 0] = _FOCUS

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of the weights of those that read, and of those that write."""
        return weights_of(self.read, self.write)

    def begin(self, like: Tensor) -> Slots:
        """Slots before the first step, of as many rows as [batch, …] has."""
        rows = like.shape[0]
        memory, (read, write) = self.begun.expand(rows, -1, -1), self.focus.softmax(-1)
        found = memory.new_zeros(rows, self.heads * self.begun.shape[1])
        return Slots(memory, found, read.expand(rows, -1, -1), write.expand(rows, -1, -1))

    def forward(self, state: Tensor, slots: Slots) -> Slots:
        write = self.write(state, slots.memory, slots.write)
        erase, add = self.change(state).unflatten(-1, (self.heads, 2, -1)).unbind(2)
        kept = 1 - write.unsqueeze(-1) * erase.sigmoid().unsqueeze(2)  # [batch, head, slot, width]
        memory = slots.memory
        for each in kept.unbind(1):
            memory = memory * each
        memory = memory + write.transpose(1, 2) @ add.tanh()
        read = self.read(state, memory, slots.read)
        return Slots(memory, (read @ memory).flatten(1), read, write)
