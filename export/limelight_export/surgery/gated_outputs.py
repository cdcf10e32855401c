"""Outputs that are computed only where a run requests them, with everything that nothing else needs."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import onnx

from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.optional_inputs import declare_optional_input
from limelight_export.surgery.optional_maps import OptionalMap
from limelight_export.surgery.subgraphs import rename_reads, subgraphs


def gate_name(output: str) -> str:
    """Name the optional input that requests an output."""
    return f"{output}:gate"


@dataclass(frozen=True)
class DetachedOutput:
    """A FLOAT output, and the nodes that serve it alone, which are out of the graph.

    Attributes:
        value: name of what the nodes make; the graph has it where there are none.
    """

    name: str
    value: str
    nodes: Sequence[onnx.NodeProto]
    rank: int


def detach_outputs(model: onnx.ModelProto, names: Iterable[str]) -> list[DetachedOutput]:
    """Take the nodes that serve gated outputs alone out of a graph, in place, so that nothing seems to read more."""
    graph, found = model.graph, []
    ranks = {each.name: len(each.type.tensor_type.shape.dim) for each in graph.output}
    for name in names:
        value = f"{name}:value"
        for node in graph.node:
            node.output[:] = [value if each == name else each for each in node.output]
        rename_reads(graph, {name: value})
        moved = serving(graph, value)
        found.append(DetachedOutput(name, value, [deepcopy(each) for each in moved], ranks[name]))
        for node in moved:
            graph.node.remove(node)
    return found


def attach_outputs(
    model: onnx.ModelProto, detached: Sequence[DetachedOutput], optional_maps: Mapping[str, OptionalMap]
) -> None:
    """Put detached outputs behind an If each, in place: a closed gate costs that alone.

    Args:
        optional_maps: of the graph. The gates of those that an output is made of open with its own.
    """
    graph = model.graph
    for each in detached:
        builder = NodeBuilder(f"{each.name}_")
        reads = {name for node in each.nodes for name in _reads(node)}
        for name, optional_map in optional_maps.items():
            if name in reads:
                either = f"{optional_map.gate}:{each.name}"
                rename_reads(graph, {optional_map.gate: either})
                opened = onnx.helper.make_node(
                    "Or", [optional_map.gate, gate_name(each.name)], [either], f"node_{either}"
                )
                graph.node.insert(0, opened)

        def holding(side: NodeBuilder, each: DetachedOutput = each) -> list[str]:
            side.nodes += each.nodes
            return [side.add("Identity", each.value)]

        def empty(side: NodeBuilder, rank: int = each.rank) -> list[str]:
            return [side.empty((0,) * rank)]

        builder.rename(builder.if_else(gate_name(each.name), holding, empty, 1), [each.name])
        graph.node.extend(builder.nodes)


def declare_gates(model: onnx.ModelProto, names: Iterable[str]) -> None:
    """Add the gates of outputs to a graph, in place: BOOL inputs, false by default."""
    for name in names:
        declare_optional_input(model, gate_name(name), np.array(False), ())


def serving(graph: onnx.GraphProto, value: str) -> list[onnx.NodeProto]:
    """Return the nodes whose results serve a value alone, in order."""
    outputs = {each.name for each in graph.output}
    readers: dict[str, list[int]] = {}
    for place, node in enumerate(graph.node):
        for name in _reads(node):
            readers.setdefault(name, []).append(place)
    needed, moved = {value}, set()
    for place in range(len(graph.node) - 1, -1, -1):
        node = graph.node[place]
        if not needed & set(node.output) or outputs & set(node.output):
            continue
        if all(reader in moved for name in node.output for reader in readers.get(name, ())):
            moved.add(place)
            needed |= _reads(node)
    return [graph.node[place] for place in sorted(moved)]


def _reads(node: onnx.NodeProto) -> set[str]:
    inner = [each for graph in subgraphs([node]) for each in graph.node]
    passed = {each.name for graph in subgraphs([node]) for each in graph.output}
    return {name for each in (node, *inner) for name in each.input} | passed
