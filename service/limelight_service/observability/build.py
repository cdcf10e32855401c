"""What a server is and may use, told once at its start: versions, cores, memory and limits."""

import logging
import platform
from importlib import metadata

from limelight_service.observability.metrics import Metrics
from limelight_service.settings import Settings

logger = logging.getLogger(__name__)

_RUNTIMES = ("onnxruntime", "onnxruntime-gpu")


def release() -> str:
    """Give the version of this program."""
    return _version("limelight")


def tell_build(metrics: Metrics, settings: Settings) -> None:
    """Log and count versions, and what the server takes of the machine."""
    runtime = next((found for each in _RUNTIMES if (found := _version(each)) != "unknown"), "unknown")
    metrics.build(release(), platform.python_version(), runtime, _version("grpcio"))
    metrics.taken(settings.taken)
    taken = ", ".join(f"{name} {value}" for name, value in settings.taken.items())
    logger.info("limelight %s takes of this machine: %s", release(), taken)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"
