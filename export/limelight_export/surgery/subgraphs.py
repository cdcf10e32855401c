"""Graphs inside the nodes of graphs: branches and loops."""

from collections.abc import Collection, Iterator, Mapping, Sequence

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


def drop_unread(graph: onnx.GraphProto, operators: Collection[str] = ()) -> None:
    """Drop the nodes and initializers of a graph that nothing reads. operators: of the nodes; none for all."""
    while True:
        read = {name for node in all_nodes(graph) for name in node.input} | {each.name for each in graph.output}
        read |= {each.name for inner in subgraphs(graph.node) for each in inner.output}
        kept = [
            node
            for node in graph.node
            if (operators and node.op_type not in operators) or read.intersection(node.output)
        ]
        if len(kept) == len(graph.node):
            break
        del graph.node[:]
        graph.node.extend(kept)
    read |= {each.name for each in graph.input}  # the defaults of optional inputs stay
    weights = [each for each in graph.initializer if each.name in read]
    del graph.initializer[:]
    graph.initializer.extend(weights)
