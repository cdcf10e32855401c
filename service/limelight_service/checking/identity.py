"""The key under which verdicts are cached: this program, its libraries, and the processor."""

import contextlib
import hashlib
import json
import platform
from functools import cache
from pathlib import Path

from limelight_bundle import identity as of_program

_LIBRARIES = ("onnxruntime", "onnx", "numpy", "tokenizers", "pillow", "protobuf")
_PACKAGES = ("limelight_bundle", "limelight_service")
_PROCESSOR = Path("/proc/cpuinfo")


@cache
def identity() -> str:
    """Give a hash that is another one whenever a bundle might be checked, or its weights packed, differently."""
    content = {**of_program.identity(_LIBRARIES, _PACKAGES), "processor": _processor()}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _processor() -> list[str]:
    """Name the processor and what it can do, which decides how weights are packed."""
    lines = [platform.machine()]
    with contextlib.suppress(OSError):
        known = dict.fromkeys(
            line for line in _PROCESSOR.read_text().splitlines() if line.startswith(("model name", "flags", "Features"))
        )
        lines += known
    return lines
