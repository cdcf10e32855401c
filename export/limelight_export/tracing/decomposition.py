"""Decomposition of a traced program node by node: PyTorch's own way runs the whole program twice.

Most operators of a program have a counterpart in ONNX and stay. Only the others are traced, each alone, and put in the
place of what they make up.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from operator import getitem
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

_aten = torch.ops.aten
# Checks of sizes; the exporter drops them.
_ASSERTIONS = frozenset(
    {
        _aten.sym_constrain_range_for_size.default,
        _aten._assert_async.default,
        _aten._assert_async.msg,
        _aten._assert_scalar.default,
        _aten._assert_tensor_metadata.default,
    }
)
Table = Mapping[Any, Callable[..., Any]]


class NotAlone(Exception):
    """A program has an operator that cannot be decomposed by itself."""


def decompose(program: Any, registry: Any) -> Any:
    """Decompose a `torch.export.ExportedProgram` to operators that the exporter knows.

    It takes the place of `torch.onnx._internal.exporter._fx_passes.decompose_with_registry`, which is private to
    PyTorch 2.13.

    Args:
        registry: the exporter's operators.
    Returns: the program itself, changed; what PyTorch's own way makes of it where an operator cannot be traced alone.
    """
    tables = _tables(registry)
    try:
        graphs = [each for each in program.graph_module.modules() if isinstance(each, fx.GraphModule)]
        traced = _traced_parts(graphs, tables)
    except Exception:  # private parts of PyTorch may fail in any way; nothing of the program has changed yet
        return program.run_decompositions(dict(tables.every))
    for module in graphs:
        _Splicing(module.graph, traced).run()
        module.recompile()
    (output,) = program.graph_module.graph.find_nodes(op="output")
    for spec, node in zip(program.graph_signature.output_specs, output.args[0], strict=True):
        if isinstance(node, fx.Node):
            spec.arg.name = node.name
    return program


class _Tables(NamedTuple):
    """Operators that the exporter knows, and decompositions of others: every one, and apart by who applies them."""

    known: frozenset[Any]
    every: Table
    by_dispatcher: Table
    by_tracer: Table


@functools.cache
def _tables(registry: Any) -> _Tables:
    from torch.export import exported_program
    from torch.onnx._internal.exporter import _decomp

    known = frozenset(_decomp.get_onnx_implemented_overloads(registry))
    every: dict[Any, Callable[..., Any]] = _decomp.create_onnx_friendly_decomposition_table(set(known))
    by_dispatcher, by_tracer = exported_program._split_decomp_table_to_cia_and_python_decomp(dict(every))
    # The dispatcher decomposes most by itself as the table says: those are partial functions that ask it to.
    own = {
        each: decomposed for each, decomposed in by_dispatcher.items() if not isinstance(decomposed, functools.partial)
    }
    return _Tables(known, every, own, by_tracer)


def _traced_parts(graphs: list[fx.GraphModule], tables: _Tables) -> dict[fx.Node, fx.Graph]:
    """Trace every operator that has no counterpart in ONNX; equal ones once.

    Raises:
        NotAlone: an operator changes its inputs, or is unknown, a result is an input, or several are read as one.
    """
    needed = []
    for module in graphs:
        for node in module.graph.nodes:
            if node.target in _ASSERTIONS:
                continue
            pure = isinstance(node.target, OpOverload) and not node.target._schema.is_mutable
            if pure and (node.target in tables.every or _is_made_of_others(node.target)):
                needed.append(node)
            elif not _stays(node, tables.known):
                raise NotAlone
    made: dict[object, fx.Graph] = {}
    found = {}
    with _decomposing(tables.by_dispatcher, needed):
        for node in needed:
            key = _signature(node)
            if key not in made:
                made[key] = _trace_alone(node, tables.by_tracer)
                if not all(_stays(each, tables.known) for each in made[key].nodes):
                    raise NotAlone
            (output,) = made[key].find_nodes(op="output")
            if not isinstance(output.args[0], fx.Node) and any(each.target is not getitem for each in node.users):
                raise NotAlone
            found[node] = made[key]
    for module in graphs:
        for node in module.graph.nodes:
            if node.op == "output":
                results = node.args[0] if isinstance(node.args[0], list | tuple) else node.args
                if any(_is_input(each, found) for each in results):
                    raise NotAlone
    return found


def _stays(node: fx.Node, known: frozenset[Any]) -> bool:
    """Tell whether the exporter takes a node as it is."""
    if isinstance(node.target, HigherOrderOperator):  # such as a context that stops gradients
        return node.target in known
    if not isinstance(node.target, OpOverload) or node.target in _ASSERTIONS:
        return True
    return not node.target._schema.is_mutable and (
        node.target.namespace not in ("aten", "prims") or node.target in known
    )


def _is_made_of_others(operator: OpOverload) -> bool:
    """Tell whether PyTorch has an operator only as a composition of others, and no decomposition can keep it."""
    from torch._export.utils import _is_preservable_cia_op

    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return operator.has_kernel_for_dispatch_key(composite) and not _is_preservable_cia_op(operator)


def _is_input(node: Any, traced: Mapping[fx.Node, fx.Graph]) -> bool:
    """Tell whether a result would be an input of its graph."""
    while isinstance(node, fx.Node) and node in traced:
        (result,) = traced[node].find_nodes(op="output")
        if not isinstance(result.args[0], fx.Node) or result.args[0].op != "placeholder":
            return False
        place = traced[node].find_nodes(op="placeholder").index(result.args[0])
        node = _inputs(node)[place]
    return isinstance(node, fx.Node) and node.op == "placeholder"


@contextlib.contextmanager
def _decomposing(table: Table, nodes: list[fx.Node]) -> Iterator[None]:
    """Let PyTorch's dispatcher decompose operators on the values of nodes as a table says, until the context ends."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._guards import detect_fake_mode
    from torch.export import exported_program

    if not nodes:
        yield
        return
    mode = detect_fake_mode([value for node in nodes for value in map(_value, _inputs(node))])
    with (
        mode or contextlib.nullcontext(),
        exported_program._override_composite_implicit_decomp(table),
        enable_python_dispatcher(),
        torch.no_grad(),
    ):
        yield


def _inputs(node: fx.Node) -> list[Any]:
    """List the arguments of a node, flat: nodes and constants."""
    return torch.utils._pytree.tree_leaves((node.args, node.kwargs))


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, fx.Node) else argument


def _signature(node: fx.Node) -> object:
    """Return what decides how an operator is decomposed: its constants, and types and sizes of its inputs."""

    def described(argument: Any) -> object:
        if not isinstance(argument, fx.Node):
            return type(argument), str(argument)
        value = argument.meta["val"]
        if isinstance(value, torch.Tensor):
            return str(value.dtype), str(value.device), str(tuple(value.shape)), str(value.stride())
        return type(value), str(value)

    leaves, spec = torch.utils._pytree.tree_flatten((node.args, node.kwargs))
    return node.target, str(spec), tuple(map(described, leaves))


def _trace_alone(node: fx.Node, table: Table) -> fx.Graph:
    """Trace one operator on the values that its inputs state; a placeholder for each of `_inputs`, in order."""
    from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
    from torch.fx.experimental.proxy_tensor import make_fx

    operator: Any = node.target
    leaves, spec = torch.utils._pytree.tree_flatten((node.args, node.kwargs))
    places = [place for place, each in enumerate(leaves) if isinstance(each, fx.Node)]

    def call(*values: Any) -> Any:
        given = list(leaves)
        for place, value in zip(places, values, strict=True):
            given[place] = value
        args, kwargs = torch.utils._pytree.tree_unflatten(given, spec)
        return operator(*args, **kwargs)

    pure = dispatch_functionalize(call, mode=FunctionalTensorMode(export=True))
    return make_fx(pure, decomposition_table=table)(*(_value(leaves[place]) for place in places)).graph


class _Splicing:
    """Replaces operators of a graph by their traced parts, each size that varies by one node, and removes what is left.

    Args:
        traced: for each operator to replace, a graph with a placeholder for each node that it reads, in order.
    """

    def __init__(self, graph: fx.Graph, traced: Mapping[fx.Node, fx.Graph]) -> None:
        self._graph, self._traced = graph, traced
        self._sizes: dict[Any, fx.Node] = {}  # by the expression of a size
        self._axes: dict[Any, tuple[fx.Node, int]] = {}  # inputs and their axes, by the same

    def run(self) -> None:
        """Change the graph in place."""
        for node in list(self._graph.nodes):
            if node.target in _ASSERTIONS:
                self._graph.erase_node(node)
            elif node.op == "placeholder":
                for axis, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
                    if isinstance(size, torch.SymInt):
                        self._axes.setdefault(size.node.expr, (node, axis))
            elif node in self._traced:
                self._replace(node)
            elif node.op == "call_function":
                with self._graph.inserting_before(node):
                    known = self._size(node)
                if known is not None and known is not node:
                    node.replace_all_uses_with(known)
        self._graph.eliminate_dead_code()

    def _size(self, node: fx.Node) -> fx.Node | None:
        """Return the node that holds the size that a node holds; None for a node that holds none."""
        value = node.meta.get("val")
        if not isinstance(value, torch.SymInt):
            return None
        expression = value.node.expr
        if expression not in self._sizes and expression in self._axes:
            made = self._graph.call_function(_aten.sym_size.int, self._axes[expression])
            made.meta = dict(node.meta)
            self._sizes[expression] = made
        return self._sizes.setdefault(expression, node) if node.graph is self._graph else self._sizes.get(expression)

    def _replace(self, node: fx.Node) -> None:
        arguments = iter([each for each in _inputs(node) if isinstance(each, fx.Node)])
        of: dict[fx.Node, Any] = {}
        with self._graph.inserting_before(node):
            for part in self._traced[node].nodes:
                if part.op == "placeholder":
                    of[part] = next(arguments)
                elif part.op == "output":
                    self._hand_over(node, fx.node.map_arg(part.args[0], of.__getitem__))
                elif part.target not in _ASSERTIONS:
                    of[part] = self._size(part) or self._copy(part, node, of)

    def _copy(self, part: fx.Node, node: fx.Node, of: Mapping[fx.Node, Any]) -> fx.Node:
        made = self._graph.node_copy(part, of.__getitem__)
        made.meta = {**node.meta, **part.meta}
        self._size(made)
        return made

    def _hand_over(self, node: fx.Node, result: Any) -> None:
        """Let what reads an operator read its parts' result."""
        if isinstance(result, fx.Node):
            node.replace_all_uses_with(result)
        else:
            for reader in list(node.users):
                reader.replace_all_uses_with(result[reader.args[1]])
                self._graph.erase_node(reader)
        self._graph.erase_node(node)
