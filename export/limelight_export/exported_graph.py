"""A complete ONNX graph of a bundle."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import ModelProto

from limelight_export.interface import TensorSpec
from limelight_export.surgery.intervention_inputs import Intervention
from limelight_export.surgery.optional_maps import OptionalMap


@dataclass(frozen=True)
class ExportedGraph:
    """One graph of a bundle; `model` has exactly these inputs and outputs, and those of its optional maps.

    Attributes:
        optional_maps: by name of the map.
        packing_masks: inputs that are masks for token packing.
        interventions: of the graph for them, by name of the map.
        gated: outputs that hold values only where their gate is open.
        values: outputs for values, by name of the map; those of optional maps are behind the gate of the projections.
    """

    name: str
    file: str
    model: ModelProto
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    optional_maps: Mapping[str, OptionalMap] = field(default_factory=dict)
    packing_masks: tuple[str, ...] = ()
    interventions: Mapping[str, Intervention] = field(default_factory=dict)
    gated: tuple[str, ...] = ()
    values: Mapping[str, TensorSpec] = field(default_factory=dict)
