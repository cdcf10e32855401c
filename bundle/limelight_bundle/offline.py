"""Keeps libraries offline, by environment variables that they read when they are imported.

On import, ONNX Runtime creates a device identifier and a database in the user's cache, and then sends events to its
vendor. `onnxruntime.disable_telemetry_events` comes too late, and stops only some of them.
"""

import os

_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_HUB = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def disable_telemetry() -> None:
    """Disable telemetry in libraries that this process and its children import later."""
    os.environ.update(_TELEMETRY)


def stay_offline() -> None:
    """Disable telemetry, and downloads by Hugging Face's libraries unless the environment allows them."""
    disable_telemetry()
    for variable, value in _HUB.items():
        os.environ.setdefault(variable, value)
