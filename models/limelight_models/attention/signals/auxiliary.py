"""Auxiliary head (I3): one head of a layer is trained on syntax."""

import torch
from torch import Tensor

from limelight_models.attention.signals.supervised import gold_cross_entropy


def syntax_head_loss(weights: Tensor, parents: Tensor, mask: Tensor | None = None, head: int = 0) -> Tensor:
    """One head attends to each token's syntactic parent (Strubell et al. 2018, §2.2, eq. 6; survey G §4.1.2).

    L = -log a[head, t, parent(t)], mean over tokens. A root is its own parent; a parent of -1 means unknown.

    In the paper this head scores with a bilinear form and a bias a key: `PerHead([BiasedGeneral(…), …])`.

    Shapes: weights [batch, head, token, token], parents integer [batch, token], mask [batch, token] -> a number.
    """
    positions = torch.arange(weights.shape[-1], device=weights.device)
    gold = (positions == parents.unsqueeze(-1)).to(weights.dtype).unsqueeze(1)
    return gold_cross_entropy(weights[:, head : head + 1], gold, None if mask is None else mask.unsqueeze(1))
