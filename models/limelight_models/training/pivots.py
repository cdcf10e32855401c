"""Pivots: words of opinion that two domains share, found by what a network for both looks at (Li et al. 2018)."""

import torch
from torch import Tensor

from limelight_models.network import Network
from limelight_models.tasks.task import UNKNOWN, answers
from limelight_models.training.batches import Batches

_UNKNOWN_WORD = 1  # padding is 0


def pivots(network: Network, examples: Batches, *, shape: tuple[int, int], count: int) -> Tensor:
    """The words that a P-net looks at more in reviews of one class than in others, the more the more they stand there;
    of such that stand in reviews without a class too: bool [class, token].

    Where it stands counts as well because a network that knows bad words looks at anything where there are none.

    shape: numbers of classes and tokens. count: of pivots for each class, at most.
    """
    weight, seen = torch.zeros(2, *shape)
    elsewhere = torch.zeros(shape[1], dtype=torch.bool)
    for batch, answer in answers(network, examples):
        maps = answer.maps
        looks = maps["pivots.word"][:, 0] * maps["pivots.sentence"][:, 0, 0, :, None]
        real = batch.tensors["token_mask"].float()
        for ids, look, there, label in zip(batch.tensors["token_ids"], looks, real, batch.target.tolist(), strict=True):
            if label == UNKNOWN:
                elsewhere[ids.flatten()] = True
            else:
                weight[label].index_add_(0, ids.flatten(), look.flatten())
                seen[label].index_add_(0, ids.flatten(), there.flatten())
    more = above(weight) * above(seen) / shares(seen).sum(0).clamp(min=1e-9) * elsewhere
    more[:, : _UNKNOWN_WORD + 1] = 0
    best = more.topk(min(count, shape[1]), -1)
    return torch.zeros_like(more, dtype=torch.bool).scatter_(1, best.indices, best.values > 0)


def shares(counts: Tensor) -> Tensor:
    """Each row [class, token] divided by its sum."""
    return counts / counts.sum(-1, keepdim=True).clamp(min=1)


def above(counts: Tensor) -> Tensor:
    """Excess of each share over that of any other class, 0 where there is none [class, token]."""
    parts = shares(counts)
    classes_ = torch.arange(len(parts))
    return torch.stack([(parts[one] - parts[classes_ != one].amax(0)).clamp(min=0) for one in classes_])
