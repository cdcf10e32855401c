"""Marks the weights of an ONNX file's attention, so that requests can change them.

Weights are marked where nothing but products with values reads them. A key whose weight is 0 counts as hidden: the
file does not say which keys a query may attend to.
"""

from collections.abc import Collection, Mapping

import numpy as np
import onnx
from onnx import helper, version_converter

from limelight_export.importing.maps import MapSource
from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.subgraphs import all_nodes
from limelight_models.export_names import DOMAIN, INTERVENTION

_OPSET = 18  # of ReduceMax, which takes its axes as an input
_CANONICAL = ("batch", "head", "query", "key")
# Axes of weights that can be marked, and the shape of a head's factor that multiplies context vectors.
_FACTOR_SHAPES: Mapping[tuple[str, ...], tuple[int, ...]] = {
    _CANONICAL: (),
    ("batch*head", "query", "key"): (-1, 1, 1),
}


def newer_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in an operator set that has what changes weights. Raises whatever the converter does."""
    old = any(each.domain in ("", "ai.onnx") and each.version < _OPSET for each in model.opset_import)
    return version_converter.convert_version(model, _OPSET) if old else model


def mark_weights(model: onnx.ModelProto, name: str, read: str, source: MapSource, heads: int) -> str:
    """Put an intervention marker behind the weights that a map shows, in place.

    Args:
        read: the weights in the model.
    Returns: the weights as they are changed, [batch, head, query, key]; empty where they cannot be marked.
    """
    graph = model.graph
    readers = [node for node in graph.node if read in node.input]
    if source.axes not in _FACTOR_SHAPES or not _are_products(model, read, readers):
        return ""
    builder = NodeBuilder(f"{name}:")
    usual = builder.add("Cast", read, to=onnx.TensorProto.FLOAT)
    if source.heads:
        rest = builder.add("Shape", read, start=1)
        usual = builder.add("Reshape", usual, builder.add("Concat", builder.integers(-1, heads), rest, axis=0))
    hidden = builder.add("Greater", usual, builder.constant(np.float32(0)))
    changed, factor = f"{name}:changed", f"{name}:factor"
    marker = helper.make_node(INTERVENTION, [usual, hidden], [changed, factor], domain=DOMAIN, heads=heads)
    builder.nodes.append(marker)
    behind, factor = changed, builder.add("CastLike", factor, read)
    if source.heads:
        behind = builder.add("Reshape", changed, builder.add("Shape", read))
        factor = builder.add("Reshape", factor, builder.integers(*_FACTOR_SHAPES[source.axes]))
    behind = builder.add("CastLike", behind, read)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        if node in readers:
            (made,) = node.output
            node.output[:] = [f"{name}:combined:{made}"]
            node.input[0] = behind
            nodes.append(helper.make_node("Mul", [node.output[0], factor], [made], f"{name}:scaled:{made}"))
        if read in node.output:
            nodes += builder.nodes
    del graph.node[:]
    graph.node.extend(nodes)
    return changed


def _are_products(model: onnx.ModelProto, read: str, readers: Collection[onnx.NodeProto]) -> bool:
    """Tell whether weights are made at a graph's top, and read there by products with values alone."""
    own = any(read in node.output for node in model.graph.node)
    number = sum(read in node.input for node in all_nodes(model.graph))
    products = [node for node in readers if node.op_type == "MatMul" and node.input[0] == read != node.input[1]]
    return own and len(products) == number > 0
