"""Replaces intervention markers by standard operators with optional inputs.

Of a map X the graph takes `X:scales`, `X:replacement`, `X:replaced`, `X:uniform` and `X:key_factors`, whose defaults
change nothing, and puts out `X:masked`. Replacements and factors are padded to the size of the weights, so a batch
gives them for the rows that have them, as large as those rows are.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from limelight_export.surgery.intervention_inputs import Intervention
from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.subgraphs import drop_unread, rename_reads, subgraphs
from limelight_models.export_names import DOMAIN, INTERVENTION

_FLOAT = onnx.TensorProto.FLOAT
# Operators that leave the order of a tensor's numbers as it is; Gather takes an axis of size 1 away.
_SAME_ORDER = frozenset({"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Gather"})
# What the names of the nodes that change weights begin with.
CHANGING = "intervention:"
_TINY = np.float32(1e-30)


def expand_interventions(model: onnx.ModelProto, maps: Mapping[str, int]) -> dict[str, Intervention]:
    """Replace every intervention marker of a model, in place.

    Args:
        maps: outputs that may be intervened on, with their heads.
    Returns: the interventions of the maps that seem to be the weights of one marker, in [batch, head, query, key] or
        without axes of size 1; `limelight_export.verification.interventions` finds the others. Markers of other maps
        leave no trace. Inputs and outputs are not declared yet.
    """
    nodes = list(model.graph.node)
    makers = {name: node for node in nodes for name in node.output}
    markers = {
        node.output[0]: name
        for name in maps
        if (node := _marker_of(name, makers)) is not None and _heads(node) == maps[name]
    }
    found: dict[str, Intervention] = {}
    del model.graph.node[:]
    for node in nodes:
        if not _is_marker(node):
            model.graph.node.append(node)
            continue
        builder = NodeBuilder(f"{node.output[0]}_")
        name = markers.get(node.output[0])
        if name is None:
            _pass_on(builder, node)
        else:
            found[name] = Intervention.of(name)
            _change(builder, node, found[name])
            for number, each in enumerate(builder.nodes):
                each.name = f"{CHANGING}{name}:{number}"
        model.graph.node.extend(builder.nodes)
    for graph in subgraphs(model.graph.node):  # of a loop's body the weights are no output
        _drop_markers(graph)
    _drop_domain(model)
    return {name: found[name] for name in maps if name in found}


def drop_interventions(model: onnx.ModelProto) -> None:
    """Drop every intervention marker of a model, in place: the model is as if it had been exported without them."""
    for graph in (model.graph, *subgraphs(model.graph.node)):
        _drop_markers(graph)
    _drop_domain(model)


def _drop_domain(model: onnx.ModelProto) -> None:
    kept = [each for each in model.opset_import if each.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _marker_of(name: str, makers: Mapping[str, onnx.NodeProto]) -> onnx.NodeProto | None:
    node = makers.get(name)
    while node is not None and node.op_type in _SAME_ORDER:
        node = makers.get(node.input[0])
    return node if node is not None and _is_marker(node) else None


def _heads(node: onnx.NodeProto) -> int:
    return next(int(each.i) for each in node.attribute if each.name == "heads")


def _change(builder: NodeBuilder, node: onnx.NodeProto, inputs: Intervention) -> None:
    weights, *masks = node.input
    shape = builder.add("Shape", weights)
    ones = builder.add("ConstantOfShape", shape, value=numpy_helper.from_array(np.ones(1, np.float32)))
    allowed = builder.add("Mul", builder.add("Cast", masks[0], to=_FLOAT), ones) if masks else ones
    row = builder.add("Concat", builder.add("Shape", weights, end=3), builder.integers(1), axis=0)
    replacement = _padded(builder, inputs.replacement, shape)
    replaced, uniform = (_padded(builder, each, row) for each in (inputs.replaced, inputs.uniform))
    total = builder.add("Max", builder.add("ReduceSum", allowed, builder.integers(-1)), builder.constant(_TINY))
    half = builder.constant(np.float32(0.5))
    given = builder.add("Where", builder.add("Greater", replaced, half), replacement, weights)
    equal = builder.add("Div", allowed, total)
    held = builder.add("Where", builder.add("Greater", uniform, half), equal, given)
    _multiply(builder, held, _factors(builder, inputs.key_factors, shape), output=node.output[0])
    builder.add("Unsqueeze", inputs.scales, builder.integers(2, 3), output=node.output[1])
    outside = builder.add("Sub", builder.constant(np.float32(1)), allowed)
    beyond = builder.add("Mul", builder.add("Mul", builder.add("Abs", replacement), outside), replaced)
    builder.add("ReduceMax", beyond, builder.integers(1, 2, 3), keepdims=0, output=inputs.masked)


def _factors(builder: NodeBuilder, name: str, shape: str) -> str:
    """Pad factors with ones at the end of each axis; rows, heads and queries of size 1 stand for all."""
    size = builder.add("Shape", name)
    stands = builder.add("Concat", builder.add("Shape", name, end=3), builder.integers(0), axis=0)
    is_all = builder.add("Equal", stands, builder.integers(1))
    missing = builder.add("Where", is_all, builder.integers(0), builder.add("Sub", shape, size))
    pads = builder.add("Concat", builder.integers(0, 0, 0, 0), missing, axis=0)
    return builder.add("Pad", name, pads, builder.constant(np.float32(1)))


def _multiply(builder: NodeBuilder, weights: str, factors: str, output: str) -> None:
    """Multiply weights by factors, and all of a query so that their sum stays; those with nothing left stay."""
    scaled = builder.add("Mul", weights, factors)
    before, after = (builder.add("ReduceSum", each, builder.integers(-1)) for each in (weights, scaled))
    tiny = builder.constant(_TINY)
    kept = builder.add("Mul", scaled, builder.add("Div", before, builder.add("Max", after, tiny)))
    builder.add("Where", builder.add("Greater", after, tiny), kept, weights, output=output)


def _padded(builder: NodeBuilder, name: str, shape: str) -> str:
    """Pad a tensor with zeros at the end of each axis."""
    missing = builder.add("Sub", shape, builder.add("Shape", name))
    pads = builder.add("Concat", builder.integers(0, 0, 0, 0), missing, axis=0)
    return builder.add("Pad", name, pads)


def _drop_markers(graph: onnx.GraphProto) -> None:
    """Drop markers, the products with their factors, and what only they read: the graph is as without them."""
    sources: dict[str, str] = {}
    factors: set[str] = set()
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        node.input[:] = [sources.get(name, name) for name in node.input]
        if _is_marker(node):
            sources[node.output[0]] = node.input[0]
            factors.add(node.output[1])
        elif node.op_type == "Mul" and not factors.isdisjoint(node.input):
            (sources[node.output[0]],) = (name for name in node.input if name not in factors)
        else:
            nodes.append(node)
    if not sources:
        return
    del graph.node[:]
    graph.node.extend(nodes)
    rename_reads(graph, sources)
    made = {name: node for node in graph.node for name in node.output}
    outputs = {each.name for each in graph.output}
    for name in sorted(outputs & sources.keys()):
        source = sources[name]
        if source in made and source not in outputs:
            node = made.pop(source)
            node.output[:] = [name if each == source else each for each in node.output]
            rename_reads(graph, {source: name})
            sources |= {each: name for each, other in sources.items() if other == source}
        else:
            graph.node.append(helper.make_node("Identity", [source], [name], f"node_{name}"))
    drop_unread(graph)


def _pass_on(builder: NodeBuilder, node: onnx.NodeProto) -> None:
    builder.add("Identity", node.input[0], output=node.output[0])
    builder.add("Constant", value=numpy_helper.from_array(np.ones((1, 1, 1, 1), np.float32)), output=node.output[1])


def _is_marker(node: onnx.NodeProto) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, INTERVENTION)
