"""Graphs inside the nodes of graphs: branches and loops."""

from collections.abc import Iterator, Mapping, Sequence

import onnx


def subgraphs(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """Yield every graph inside nodes, at any depth."""
    for node in nodes:
        for attribute in node.attribute:
            for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield graph
                yield from subgraphs(graph.node)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield every node of a graph, each followed by those inside it."""
    for node in graph.node:
        yield node
        for inner in subgraphs([node]):
            yield from inner.node


def rename_reads(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename values where they are read, in branches and loops too: names are unique across them."""
    for node in all_nodes(graph):
        node.input[:] = [names.get(name, name) for name in node.input]
    for each in subgraphs(graph.node):
        for value in each.output:
            value.name = names.get(value.name, value.name)
