"""Keeps libraries from calling home. Each is told by the environment, which it reads once: when it is imported.

As soon as it is imported, ONNX Runtime makes an identifier of the device and a database in the user's cache, and then
sends events to its maker: `onnxruntime.disable_telemetry_events` comes too late, and stops some of them only.
"""

import os

_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_HUB = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def disable_telemetry() -> None:
    """Turn telemetry off in libraries that are imported from now on, here and in processes that this one starts."""
    os.environ.update(_TELEMETRY)


def stay_offline() -> None:
    """Turn telemetry off, and have Hugging Face's libraries use what is on this machine, unless the environment says
    otherwise.
    """
    disable_telemetry()
    for variable, value in _HUB.items():
        os.environ.setdefault(variable, value)
