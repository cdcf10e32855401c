"""Maps that a graph computes only where they are asked for: their names, and how a graph declares them."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bundle.v1 import bundle_pb2
from bundle.values import Array
from export.interface import Axes


@dataclass(frozen=True)
class Switch:
    """What makes a map be computed: inputs of the graph that may be left out, and the output of single rows, by name.

    gate: BOOL, false by default. heads: INT64 [head], queries: INT64 [query], empty by default. rows: FLOAT [batch,
    head, query, key], exactly the heads and queries named.
    """

    gate: str
    heads: str
    queries: str
    rows: str

    @classmethod
    def of(cls, name: str) -> "Switch":
        """Name them after a map."""
        return cls(f"{name}:gate", f"{name}:heads", f"{name}:queries", f"{name}:rows")

    def whole(self) -> dict[str, Array]:
        """Give what is fed to get the whole map."""
        return {self.gate: np.array(True)}

    def some(self, heads: Array, queries: Array) -> dict[str, Array]:
        """Give what is fed to get some heads and queries."""
        return {self.heads: heads.astype(np.int64), self.queries: queries.astype(np.int64)}

    def bind(self, binding: bundle_pb2.MapBinding) -> None:
        """Say in a binding where they are."""
        binding.gate = self.gate
        binding.probe.heads_input, binding.probe.queries_input = self.heads, self.queries
        binding.probe.output = self.rows


def declare(model: onnx.ModelProto, switch: Switch, axes: Axes) -> None:
    """Add a switch to a graph's inputs, with what they are where nobody feeds them, and to its outputs.

    axes: of the map, [batch, head, query, key].
    """
    batch, _, _, key = axes
    for name, dtype, shape in (
        (switch.gate, np.bool_, ()),
        (switch.heads, np.int64, (switch.heads,)),
        (switch.queries, np.int64, (switch.queries,)),
    ):
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        model.graph.input.append(helper.make_tensor_value_info(name, element, shape))
        # An input with an initializer is optional.
        default = np.zeros([0] * len(shape), dtype)
        model.graph.initializer.append(numpy_helper.from_array(default, name))
    rows = (batch, switch.heads, switch.queries, key)
    model.graph.output.append(helper.make_tensor_value_info(switch.rows, onnx.TensorProto.FLOAT, rows))
