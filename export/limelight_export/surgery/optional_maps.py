"""Optional maps of a graph: maps that are computed only where a run requests them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_export.interface import Axes
from limelight_export.surgery.optional_inputs import declare_optional_input
from limelight_export.surgery.values import value_name


@dataclass(frozen=True)
class OptionalMap:
    """Names of the optional inputs that request a map, and of the outputs that they fill.

    Attributes:
        gate, projections_gate: BOOL inputs, false by default.
        heads, queries: INT64 inputs [head] and [query], empty by default.
        rows: FLOAT output [batch, head, query, key] of exactly these heads and queries.
        query, key: FLOAT outputs [batch, head, query or key, head_size] (`Projections` of bundle.proto). They are
            empty, as is `bias`, where the weights do not follow from them.
        values: FLOAT output [batch, head, key, value_size], behind `projections_gate` too; empty for none. Without any
            of the three there is no such gate.
        bias: FLOAT output that broadcasts to the map's axes; maps with one mask share it. Empty for no mask.
        broadcast: for each axis of the bias, whether its size is 1, as far as known.
    """

    gate: str
    heads: str
    queries: str
    rows: str
    projections_gate: str
    query: str
    key: str
    values: str
    bias: str
    head_size: int
    value_size: int
    broadcast: Sequence[bool]

    @classmethod
    def of(cls, name: str, head_size: int, bias: str, broadcast: Sequence[bool], value_size: int = 0) -> "OptionalMap":
        """Name the inputs and outputs after the map."""
        return cls(
            gate=f"{name}:gate",
            heads=f"{name}:heads",
            queries=f"{name}:queries",
            rows=f"{name}:rows",
            projections_gate=f"{name}:project",
            query=f"{name}:query",
            key=f"{name}:key",
            values=value_name(name) if value_size else "",
            bias=bias,
            head_size=head_size,
            value_size=value_size,
            broadcast=broadcast or [False] * 4,
        )

    @classmethod
    def without_projections(cls, name: str, value_size: int = 0) -> "OptionalMap":
        """Name the inputs and outputs of a map whose weights do not follow from its projections."""
        made = cls.of(name, 0, "", (), value_size)
        return replace(made, projections_gate=made.projections_gate if value_size else "", query="", key="")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs beside the map's own."""
        return tuple(filter(None, (self.rows, self.query, self.key, self.values, self.bias)))

    @property
    def projected(self) -> dict[str, int]:
        """Outputs behind `projections_gate`, but for the bias, with the sizes of their vectors."""
        sizes = {self.query: self.head_size, self.key: self.head_size, self.values: self.value_size}
        return {name: size for name, size in sizes.items() if name}

    def request_weights(self) -> dict[str, Array]:
        """Return the inputs that request the whole map."""
        return {self.gate: np.array(True)}

    def request_rows(self, heads: Array, queries: Array) -> dict[str, Array]:
        """Return the inputs that request some heads and queries."""
        return {self.heads: heads.astype(np.int64), self.queries: queries.astype(np.int64)}

    def request_projections(self) -> dict[str, Array]:
        """Return the inputs that request the projections."""
        return {self.projections_gate: np.array(True)}

    def weights_from_projections(self, outputs: Mapping[str, Array]) -> Array:
        """Compute the whole map from its projections."""
        scores = outputs[self.query].astype(np.float64) @ outputs[self.key].swapaxes(2, 3).astype(np.float64)
        possible = np.True_
        if self.bias:
            scores, possible = scores + outputs[self.bias], outputs[self.bias].max(axis=-1, keepdims=True) == 0
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.asarray(weights * possible, np.float32)

    def fill_binding(self, binding: bundle_pb2.MapBinding) -> None:
        """Write the names into a map's binding."""
        binding.gate = self.gate
        binding.probe.heads_input, binding.probe.queries_input = self.heads, self.queries
        binding.probe.output = self.rows
        if self.query:
            binding.projections.gate, binding.projections.bias_output = self.projections_gate, self.bias
            binding.projections.query_output, binding.projections.key_output = self.query, self.key


def declare_optional_map(model: onnx.ModelProto, optional_map: OptionalMap, axes: Axes) -> None:
    """Add the inputs of an optional map, with their defaults, and its outputs to a graph.

    Args:
        axes: axes of the map, [batch, head, query, key].
    """
    batch, head, query, key = axes
    for name, dtype, shape in (
        (optional_map.gate, np.bool_, ()),
        (optional_map.projections_gate, np.bool_, ()),
        (optional_map.heads, np.int64, (optional_map.heads,)),
        (optional_map.queries, np.int64, (optional_map.queries,)),
    ):
        if name:
            declare_optional_input(model, name, np.zeros([0] * len(shape), dtype), shape)
    for name, sizes in (
        (optional_map.rows, (batch, optional_map.heads, optional_map.queries, key)),
        (optional_map.query, (batch, head, query, optional_map.head_size)),
        (optional_map.key, (batch, head, key, optional_map.head_size)),
        (optional_map.values, (batch, head, key, optional_map.value_size)),
        (
            optional_map.bias,
            tuple(1 if each else f"{optional_map.bias}:{axis}" for axis, each in enumerate(optional_map.broadcast)),
        ),
    ):
        if name and not any(each.name == name for each in model.graph.output):
            model.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes))
