"""Conversion of pickled weights to safetensors, by PyTorch's reader that builds tensors and nothing else."""

import pickle
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import PICKLED_ENDINGS, check_files, pickled_weights


def convert_weights(folder: Path, out: Path) -> Path:
    """Write a copy of a checkpoint whose weights are `model.safetensors`, those of modules in folders of it included.

    Raises:
        CheckpointError: there are no pickled weights, they hold more than tensors, `out` exists, or a file leads out of
            the folder or has no end.
    """
    from safetensors.torch import save_file

    check_files(folder, folder.rglob("*"))  # all of them are copied
    folders = [folder, *(each for each in sorted(folder.iterdir()) if each.is_dir())] if folder.is_dir() else []
    sources = [found for each in folders if (found := pickled_weights(each)) is not None]
    # Of other folders, such as one of training, only those are taken whose file is named as weights are.
    sources = [each for each in sources if each.parent == folder or each.name == "pytorch_model.bin"]
    if not sources:
        raise CheckpointError(f"{folder} has no pickled weights")
    if out.exists():
        raise CheckpointError(f"{out} exists")
    converted = {each.parent.relative_to(folder): _read_tensors(each) for each in sources}
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=".converting-") as scratch:
        copied = Path(scratch) / out.name
        shutil.copytree(folder, copied, ignore=shutil.ignore_patterns(*(f"*{ending}" for ending in PICKLED_ENDINGS)))
        for place, tensors in converted.items():
            save_file(tensors, copied / place / "model.safetensors", metadata={"format": "pt"})
        copied.rename(out)
    return out


def _read_tensors(source: Path) -> dict[str, torch.Tensor]:
    """Read a pickle that holds tensors alone. Raises CheckpointError for another one."""
    try:
        loaded = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        # PyTorch's own message advises to read the file as a program after all.
        raise CheckpointError(f"{source.name} holds more than tensors, or is damaged; it is not converted") from error
    if not isinstance(loaded, dict) or not all(isinstance(each, torch.Tensor) for each in loaded.values()):
        raise CheckpointError(f"{source.name} is not a table of tensors")
    # A file of safetensors shares no memory between tensors; transformers ties weights again when it loads them.
    return {name: tensor.detach().clone().contiguous() for name, tensor in loaded.items()}
