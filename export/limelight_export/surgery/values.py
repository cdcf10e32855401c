"""Outputs for value vectors: the tensors that the weights of maps multiply."""

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import helper

from limelight_bundle.names import quantity_key
from limelight_export.interface import Axes, TensorSpec
from limelight_export.surgery.graph_values import set_shape

# Operators between weights and the form in which a graph returns them, beside the removal of padded queries.
_SAME = ("Identity", "Squeeze", "Unsqueeze")
_Types = Mapping[str, onnx.TypeProto.Tensor]


def value_name(name: str) -> str:
    """Name the output that holds the values of a map."""
    return quantity_key(name, "values")


def add_values(model: onnx.ModelProto, maps: Mapping[str, Axes]) -> dict[str, TensorSpec]:
    """Return outputs for the values of those maps whose weights a graph returns as they multiply values.

    Their nodes are added in place, and they are not declared yet. Left out are maps that multiply nothing, several
    tensors, or one whose axes are others.

    Args:
        maps: outputs of the graph, with the axes [batch, head, key] of their values.
    """
    graph = model.graph
    types = {each.name: each.type.tensor_type for each in (*graph.value_info, *graph.input)}
    makers = {made: node for node in graph.node for made in node.output}
    found = {}
    for name, (batch, heads, keys) in maps.items():
        value, *others = {*_weighed(graph, makers, types, name)} or {""}
        if others or value not in types or types[value].elem_type != onnx.TensorProto.FLOAT:
            continue
        sizes = [axis.dim_param or axis.dim_value for axis in types[value].shape.dim]
        axes = (batch, *sizes[1:-2], keys, sizes[-1])
        is_split = sizes[1:-2] == [heads] or (heads == 1 and len(sizes) == 3)
        if is_split and isinstance(sizes[0], str) and isinstance(sizes[-1], int):
            found[name] = TensorSpec(value_name(name), np.dtype(np.float32), axes)
            graph.node.append(helper.make_node("Identity", [value], [value_name(name)], f"node_{value_name(name)}"))
    return found


def declare_values(model: onnx.ModelProto, spec: TensorSpec) -> None:
    """Add an output for values to a graph, in place."""
    output = helper.make_tensor_value_info(spec.name, onnx.TensorProto.FLOAT, None)
    set_shape(output, spec.axes)
    model.graph.output.append(output)


def _weighed(graph: onnx.GraphProto, makers: Mapping[str, onnx.NodeProto], types: _Types, name: str) -> Iterator[str]:
    """Yield what the weights of an output multiply."""
    shown = [name]
    while (node := makers.get(shown[-1])) is not None:
        if node.op_type not in _SAME and not _drops_queries(node, makers, types):
            break
        shown.append(node.input[0])
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[0] in shown:
            yield node.input[1]


def _drops_queries(node: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto], types: _Types) -> bool:
    """Tell whether a node multiplies weights by a mask of queries, whose last axis has size 1."""
    mask = makers.get(node.input[1]) if node.op_type == "Mul" else None
    if mask is None or mask.op_type != "Cast" or mask.input[0] not in types:
        return False
    of = types[mask.input[0]]
    return of.elem_type == onnx.TensorProto.BOOL and len(of.shape.dim) == 4 and of.shape.dim[-1].dim_value == 1
