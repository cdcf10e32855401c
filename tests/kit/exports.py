"""Exports kept by content while the tests run: a model is exported once, whichever test or process asks first.

The functions take the place of those that they are named after. What an export depends on is in its key: the network
with its weights, the card, the examples, the options, the files of a checkpoint. The code of files is not, for it does
not change while tests run: a test that patches code which takes part in an export, or asserts that an export fails or
warns, calls the exporter itself.
"""

import dataclasses
import enum
import fcntl
import functools
import hashlib
import os
import pickle
import shutil
import tempfile
import types
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import torch
from google.protobuf.message import Message
from tokenizers import Tokenizer
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_bundle.writer import target_folder, write_bundle
from limelight_export import pipeline
from limelight_export.execution.pytorch_runner import copy_for_export
from limelight_export.exported_graph import ExportedGraph
from limelight_export.importing.huggingface import importer
from limelight_export.tracing import build
from limelight_models.cards.card import Card, TrainedModel
from limelight_models.network import Network

FOLDER = "LIMELIGHT_TEST_EXPORTS"  # set for a run, and for all its processes, by tests/conftest.py


def export_model(trained: TrainedModel, repository: Path, *, version: int = 0, **options: Any) -> BundleFolder:
    """Export a model as `limelight_export.export_model` does, or copy what an equal call has exported."""
    target_folder(repository, trained.card.description.name, version)

    def make(folder: Path) -> None:
        known = dict(options)
        if not {"graphs", "half_weights"} & options.keys():  # graphs of every precision are made of the same traces
            model, changed = copy_for_export(trained.model), options.get("interventions", True)
            known["graphs"] = build_graphs(model, trained.card, interventions=changed)
        pipeline.export_model(trained, folder, **known)

    return _placed(_kept(make, "model", trained, options), repository, version)


def import_checkpoint(folder: Path, repository: Path, *args: Any, version: int = 0, **options: Any) -> BundleFolder:
    """Import a checkpoint as `limelight import` does, or copy what an equal call has imported."""

    def make(scratch: Path) -> None:
        importer.import_checkpoint(folder, scratch, *args, **options)

    return _placed(_kept(make, "checkpoint", folder.name, _files(folder), args, options), repository, version)


def build_graphs(model: Network, card: Card, *, interventions: bool = True) -> list[ExportedGraph]:
    """Trace a model as `limelight_export.tracing.build` does, or read what an equal call has traced."""

    def make(folder: Path) -> None:
        (folder / "graphs").write_bytes(pickle.dumps(build.build_graphs(model, card, interventions=interventions)))

    kept = _kept(make, "graphs", model, card, interventions)
    found: list[ExportedGraph] = pickle.loads((kept / "graphs").read_bytes())
    return found


def _placed(kept: Path, repository: Path, version: int) -> BundleFolder:
    (path,) = (each.parent for each in kept.glob("*/*/bundle.json"))
    found = read_bundle(path)
    files: dict[str, bytes | Path] = {each.path: found.file(each.path) for each in found.bundle.files}
    return write_bundle(repository, found.bundle, files, version=version)


def _kept(make: Callable[[Path], None], *content: object) -> Path:
    """Return the folder that `make` filled for this content; other processes wait for the one that fills it."""
    root = Path(os.environ[FOLDER])
    path = root / fingerprint(*content)
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            scratch = Path(tempfile.mkdtemp(dir=root))
            try:
                make(scratch)
                scratch.rename(path)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return path


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fingerprint(*content: object) -> str:
    """Return a digest of values, equal in every process of a run.

    Raises:
        TypeError: something has content that this function cannot read.
    """
    digest = hashlib.sha256()
    _Walk(digest.update).over(content)
    return digest.hexdigest()


class _Walk:
    """Feeds the content of values to a digest, each object once; later it is the place where it came first."""

    def __init__(self, update: Callable[[bytes], None]) -> None:
        self._update = update
        self._places: dict[int, int] = {}
        self._alive: list[object] = []  # an id means an object only as long as that lives

    def over(self, value: Any) -> None:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | torch.dtype | torch.device):
            self._note(type(value).__name__, value if isinstance(value, bytes) else repr(value))
        elif isinstance(value, type):
            self._over_class(value)
        elif id(value) in self._places:
            self._note("again", str(self._places[id(value)]))
        else:
            self._places[id(value)] = len(self._places)
            self._alive.append(value)
            self._over_object(value)

    def _note(self, kind: str, content: str | bytes) -> None:
        raw = content if isinstance(content, bytes) else content.encode()
        self._update(f"{kind}:{len(raw)}:".encode() + raw)

    def _over_class(self, value: type) -> None:
        self._note("class", f"{value.__module__}.{value.__qualname__}")
        if "<locals>" in value.__qualname__:  # one name may be made several times, with other values around it
            for name, part in sorted(vars(value).items()):
                if isinstance(part, types.FunctionType):
                    self._note("method", name)
                    self.over(part)

    def _over_object(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, enum.Enum):
            self._note(kind.__qualname__, value.name)
        elif isinstance(value, torch.Tensor):
            self._note("tensor", f"{value.dtype}{tuple(value.shape)}{value.requires_grad}")
            self._note("values", value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
        elif isinstance(value, np.ndarray | np.generic):
            self._note("array", f"{value.dtype}{value.shape}")
            self._note("values", np.ascontiguousarray(value).tobytes())
        elif isinstance(value, Message):
            self._note(kind.__qualname__, value.SerializeToString(deterministic=True))
        elif isinstance(value, Tokenizer):
            self._note("tokenizer", value.to_str())
        elif isinstance(value, Path):
            self._note("path", value.read_bytes() if value.is_file() else str(value))
        elif isinstance(value, torch.Generator):
            self.over(value.get_state())
        elif isinstance(value, Mapping):
            self._note(kind.__qualname__, str(len(value)))
            for key, item in value.items():
                self.over(key)
                self.over(item)
        elif isinstance(value, Set):
            self._note(kind.__qualname__, repr(sorted(map(repr, value))))
        elif isinstance(value, list | tuple):
            self._note(kind.__qualname__, str(len(value)))
            for item in value:
                self.over(item)
        elif isinstance(value, types.FunctionType):
            self._note("function", f"{value.__module__}.{value.__qualname__}")
            self._over_code(value.__code__)
            for part in (value.__defaults__, value.__kwdefaults__, value.__closure__):
                self.over(part)
        elif isinstance(value, types.CellType):
            self.over(value.cell_contents)
        elif isinstance(value, types.MethodType):
            self.over((value.__func__, value.__self__))
        elif isinstance(value, functools.partial):
            self.over((value.func, value.args, value.keywords))
        elif isinstance(value, types.BuiltinFunctionType | types.ModuleType | torch._ops.OpOverloadPacket):
            self._note("named", repr(value.__name__))
        elif dataclasses.is_dataclass(value) and not isinstance(value, nn.Module):
            self._over_class(kind)  # what else is in its __dict__ was worked out from the fields
            self.over({each.name: getattr(value, each.name) for each in dataclasses.fields(value)})
        elif isinstance(value, nn.Module) and is_parametrized(value):  # it has no state but as tensors
            self._over_class(kind)
            self.over(vars(value))
        elif hasattr(value, "__dict__") or hasattr(kind, "__slots__"):
            self._over_class(kind)
            self.over(value.__getstate__())
        else:
            raise TypeError(f"an export depends on a {kind.__module__}.{kind.__qualname__}, whose content is not known")

    def _over_code(self, code: types.CodeType) -> None:
        self._note("code", code.co_code)
        self.over(code.co_names)
        for each in code.co_consts:
            if isinstance(each, types.CodeType):
                self._over_code(each)
            else:
                self._note("constant", repr(each))
