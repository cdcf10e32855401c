"""Conversion of pickled weights to safetensors, by PyTorch's reader that builds tensors and nothing else."""

import pickle
import shutil
from pathlib import Path

import torch

from export.errors import CheckpointError
from export.importing.huggingface.checkpoint import CONFIG, pickled_weights

_COPIED = {".json", ".txt", ".md", ".model"}


def convert_weights(folder: Path, out: Path) -> Path:
    """Write a copy of a checkpoint whose weights are `model.safetensors`.

    Raises:
        CheckpointError: there are no pickled weights, they hold more than tensors, or `out` exists.
    """
    from safetensors.torch import save_file

    source = pickled_weights(folder) if folder.is_dir() else None
    if source is None:
        raise CheckpointError(f"{folder} has no pickled weights")
    if out.exists():
        raise CheckpointError(f"{out} exists")
    try:
        loaded = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(
            f"{source.name} cannot be read as tensors alone: {str(error).strip().splitlines()[0]}"
        ) from error
    if not isinstance(loaded, dict) or not all(isinstance(each, torch.Tensor) for each in loaded.values()):
        raise CheckpointError(f"{source.name} is not a table of tensors")
    out.mkdir(parents=True)
    for path in folder.iterdir():
        if path.is_file() and (path.suffix in _COPIED or path.name == CONFIG):
            shutil.copyfile(path, out / path.name)
    # A file of safetensors shares no memory between tensors; transformers ties weights again when it loads them.
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in loaded.items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out
