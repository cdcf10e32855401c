"""A cache of imports, for `limelight serve --checkpoint`: the same files are imported once."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from limelight_bundle.identity import identity
from limelight_bundle.names import BUNDLE_FILE
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import Checkpoint, files_read
from limelight_export.importing.huggingface.tasks.task import ImportOptions

_LIBRARIES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "onnx",
    "onnx-ir",
    "onnxscript",
    "onnxruntime",
    "onnxruntime-gpu",
    "numpy",
    "protobuf",
)
_PACKAGES = ("limelight_bundle", "limelight_models", "limelight_export")


def import_once(
    checkpoint: Checkpoint,
    cache: Path,
    options: ImportOptions,
    choices: Mapping[str, Any],
    write: Callable[[Path], object],
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Find the bundle of a checkpoint, or import it.

    It is found by the SHA-256 of all files that an import may read, by the options, and by what imports: libraries and
    this program. Processes that want the same one wait for each other.

    Args:
        choices: arguments of `import_checkpoint` beside the options.
        write: imports to CACHE/<key>, or leaves nothing there.
        say: is called with a line: what was found or imported, and how much room it takes.
    Returns: CACHE/<key>/<model>, with the version in it.
    """
    cache.mkdir(parents=True, exist_ok=True)
    stamps, shown = _stamps(checkpoint.folder), checkpoint.origin[0] or checkpoint.folder
    folder = cache / _key(checkpoint, options, choices)
    with _acquired(FileLock(f"{folder}.lock"), lambda: say(f"{shown}: another process imports it; waiting")):
        began, found = time.monotonic(), _bundle_in(folder)
        done = "imported before"
        if found is None:
            shutil.rmtree(folder, ignore_errors=True)  # of an import that was killed
            try:
                write(folder)
                if _stamps(checkpoint.folder) != stamps:
                    raise CheckpointError(f"{checkpoint.folder} changed while it was imported; start again")
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            found = _bundle_in(folder)
            assert found is not None
            done = f"imported in {time.monotonic() - began:.1f} s"
    own, every = (sum(each.stat().st_size for each in place.rglob("*") if each.is_file()) for place in (folder, cache))
    say(f"{shown}: {done}, {own / 1e6:,.1f} MB in {folder}; all in {cache}: {every / 1e6:,.1f} MB")
    return found


def _acquired(lock: FileLock, say_that_it_waits: Callable[[], None]) -> AbstractContextManager[object]:
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        say_that_it_waits()
        return lock.acquire()


def _bundle_in(folder: Path) -> Path | None:
    """Find CACHE/<key>/<model>, where it holds a version."""
    return next((each.parents[1] for each in folder.glob(f"*/*/{BUNDLE_FILE}")), None)


def _key(checkpoint: Checkpoint, options: ImportOptions, choices: Mapping[str, Any]) -> str:
    folder, references = checkpoint.folder, options.references
    content = {
        "files": {str(each.relative_to(folder)): _hash(each) for each in files_read(folder) if each.is_file()},
        "origin": checkpoint.origin,
        "name": options.name or checkpoint.name,
        "options": asdict(options) | {"references": None if references is None else _hash(references)},
        "choices": {name: str(value) for name, value in choices.items()},
        **identity(_LIBRARIES, _PACKAGES),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _hash(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _stamps(folder: Path) -> list[tuple[Path, int, int]]:
    found = [(each, each.stat()) for each in files_read(folder) if each.is_file()]
    return [(path, status.st_size, status.st_mtime_ns) for path, status in found]
