"""Computes effective maps only where a run asks for them, and only the rows that it asks for.

A marked map is the end of nodes that serve it alone, and they begin where the queries are named. They go behind an If;
inside of it the queries are those of the row probe, then all of them if the gate is open. So a row costs what a row
takes, and an answer without the map costs one If.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np
import onnx
from onnx import helper

from limelight_export.surgery.gated_outputs import serving
from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.optional_maps import OptionalMap
from limelight_export.surgery.subgraphs import all_nodes
from limelight_models.export_names import DOMAIN, EFFECTIVE, INTERVENTION, QUERY_INDEX

_END = np.iinfo(np.int64).max


def expand_effective_maps(
    model: onnx.ModelProto, maps: Mapping[str, Sequence[int]], *, intervenes: bool = False
) -> dict[str, OptionalMap]:
    """Replace every marker of an effective map of a model, in place.

    Args:
        maps: outputs that become optional where they can, with their shapes; 0 for an axis that varies.
        intervenes: compute all weights whole, behind a marker of `limelight_export.surgery.interventions`, and context
            vectors from them: the product of both is what the model computes without.
    Returns: the optional maps. Their inputs and outputs are not declared yet.
    """
    graph = model.graph
    sizes = {each.name: each.type.tensor_type.shape.dim for each in graph.value_info}
    found: dict[str, OptionalMap] = {}
    while node := _next(graph, EFFECTIVE):
        value, name = node.input[2], node.output[1]
        value_size = sizes[value][-1].dim_value if value in sizes else 0
        unread = node.input[0 if intervenes else 3]  # the way without weights; keys that may be attended to
        if intervenes:
            _intervene(graph, node)
        elif name in maps and value_size and not any(name in other.input for other in all_nodes(graph)):
            found[name] = OptionalMap.without_projections(name, value_size)
            _make_optional(graph, node, maps[name], found[name])
        else:
            builder = NodeBuilder(f"{name}_")
            for inner, outer in zip(node.input[:2], node.output, strict=True):
                builder.add("Identity", inner, output=outer)
            _exchange(graph, node, builder)
        _take_out(graph, unread)
    while node := _next(graph, QUERY_INDEX):
        builder = NodeBuilder(f"{node.output[0]}_")
        _every_query(builder, node.input[0], output=node.output[0])
        _exchange(graph, node, builder)
    return found


def _make_optional(
    graph: onnx.GraphProto, node: onnx.NodeProto, shape: Sequence[int], optional_map: OptionalMap
) -> None:
    """Put a map behind its gate and its row probe, and its values behind theirs."""
    context, weights, value, allowed = node.input
    found, name = node.output
    node.input[:] = [context]  # now nothing reads the weights
    _take_out(graph, allowed)
    inner = _take_out(graph, weights)

    def asked(side: NodeBuilder) -> Sequence[str]:
        count = side.add("Shape", optional_map.queries)
        for each in inner:
            if _is_a(each, QUERY_INDEX):
                every = _every_query(side, each.input[0], optional_map.gate)
                side.add("Concat", optional_map.queries, every, output=each.output[0], axis=0)
            else:
                side.nodes.append(each)
        begin, last, end = (side.integers(number) for number in (0, 2, _END))
        rows = side.add("Gather", side.add("Slice", weights, begin, count, last), optional_map.heads, axis=1)
        return side.add("Slice", weights, count, end, last), rows

    def nothing(side: NodeBuilder) -> Sequence[str]:
        return side.empty((0, *shape[1:])), side.empty((0, 0, 0, shape[3]))

    builder = NodeBuilder(f"{name}_")
    probed = builder.add("Cast", builder.add("Size", optional_map.heads), to=onnx.TensorProto.BOOL)
    made_of_rows = builder.if_else(builder.add("Or", optional_map.gate, probed), asked, nothing, 2)
    values = builder.if_else(
        optional_map.projections_gate,
        lambda side: [side.add("Identity", value)],
        lambda side: [side.empty((0, shape[1], 0, optional_map.value_size))],
        1,
    )
    builder.rename([*made_of_rows, *values], [name, optional_map.rows, optional_map.values])
    builder.add("Identity", context, output=found)
    _exchange(graph, node, builder)


def _take_out(graph: onnx.GraphProto, value: str) -> list[onnx.NodeProto]:
    """Take the nodes that serve a value alone, which nothing reads, out of a graph; they are returned in order."""
    found = [deepcopy(each) for each in serving(graph, value)]
    for each in found:
        graph.node.remove(each)
    return found


def _intervene(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Let context vectors be the product of the weights, which an intervention may change, and the values."""
    _, weights, value, allowed = node.input
    context, name = node.output
    builder, factor = NodeBuilder(f"{name}_"), f"{name}:factor"
    marker = helper.make_node(INTERVENTION, [weights, allowed], [name, factor], domain=DOMAIN)
    marker.attribute.extend(node.attribute)
    builder.nodes.append(marker)
    builder.add("Mul", builder.add("MatMul", name, value), factor, output=context)
    _exchange(graph, node, builder)


def _every_query(builder: NodeBuilder, query: str, gate: str = "", output: str = "") -> str:
    """Build INT64 [query] of all places of queries [batch, head, query, d]; of none where a gate is closed."""
    count = builder.add("Shape", query, start=2, end=3)
    if gate:
        count = builder.add("Mul", count, builder.add("Cast", gate, to=onnx.TensorProto.INT64))
    zero, one = (builder.constant(np.int64(number)) for number in (0, 1))
    return builder.add("Range", zero, builder.add("Squeeze", count), one, output=output)


def _exchange(graph: onnx.GraphProto, node: onnx.NodeProto, builder: NodeBuilder) -> None:
    """Put other nodes in the place of one."""
    nodes = [deepcopy(each) for each in graph.node]
    place = next(number for number, each in enumerate(nodes) if each.output == node.output)
    del graph.node[:]
    graph.node.extend([*nodes[:place], *builder.nodes, *nodes[place + 1 :]])


def _next(graph: onnx.GraphProto, operator: str) -> onnx.NodeProto | None:
    return next((each for each in graph.node if _is_a(each, operator)), None)


def _is_a(node: onnx.NodeProto, operator: str) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, operator)
