"""Frames of sound: those of a recording that are heard, without what its loudness adds to all of them."""

import torch
from torch import Tensor


def heard(features: Tensor) -> tuple[Tensor, Tensor]:
    """Frames up to the last one that is heard, each filter with mean 0 and deviation 1 over these.

    Behind it is the silence with which a recording is padded: all its filters have the recording's lowest value.

    Shapes: features [batch, mel, frame], logarithms -> x [batch, frame, mel], zeros behind the last one heard, and
        their mask bool [batch, frame].
    """
    x = features.transpose(1, 2)
    loud = (x > x.amin((1, 2), keepdim=True)).any(-1)
    mask = loud.flip(1).cumsum(1).flip(1) > 0  # a frame that is silent within the sound is a part of it
    shown = mask.unsqueeze(-1).to(x.dtype)
    count = shown.sum(1, keepdim=True).clamp(min=1)
    away = (x - (x * shown).sum(1, keepdim=True) / count) * shown
    deviation = torch.sqrt((away**2).sum(1, keepdim=True) / count)
    return away / (deviation + 1e-3), mask
