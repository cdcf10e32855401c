"""The device that a model learns on."""

import torch
from torch import nn

from limelight_models.data.dataset import DataError


def devices() -> list[str]:
    """The names of those that are here."""
    cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else [])]


def find(name: str) -> torch.device:
    """A device by its name, which it makes torch's own of its kind; `cuda` is the first. Raises: DataError."""
    there, wanted = devices(), "cuda:0" if name == "cuda" else name
    if wanted not in there:
        raise DataError(f"there is no device {name!r} here; there is {', '.join(there)}")
    device = torch.device(wanted)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def device_of(model: nn.Module) -> torch.device:
    """The device of a model."""
    return next(model.parameters()).device
