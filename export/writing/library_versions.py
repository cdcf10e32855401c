"""Which libraries made a bundle."""

from importlib import metadata

_LIBRARIES = ("limelight", "torch", "onnx", "onnxscript", "onnx-ir", "onnxruntime", "numpy", "tokenizers")


def library_versions() -> dict[str, str]:
    """Give the versions of the libraries whose work is in a bundle, as far as they are installed."""
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
