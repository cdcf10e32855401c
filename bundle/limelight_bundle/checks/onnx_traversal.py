"""Traversal of an ONNX model, including branches, loops, functions and their defaults."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from limelight_bundle.errors import BundleError

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

# ONNX Runtime inlines functions before it runs a graph.
_MAX_NODES = 1_000_000
_MAX_DEPTH = 100
# Domains of ONNX Runtime's own operators, which a function must not replace.
_RUNTIME_DOMAINS = ("ai.onnx", "com.microsoft", "com.ms", "org.pytorch.aten")

_FunctionId = tuple[str, str, str]


def nodes_of(model: "ModelProto") -> "Iterator[NodeProto]":
    """Yield every node."""
    for graph in _graphs_of(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def tensors_of(model: "ModelProto") -> "Iterator[TensorProto]":
    """Yield every tensor: initializers, and tensors in attributes."""
    for graph in _graphs_of(model):
        yield from _tensors(graph.initializer, graph.sparse_initializer)
    defaults = [each for function in model.functions for each in function.attribute_proto]
    for attribute in [*defaults, *(each for node in nodes_of(model) for each in node.attribute)]:
        single = [attribute.t] if attribute.HasField("t") else []
        sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        yield from _tensors([*single, *attribute.tensors], [*sparse, *attribute.sparse_tensors])


def check_functions(model: "ModelProto", name: str) -> None:
    """Check that functions replace no operators, and that the expanded graph has a bounded size.

    Args:
        name: name of the file, for messages.
    Raises:
        BundleError: a function is invalid, or the expanded graph is too large.
    """
    functions: dict[_FunctionId, FunctionProto] = {}
    for function in model.functions:
        if not function.domain or function.domain.startswith(_RUNTIME_DOMAINS):
            raise BundleError(f"{name} has a function {function.name!r} that would replace an operator")
        if _function_id(function) in functions:
            raise BundleError(f"{name} has two functions {function.name!r}")
        functions[_function_id(function)] = function
    sizes: dict[_FunctionId, int] = {}
    total = sum(_expanded_size(node, functions, sizes, name, 0) for node in _all_nodes(model.graph.node))
    if total > _MAX_NODES:
        raise BundleError(f"{name} has more than {_MAX_NODES} nodes after its functions are inlined")


def _function_id(function: "FunctionProto") -> _FunctionId:
    return function.domain, function.name, function.overload


def _expanded_size(
    node: "NodeProto",
    functions: "dict[_FunctionId, FunctionProto]",
    sizes: dict[_FunctionId, int],
    file: str,
    depth: int,
) -> int:
    """Count the nodes after a node is expanded, without its branches. sizes: cache by function."""
    key = (node.domain, node.op_type, node.overload)
    function = functions.get(key)
    if function is None:
        return 1
    if key not in sizes:
        if depth > _MAX_DEPTH:
            raise BundleError(f"{file} has functions that call each other more than {_MAX_DEPTH} deep")
        inner = _all_nodes(function.node)
        sizes[key] = 1 + sum(_expanded_size(each, functions, sizes, file, depth + 1) for each in inner)
    return sizes[key]


def _all_nodes(nodes: "Iterable[NodeProto]") -> "Iterator[NodeProto]":
    """Yield nodes, and the nodes of their branches."""
    for node in nodes:
        yield node
        for graph in _subgraphs(node.attribute):
            yield from graph.node


def _graphs_of(model: "ModelProto") -> "Iterator[GraphProto]":
    yield from _graphs(model.graph)
    for function in model.functions:
        yield from _subgraphs(function.attribute_proto)
        for node in function.node:
            yield from _subgraphs(node.attribute)


def _graphs(graph: "GraphProto") -> "Iterator[GraphProto]":
    yield graph
    for node in graph.node:
        yield from _subgraphs(node.attribute)


def _subgraphs(attributes: "Iterable[AttributeProto]") -> "Iterator[GraphProto]":
    for attribute in attributes:
        for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from _graphs(graph)


def _tensors(dense: "Iterable[TensorProto]", sparse: "Iterable[SparseTensorProto]") -> "Iterator[TensorProto]":
    yield from dense
    for each in sparse:
        yield from (each.values, each.indices)
