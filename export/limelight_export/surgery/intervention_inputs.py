"""Optional inputs and the output of a graph for interventions; the exporter without PyTorch reads them too."""

from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_export.surgery.optional_inputs import declare_optional_input

_FLOAT = onnx.TensorProto.FLOAT


@dataclass(frozen=True)
class Intervention:
    """Inputs and output of the interventions on one map.

    Of a map of edges that are joined, each input is FLOAT [edge, head], with the same default, and there is no output:
    no weight can be on a key that the query must not attend to.

    Attributes:
        scales: FLOAT [batch, head], ones by default: factor of each head's context vectors.
        replacement: FLOAT [batch, head, query, key], zeros by default.
        replaced: FLOAT [batch, head, query, 1], zeros by default: 1 where `replacement` takes the weights' place.
        uniform: FLOAT [batch, head, query, 1], zeros by default: 1 where uniform weights do.
        key_factors: FLOAT [batch, head, query, key], ones by default: factors of the weights, whose sum over keys
            stays. One row, head or query stands for all.
        masked: FLOAT output [batch]: the largest replacing weight on a key that the query must not attend to.
    """

    scales: str
    replacement: str
    replaced: str
    uniform: str
    key_factors: str
    masked: str

    @classmethod
    def of(cls, name: str, *, edges: bool = False) -> "Intervention":
        """Name the inputs and the output of a map's interventions."""
        parts = "scales", "replacement", "replaced", "uniform", "key_factors", "masked"
        found = cls(*(f"{name}:{each}" for each in parts))
        return replace(found, masked="") if edges else found

    @property
    def defaults(self) -> dict[str, Array]:
        """The default of each input."""
        zeros = np.zeros((1, 1, 1, 1) if self.masked else (1, 1), np.float32)
        return {
            self.scales: np.ones((1, 1), np.float32),
            self.replacement: zeros,
            self.replaced: zeros,
            self.uniform: zeros,
            self.key_factors: zeros + 1,
        }

    def fill_binding(self, binding: bundle_pb2.MapBinding) -> None:
        """State the inputs and the output in a map's binding."""
        binding.head_scales = self.scales
        binding.weights_inputs.extend((self.replacement, self.replaced, self.uniform))
        binding.key_factors = self.key_factors
        binding.masked_output = self.masked


def declare_intervention(model: onnx.ModelProto, intervention: Intervention) -> None:
    """Add the inputs of a map's interventions, with their defaults, and their output to a graph."""
    for name, value in intervention.defaults.items():
        declare_optional_input(model, name, value, tuple(f"{name}:{axis}" for axis in range(value.ndim)))
    if intervention.masked:
        model.graph.output.append(helper.make_tensor_value_info(intervention.masked, _FLOAT, ["batch"]))
