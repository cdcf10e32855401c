"""Names in a repository. Only these become parts of paths."""

import re
from pathlib import PurePosixPath

from limelight_bundle.errors import BundleError

BUNDLE_FILE = "bundle.json"
SAMPLES_FILE = "samples.npz"
SCHEMA_VERSION = 1

_MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_FILE_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_model_name(name: str) -> bool:
    """Return whether a name is a valid model name."""
    return _MODEL_NAME.fullmatch(name) is not None


def is_version(text: str) -> bool:
    """Return whether a folder name is a version: a positive integer without leading zeros."""
    return _VERSION.fullmatch(text) is not None


def quantity_key(name: str, quantity: str) -> str:
    """Name a quantity of a map other than weights: `encoder.0.self:scores`."""
    return f"{name}:{quantity}"


def check_file_name(name: str) -> None:
    """Check that a file name is relative and plain. Raises BundleError."""
    parts = PurePosixPath(name).parts
    if not parts or "/".join(parts) != name or not all(_FILE_PART.fullmatch(part) for part in parts):
        raise BundleError(f"{name!r} is not a plain file name inside the bundle")
