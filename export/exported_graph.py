"""A finished ONNX graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import ModelProto

from export.interface import Port
from export.surgery.optional_maps import Switch


@dataclass(frozen=True)
class Graph:
    """One graph of a bundle; `model` has exactly these inputs and outputs, and those of its switches.

    switches: by the name of the map. packed: the inputs that are masks by which it packs tokens.
    """

    name: str
    file: str
    model: ModelProto
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    switches: Mapping[str, Switch] = field(default_factory=dict)
    packed: tuple[str, ...] = ()
