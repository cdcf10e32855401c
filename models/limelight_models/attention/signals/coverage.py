"""Coverage (I5): keeping track of what attention has used, as numbers (symbolic) or as vectors (sub-symbolic)."""

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import in_single
from limelight_models.attention.errors import require_features
from limelight_models.attention.signals.mean import mean_where


def coverage(weights: Tensor) -> Tensor:
    """Summed weight of each key before each step (Tu et al. 2016, eq. 6; survey G §4.2, symbolic).

    C_{t,l} = Σ_{s<t} a_{s,l}

    It is `Context(coverage=…)` of `CoverageAware`; step by step it is `coverage + weights`.

    Shapes: weights [batch, head, step, key] -> coverage of the same shape, zeros at the first step.
    """
    return weights.cumsum(-2) - weights


def fertility_coverage(weights: Tensor, fertility: Tensor) -> Tensor:
    """Coverage in parts of what each key is expected to need (Tu et al. 2016, eq. 7; survey G §4.2).

    C_{t,l} = Σ_{s<t} a_{s,l} / Φ_l, with Φ from `Fertility`

    Shapes: weights [batch, head, step, key], fertility, positive, [batch, key] -> coverage of the weights' shape.
    """
    return coverage(weights) / fertility[:, None, None, :]


class Fertility(nn.Module):
    """Expected total attention of each key, predicted from the key (Tu et al. 2016, eq. 8; survey G §4.2).

    Φ_l = N sigmoid(U h_l), between 0 and N

    It is the `fertility` of `fertility_coverage`, and learns through the coverage that the score reads.

    Shapes: keys [batch, key, d_k] -> [batch, key].
    Raises: ShapeError where d_k differs; ValueError where `most` (N) is not positive.
    """

    def __init__(self, *, d_k: int, most: float = 2.0) -> None:
        super().__init__()
        if most <= 0:
            raise ValueError(f"most (N) must be positive; it is {most}")
        self.d_k, self.most = d_k, most
        self.need = nn.Linear(d_k, 1, bias=False)

    def forward(self, keys: Tensor) -> Tensor:
        require_features(keys, "keys", self.d_k, self)
        return self.most * self.need(keys).squeeze(-1).sigmoid()


def coverage_penalty(weights: Tensor, query_mask: Tensor | None = None) -> Tensor:
    """Penalty on attending again to what has been covered (See et al. 2017, eq. 12; survey G §4.2).

    L = Σ_l min(a_{t,l}, C_{t,l}), mean over steps, heads and batch

    Shapes: weights [batch, head, step, key], query_mask [batch, step] -> a number.
    """
    weights = in_single(weights)
    again = torch.minimum(weights, coverage(weights)).sum(-1)
    return mean_where(again, None if query_mask is None else query_mask.unsqueeze(1))


class CoverageVectors(nn.Module):
    """Coverage as a vector a key, updated by a gated unit (Tu et al. 2016, eq. 5; Mi et al. 2016a; survey G §4.2).

    C_{t,l} = GRU(C_{t-1,l}, [a_{t,l}; k_l; q_t])

    The vectors go beside the keys of the next step, [k_l; C_{t,l}], whatever the score. Start with zeros.

    Shapes: state [batch, key, d_c], weights [batch, head, 1, key], key [batch, key, d_k], query [batch, 1, d_q]
        -> state [batch, key, d_c].
    """

    def __init__(self, *, d_c: int, d_k: int, d_q: int, heads: int = 1) -> None:
        super().__init__()
        self.cell = nn.GRUCell(heads + d_k + d_q, d_c)

    def forward(self, state: Tensor, weights: Tensor, key: Tensor, query: Tensor) -> Tensor:
        used = weights.squeeze(2).transpose(1, 2)
        seen = torch.cat([used, key, query.expand(-1, key.shape[1], -1)], -1)
        return self.cell(seen.flatten(0, 1), state.flatten(0, 1)).unflatten(0, state.shape[:2])
