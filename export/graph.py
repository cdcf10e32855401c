"""A finished ONNX graph."""

from dataclasses import dataclass

from onnx import ModelProto

from export.interface import Port


@dataclass(frozen=True)
class Graph:
    """One graph of a bundle; `model` has exactly these inputs and outputs."""

    name: str
    file: str
    model: ModelProto
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
