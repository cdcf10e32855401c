"""The state of a training run on disk: one safetensors file, its numbers as JSON in the header; no pickles.

One file that is written whole and renamed: whatever interrupts a run, what is there is the state of one moment.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from limelight_bundle.errors import LimelightError
from limelight_models.data.dataset import DataError
from limelight_models.recipes.device import device_of

_RANDOM = "random"


@dataclass
class Progress:
    """Progress of a run.

    step: optimiser steps so far. batch: batches done of this epoch; loss and terms: summed over those. best: the lowest
    standing (`Task.standing`, the dev loss as a rule), of epoch `best_epoch`. history: one record an epoch. seconds:
    spent training, over all sittings.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss: float = 0.0
    terms: int = 0
    best: float = float("inf")
    best_epoch: int = -1
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


class WriteError(LimelightError):
    """A file of a run folder that cannot be written: no room, no right, a file system that is read-only."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one.

    Raises: WriteError where it cannot be written; nothing new is left behind then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise WriteError(
            f"{path}: cannot be written ({error.strerror}); make room or give another --out; "
            "what was written before is whole"
        ) from error


def write_weights(path: Path, model: nn.Module) -> None:
    """Write a model's parameters: of no device, so that they are read on any."""
    write_whole(path, save({name: tensor.cpu().contiguous() for name, tensor in own(model).items()}))


def own(model: nn.Module) -> dict[str, Tensor]:
    """A model's state, each tensor once, however many places share it (hops with the same weights)."""
    state = model.state_dict()
    seen: set[int] = set()
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    for name, tensor in named:
        if name in state and id(tensor) in seen:
            del state[name]
        seen.add(id(tensor))
    return state


def load(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Undo `own`. Raises: RuntimeError where tensors are missing, left over or of another shape."""
    if (wanted := set(own(model))) != set(state):
        raise RuntimeError(f"it differs in {', '.join(sorted(wanted ^ set(state)))}")
    model.load_state_dict(state, strict=False)


def read_weights(path: Path, model: nn.Module) -> None:
    """Read a model's parameters. Raises: DataError where the file is missing, broken, or of another model."""
    try:
        with safe_open(path, "pt") as file:
            load(model, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (OSError, SafetensorError, RuntimeError) as error:
        raise DataError(f"{path}: does not hold the weights of this model ({error})") from error


def write_state(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write everything that a run needs to go on as if nothing had been."""
    tensors = {f"model/{name}": tensor for name, tensor in own(model).items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{index}/{name}": tensor for name, tensor in state.items()}
    tensors[_RANDOM] = torch.get_rng_state()
    device = device_of(model)
    if device.type != "cpu":
        tensors[f"{_RANDOM}/{device.type}"] = torch.get_device_module(device).get_rng_state()
    written = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(written, metadata={"progress": json.dumps(asdict(progress))}))


def read_state(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Bring a run back, random numbers included; those of a device that it was not on before go on as they are.

    Raises: DataError where the file is missing or broken.
    """
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            progress = Progress(**json.loads(file.metadata()["progress"]))
        load(model, _below(tensors, "model/"))
        optimizer.load_state_dict({**optimizer.state_dict(), "state": _by_index(_below(tensors, "optimizer/"))})
        torch.set_rng_state(tensors[_RANDOM])
        device = device_of(model)
        if (state := tensors.get(f"{_RANDOM}/{device.type}")) is not None:
            torch.get_device_module(device).set_rng_state(state)
    except (OSError, SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: no training can go on from it ({error})") from error
    return progress


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _by_index(tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Any]]:
    """`3/exp_avg` -> 3: {`exp_avg`: …}."""
    states: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition("/")
        states.setdefault(int(index), {})[key] = tensor
    return states
