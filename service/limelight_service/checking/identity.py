"""The key under which verdicts are cached: this program, its libraries, and the processor."""

import contextlib
import hashlib
import json
import platform
from functools import cache
from importlib import import_module, metadata
from pathlib import Path

_LIBRARIES = ("onnxruntime", "onnx", "numpy", "tokenizers", "pillow", "protobuf")
_PACKAGES = ("limelight_bundle", "limelight_service")
_PROCESSOR = Path("/proc/cpuinfo")


@cache
def identity() -> str:
    """Give a hash that is another one whenever a bundle might be checked, or its weights packed, differently."""
    content = {
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "code": _code(),
        "processor": _processor(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _code() -> str:
    """Hash this program itself: between two releases its version says nothing."""
    found = hashlib.sha256()
    for package in map(import_module, _PACKAGES):
        (folder,) = map(Path, package.__path__)
        for path in sorted(folder.rglob("*.py")):
            data = path.read_bytes()
            found.update(f"{package.__name__} {path.relative_to(folder)} {len(data)}\n".encode() + data)
    return found.hexdigest()


def _processor() -> list[str]:
    """Name the processor and what it can do, which decides how weights are packed."""
    lines = [platform.machine()]
    with contextlib.suppress(OSError):
        known = dict.fromkeys(
            line for line in _PROCESSOR.read_text().splitlines() if line.startswith(("model name", "flags", "Features"))
        )
        lines += known
    return lines
