"""Packages that some functions need and the client does not depend on."""

from importlib import import_module
from typing import Any


def package(name: str, what: str, *, extra: str = "data") -> Any:
    """Import a package of an extra.

    Args:
        what: the function that needs it, for the error.
        extra: the extra of the client that installs it.
    Raises:
        ModuleNotFoundError: it is not installed; one line says how to install it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        root = name.partition(".")[0]
        if error.name != root:
            raise
        message = f"{what} needs {root}, which is not installed: pip install {root}, or limelight-client[{extra}]"
        raise ModuleNotFoundError(message, name=root) from None
