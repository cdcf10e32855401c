"""Export of models to bundles: `limelight.export.export_module`, `Card` and what cards consist of.

They come from the application, which this client does not import by name.
"""

from typing import Any

from limelight.base import installing, parts

_package = parts.load("export")
if _package is None:
    # With the name of this module, `from limelight import export` would replace the message by its own.
    raise ModuleNotFoundError(f"limelight.export is not installed: {installing.extra('train,serve')}")
__all__ = list(_package.__all__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'limelight.export' has no attribute {name!r}")
    return getattr(_package, name)


def __dir__() -> list[str]:
    return __all__
