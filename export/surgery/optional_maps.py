"""Maps that a graph computes only where they are asked for: their names, and how a graph declares them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bundle.v1 import bundle_pb2
from bundle.values import Array
from export.interface import Axes


@dataclass(frozen=True)
class Switch:
    """What makes a map be computed: inputs of the graph that may be left out, and what they make it put out, by name.

    gate, project: BOOL, false by default. heads: INT64 [head], queries: INT64 [query], empty by default. rows: FLOAT
    [batch, head, query, key], exactly the heads and queries named.
    query, key: FLOAT [batch, head, query or key, size]; bias: FLOAT, broadcast to the map's axes, empty where nothing
    is ever masked; maps with one mask share it. They are what `Projections` on disk says.
    single: which axes of the bias have size 1, as far as that is known.
    """

    gate: str
    heads: str
    queries: str
    rows: str
    project: str
    query: str
    key: str
    bias: str
    size: int
    single: Sequence[bool]

    @classmethod
    def of(cls, name: str, size: int, bias: str, single: Sequence[bool]) -> "Switch":
        """Name them after a map."""
        return cls(
            gate=f"{name}:gate",
            heads=f"{name}:heads",
            queries=f"{name}:queries",
            rows=f"{name}:rows",
            project=f"{name}:project",
            query=f"{name}:query",
            key=f"{name}:key",
            bias=bias,
            size=size,
            single=single or [False] * 4,
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the graph puts out for it beside the map itself."""
        return tuple(filter(None, (self.rows, self.query, self.key, self.bias)))

    def whole(self) -> dict[str, Array]:
        """Give what is fed to get the whole map."""
        return {self.gate: np.array(True)}

    def some(self, heads: Array, queries: Array) -> dict[str, Array]:
        """Give what is fed to get some heads and queries."""
        return {self.heads: heads.astype(np.int64), self.queries: queries.astype(np.int64)}

    def projected(self) -> dict[str, Array]:
        """Give what is fed to get the projections."""
        return {self.project: np.array(True)}

    def weights(self, outputs: Mapping[str, Array]) -> Array:
        """Make the whole map of projections."""
        scores = outputs[self.query].astype(np.float64) @ outputs[self.key].swapaxes(2, 3).astype(np.float64)
        possible = np.True_
        if self.bias:
            scores, possible = scores + outputs[self.bias], outputs[self.bias].max(axis=-1, keepdims=True) == 0
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.asarray(weights * possible, np.float32)

    def bind(self, binding: bundle_pb2.MapBinding) -> None:
        """Say in a binding where they are."""
        binding.gate = self.gate
        binding.probe.heads_input, binding.probe.queries_input = self.heads, self.queries
        binding.probe.output = self.rows
        binding.projections.gate, binding.projections.bias_output = self.project, self.bias
        binding.projections.query_output, binding.projections.key_output = self.query, self.key


def declare(model: onnx.ModelProto, switch: Switch, axes: Axes) -> None:
    """Add a switch to a graph's inputs, with what they are where nobody feeds them, and to its outputs.

    axes: of the map, [batch, head, query, key].
    """
    batch, head, query, key = axes
    for name, dtype, shape in (
        (switch.gate, np.bool_, ()),
        (switch.project, np.bool_, ()),
        (switch.heads, np.int64, (switch.heads,)),
        (switch.queries, np.int64, (switch.queries,)),
    ):
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        model.graph.input.append(helper.make_tensor_value_info(name, element, shape))
        # An input with an initializer is optional.
        default = np.zeros([0] * len(shape), dtype)
        model.graph.initializer.append(numpy_helper.from_array(default, name))
    for name, sizes in (
        (switch.rows, (batch, switch.heads, switch.queries, key)),
        (switch.query, (batch, head, query, switch.size)),
        (switch.key, (batch, head, key, switch.size)),
        (switch.bias, tuple(1 if each else f"{switch.bias}:{axis}" for axis, each in enumerate(switch.single))),
    ):
        if name and not any(each.name == name for each in model.graph.output):
            model.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes))
