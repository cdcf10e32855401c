"""Contacts of a protein's residues from the maps of all layers (Rao et al. 2021, section 3)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention.weights import Weights
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import Map

CONTACTS = "contacts"


def contact_map(tokens: LabelSet) -> Map:
    """Describe the map of contacts."""
    return Map(
        weights=Weights(normalised=False),
        kind="self",
        derived=True,
        queries=tokens,
        keys=tokens,
        summary="Probability that two residues touch, by a regression over all heads; 0 for special tokens.",
    )


def predict_contacts(model: nn.Module, ids: Tensor, mask: Tensor, maps: Sequence[Tensor]) -> Tensor:
    """Predict contacts as `EsmContactPredictionHead` does, which leaves special tokens out.

    Per head: a + a^T, less the average product (row sum x column sum / total); their weighted sum over all heads,
    and a sigmoid.

    Shapes: ids INT64 and mask BOOL [batch, token], maps [batch, head, token, token] each -> [batch, 1, token, token].
    """
    head: Any = getattr(model, str(model.base_model_prefix), model).contact_head
    residues = mask & ids.ne(head.eos_idx) & (torch.arange(ids.shape[1]) > 0)
    both = (residues[:, :, None] & residues[:, None, :])[:, None]
    scores = head.regression.bias.reshape(1, 1, 1, 1)
    for layer, weights in enumerate(maps):  # one after the other: all at once take several times their memory
        heads = weights.shape[1]
        own = head.regression.weight[0, layer * heads : (layer + 1) * heads].reshape(1, -1, 1, 1)
        scores = scores + (_corrected(weights * both) * own).sum(1, keepdim=True)
    return torch.sigmoid(scores) * both


def _corrected(weights: Tensor) -> Tensor:
    """Symmetrise maps, and take the average product off."""
    both_ways = weights + weights.transpose(-1, -2)
    rows, total = both_ways.sum(-1, keepdim=True), both_ways.sum((-1, -2), keepdim=True)
    return both_ways - rows * rows.transpose(-1, -2) / torch.where(total == 0, 1.0, total)
