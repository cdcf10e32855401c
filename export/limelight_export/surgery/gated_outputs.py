"""Outputs that are computed only where a run requests them, with everything that nothing else needs."""

from collections.abc import Iterable
from copy import deepcopy

import numpy as np
import onnx

from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.optional_inputs import declare_optional_input
from limelight_export.surgery.subgraphs import rename_reads, subgraphs


def gate_name(output: str) -> str:
    """Name the optional input that requests an output."""
    return f"{output}:gate"


def gate_outputs(model: onnx.ModelProto, names: Iterable[str]) -> None:
    """Put FLOAT outputs of three axes behind an If each, in place.

    Nodes whose results nothing else reads move into the branch, so that a closed gate costs one If.
    """
    graph = model.graph
    for name in names:
        value = f"{name}:value"
        for node in graph.node:
            node.output[:] = [value if each == name else each for each in node.output]
        rename_reads(graph, {name: value})
        moved = _needed_by(graph, value)
        kept = [node for node in graph.node if not any(node is each for each in moved)]
        builder = NodeBuilder(f"{name}_")

        def holding(side: NodeBuilder, moved: list[onnx.NodeProto] = moved, value: str = value) -> list[str]:
            side.nodes += [deepcopy(each) for each in moved]
            return [side.add("Identity", value)]

        found = builder.if_else(gate_name(name), holding, lambda side: [side.empty((0, 0, 0))], 1)
        builder.rename(found, [name])
        nodes = [*map(deepcopy, kept), *builder.nodes]
        del graph.node[:]
        graph.node.extend(nodes)


def declare_gates(model: onnx.ModelProto, names: Iterable[str]) -> None:
    """Add the gates of outputs to a graph, in place: BOOL inputs, false by default."""
    for name in names:
        declare_optional_input(model, gate_name(name), np.array(False), ())


def _needed_by(graph: onnx.GraphProto, value: str) -> list[onnx.NodeProto]:
    """Return the nodes whose results serve a value alone, in order."""
    needed, moved = {value}, []
    outputs = {each.name for each in graph.output}
    for node in reversed(graph.node):
        if not needed & set(node.output):
            continue
        readers = [each for each in graph.node if each is not node and _reads(each) & set(node.output)]
        if outputs & set(node.output) or any(not any(each is one for one in moved) for each in readers):
            continue
        moved.append(node)
        needed |= _reads(node)
    return moved[::-1]


def _reads(node: onnx.NodeProto) -> set[str]:
    inner = [each for graph in subgraphs([node]) for each in graph.node]
    passed = {each.name for graph in subgraphs([node]) for each in graph.output}
    return {name for each in (node, *inner) for name in each.input} | passed
