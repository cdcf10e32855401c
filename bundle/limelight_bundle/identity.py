"""What made something that is kept: libraries by their versions, and this program by its code."""

import hashlib
import platform
from collections.abc import Iterable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any


def identity(libraries: Iterable[str], packages: Iterable[str]) -> dict[str, Any]:
    """Give values that are others whenever Python, a library, or code of these packages of this program is another."""
    return {
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in libraries},
        "code": _code(packages),
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _code(packages: Iterable[str]) -> str:
    """Hash this program itself: between two releases its version says nothing."""
    found = hashlib.sha256()
    for package in map(import_module, packages):
        (folder,) = map(Path, package.__path__)
        for path in sorted(folder.rglob("*.py")):
            data = path.read_bytes()
            found.update(f"{package.__name__} {path.relative_to(folder)} {len(data)}\n".encode() + data)
    return found.hexdigest()
