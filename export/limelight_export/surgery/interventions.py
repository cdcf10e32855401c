"""Replaces intervention markers by standard operators with optional inputs.

Of a map X the graph takes `X:scales`, `X:replacement`, `X:replaced`, `X:uniform` and `X:key_factors`, whose defaults
change nothing, and puts out `X:masked`. Replacements and factors are padded to the size of the weights, so a batch
gives them for the rows that have them, as large as those rows are.
"""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from limelight_export.interface import IntervenedMap
from limelight_export.surgery.intervention_inputs import Intervention
from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.subgraphs import drop_unread, rename_reads, subgraphs
from limelight_models.export_names import DOMAIN, EDGE_INTERVENTION, INTERVENTION

_FLOAT = onnx.TensorProto.FLOAT
# Operators that leave a tensor's numbers as they are, and their order: Gather takes an axis of size 1 away, Mul what
# queries have that are padding. What else they do shows where interventions are verified.
_SAME_ORDER = frozenset({"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Gather", "Mul"})
# What the names of the nodes that change weights begin with.
CHANGING = "intervention:"
_TINY = np.float32(1e-30)
_ONE = numpy_helper.from_array(np.ones(1, np.float32))


def expand_interventions(model: onnx.ModelProto, maps: Mapping[str, IntervenedMap]) -> dict[str, Intervention]:
    """Replace every intervention marker of a model, in place.

    Args:
        maps: outputs that may be intervened on.
    Returns: the interventions of the maps that seem to be the weights of one marker, in [batch, head, query, key] or
        without axes of size 1, or in [edge, head]; `limelight_export.verification.interventions` finds the others.
        Markers of other maps leave no trace. Inputs and outputs are not declared yet.
    """
    nodes, inputs = list(model.graph.node), {each.name for each in model.graph.input}
    makers = {name: node for node in nodes for name in node.output}
    markers = {
        node.output[0]: name
        for name, each in maps.items()
        if (node := _marker_of(name, makers, each.heads)) is not None and (not each.nested or each.nested in inputs)
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
        elif node.op_type == EDGE_INTERVENTION:
            found[name] = Intervention.of(name, edges=True)
            _change_edges(builder, node, found[name])
        else:
            found[name] = Intervention.of(name)
            _change(builder, node, found[name], maps[name].nested)
        if name is not None:
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


def _marker_of(name: str, makers: Mapping[str, onnx.NodeProto], heads: int) -> onnx.NodeProto | None:
    node = makers.get(name)
    same = _SAME_ORDER | {"Transpose"} if heads == 1 else _SAME_ORDER  # by which one head changes its place
    while node is not None and node.op_type in same:
        node = makers.get(node.input[0])
    return node if node is not None and _is_marker(node) and _heads(node) == heads else None


def _heads(node: onnx.NodeProto) -> int:
    return next(int(each.i) for each in node.attribute if each.name == "heads")


def _change(builder: NodeBuilder, node: onnx.NodeProto, inputs: Intervention, nested: str) -> None:
    """Change weights [batch, head, query, key]; of nested keys those in that shape that a marker has in another.

    Args:
        nested: input whose shape is [batch, query, key of the query]; empty where keys are not nested.
    """
    weights, *masks = node.input
    own = shape = builder.add("Shape", weights)
    scales = builder.add("Unsqueeze", inputs.scales, builder.integers(2, 3), output="" if nested else node.output[1])
    ones = builder.add("ConstantOfShape", shape, value=_ONE)
    allowed = builder.add("Mul", builder.add("Cast", masks[0], to=_FLOAT), ones) if masks else ones
    if nested:
        sizes = builder.add("Shape", nested, end=1), builder.add("Shape", nested, start=1)
        shape = builder.add("Concat", sizes[0], builder.integers(_heads(node)), sizes[1], axis=0)
        weights, allowed = (builder.add("Reshape", each, shape) for each in (weights, allowed))
    axes = builder.add("Slice", shape, builder.integers(0), builder.integers(3))
    row = builder.add("Concat", axes, builder.integers(1), axis=0)
    replacement = _padded(builder, inputs.replacement, shape)
    replaced, uniform = (_padded(builder, each, row) for each in (inputs.replaced, inputs.uniform))

    def total(values: str) -> str:
        return builder.add("ReduceSum", values, builder.integers(-1))

    equal = builder.add("Div", allowed, builder.add("Max", total(allowed), builder.constant(_TINY)))
    held = _held(builder, weights, (replacement, replaced), (equal, uniform))
    factors = _factors(builder, inputs.key_factors, shape)
    changed = _multiply(builder, held, factors, total, output="" if nested else node.output[0])
    if nested:
        builder.add("Reshape", changed, own, output=node.output[0])
        of_queries = builder.add("Expand", scales, row)
        builder.add("Reshape", of_queries, builder.integers(-1, _heads(node), 1, 1), output=node.output[1])
    outside = builder.add("Sub", builder.constant(np.float32(1)), allowed)
    beyond = builder.add("Mul", builder.add("Mul", builder.add("Abs", replacement), outside), replaced)
    builder.add("ReduceMax", beyond, builder.integers(1, 2, 3), keepdims=0, output=inputs.masked)


def _change_edges(builder: NodeBuilder, node: onnx.NodeProto, inputs: Intervention) -> None:
    """Change weights [edge, head], of which those of a query belong together."""
    weights, query_index, empty = node.input
    shape = builder.add("Shape", weights)
    places = builder.add("Expand", builder.add("Unsqueeze", query_index, builder.integers(1)), shape)

    def total(values: str) -> str:
        of_queries = builder.add("ScatterElements", empty, places, values, axis=0, reduction="add")
        return builder.add("Gather", of_queries, query_index, axis=0)

    ones = builder.add("ConstantOfShape", shape, value=_ONE)
    equal = builder.add("Div", ones, total(ones))
    held = _held(builder, weights, (inputs.replacement, inputs.replaced), (equal, inputs.uniform))
    changed = _multiply(builder, held, inputs.key_factors, total, output=node.output[0])
    builder.add("Mul", changed, inputs.scales, output=node.output[1])


def _held(builder: NodeBuilder, weights: str, given: tuple[str, str], equal: tuple[str, str]) -> str:
    """Put given weights, and equal ones, in the place of others, each where its second tensor is 1."""
    half = builder.constant(np.float32(0.5))
    for new, where in (given, equal):
        weights = builder.add("Where", builder.add("Greater", where, half), new, weights)
    return weights


def _factors(builder: NodeBuilder, name: str, shape: str) -> str:
    """Pad factors with ones at the end of each axis; rows, heads and queries of size 1 stand for all."""
    size = builder.add("Shape", name)
    stands = builder.add("Concat", builder.add("Shape", name, end=3), builder.integers(0), axis=0)
    is_all = builder.add("Equal", stands, builder.integers(1))
    missing = builder.add("Where", is_all, builder.integers(0), builder.add("Sub", shape, size))
    pads = builder.add("Concat", builder.integers(0, 0, 0, 0), missing, axis=0)
    return builder.add("Pad", name, pads, builder.constant(np.float32(1)))


def _multiply(builder: NodeBuilder, weights: str, factors: str, total: Callable[[str], str], output: str) -> str:
    """Multiply weights by factors, and all of a query so that their sum stays; those with nothing left stay.

    Args:
        total: sums what the keys of each query have.
    """
    scaled = builder.add("Mul", weights, factors)
    before, after = map(total, (weights, scaled))
    tiny = builder.constant(_TINY)
    kept = builder.add("Mul", scaled, builder.add("Div", before, builder.add("Max", after, tiny)))
    return builder.add("Where", builder.add("Greater", after, tiny), kept, weights, output=output)


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
            if node.op_type == EDGE_INTERVENTION:  # puts out weights that are multiplied by factors
                sources[node.output[1]] = node.input[0]
            else:
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
    if node.op_type == EDGE_INTERVENTION:
        builder.add("Identity", node.input[0], output=node.output[1])
    else:
        builder.add("Constant", value=numpy_helper.from_array(np.ones((1, 1, 1, 1), np.float32)), output=node.output[1])


def _is_marker(node: onnx.NodeProto) -> bool:
    return node.domain == DOMAIN and node.op_type in (INTERVENTION, EDGE_INTERVENTION)
