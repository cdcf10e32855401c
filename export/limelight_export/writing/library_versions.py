"""Versions of the libraries that made a bundle."""

from importlib import metadata

_LIBRARIES = ("limelight", "torch", "onnx", "onnxscript", "onnx-ir", "onnxruntime", "numpy", "tokenizers")


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that take part in an export, as far as installed."""
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
