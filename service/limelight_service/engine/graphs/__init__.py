"""Small graphs that serving runs beside those of models. `tools/pages/graphs.py` has their text and writes them."""

from functools import cache
from pathlib import Path


@cache
def graph(name: str) -> bytes:
    """Read a serialised ONNX model of this package."""
    return (Path(__file__).parent / f"{name}.onnx").read_bytes()
