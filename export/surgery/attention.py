"""Puts standard operators in the place of marked attention (`models.attention.marked`), as cheap as its use allows.

Whoever asks for no weights gets c = softmax(scale · q kᵀ + bias) v, by ONNX Runtime's fused operator where the sequence
is long and nothing is masked. The weights of a *switched* map are put out only where its gate is true, and single rows
of them where heads and queries are named. What a run does not ask for costs it one If a map.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import onnx
from onnx import helper

from export.surgery.node_builder import Nodes
from export.surgery.optional_maps import Switch
from models.attention.marked import DOMAIN, OPERATOR

# Keys and queries from which the fused operator wins on a CPU: 0.88 of the time of the eager formula at 384 tokens,
# 0.86 at 512, about the same below 320 (an encoder of 6 layers, 384 wide, one thread); and it never holds the weights.
FUSED_FROM = 320
# Half of the lowest number: a score added to it stays finite, in half precision too.
_MASKED = np.float32(np.finfo(np.float32).min / 2)
_CONTRIBUTED = "com.microsoft"
_FUSED = "MultiHeadAttention"
_BOOL, _FLOAT = onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT


@dataclass(frozen=True)
class _Marked:
    """A marked node; all of its tensors have four axes. mask: empty where there is none.

    apart: of tensors [batch, head, position, d], those [batch, position, head, d] that they were made of.
    """

    query: str
    key: str
    value: str
    mask: str
    heads: int
    scale: np.float32
    context: str
    weights: str
    apart: Mapping[str, str]


@dataclass(frozen=True)
class _Masking:
    """What several nodes share. All three may be empty: nothing is masked; the fused operator never pays.

    bias: FLOAT, added to scores. some: FLOAT [..., query, 1], 1 for a query that may attend to something, else 0.
    fused: BOOL, whether the fused operator pays and can be used.
    """

    bias: str
    some: str
    fused: str


def expand(model: onnx.ModelProto, maps: Mapping[str, Sequence[int]], longest: int) -> dict[str, Switch]:
    """Replace every marked node of a model, in place.

    maps: outputs to be switched where they can be, with their shapes, 0 for an axis that varies.
    longest: the most queries or keys that there can be; 0 for no limit.
    Returns: the switches of the maps that are switched; their inputs and outputs are still to be declared.
    """
    switches: dict[str, Switch] = {}
    found = _expand(model.graph, maps, longest, switches)
    for graph in _inner(model.graph.node):
        found = _expand(graph, {}, longest, switches) or found
    kept = [each for each in model.opset_import if each.domain not in (DOMAIN, _CONTRIBUTED)]
    del model.opset_import[:]
    model.opset_import.extend([*kept, *([helper.make_opsetid(_CONTRIBUTED, 1)] if found else [])])
    return switches


def is_fused(model: onnx.ModelProto) -> bool:
    """Tell whether a model computes long attention by the fused operator."""
    nodes = [*model.graph.node, *(node for graph in _inner(model.graph.node) for node in graph.node)]
    return any(node.op_type == _FUSED for node in nodes)


def _expand(
    graph: onnx.GraphProto, maps: Mapping[str, Sequence[int]], longest: int, switches: dict[str, Switch]
) -> bool:
    nodes = list(graph.node)
    if not any(_is_marked(node) for node in nodes):
        return False
    used, outputs = _uses(nodes), {each.name for each in graph.output}
    shapes = {each.name: _shape(each) for each in (*graph.value_info, *graph.input)}
    apart = {
        each.output[0]: each.input[0]
        for each in nodes
        if each.op_type == "Transpose" and [*each.attribute[0].ints] == [0, 2, 1, 3]
    }
    shared = _Shared(shapes, longest)
    biases: dict[str, tuple[str, Sequence[int | str]]] = {}  # those of switched maps, and under which name they go out
    del graph.node[:]
    for node in nodes:
        if not _is_marked(node):
            graph.node.append(node)
            continue
        marked = _read(node, shapes, apart)
        made = Nodes(f"{marked.context}_")
        masking = shared.masking(made, marked)
        if marked.weights in maps and not used[marked.weights]:
            size = shapes[marked.query][3]
            assert isinstance(size, int)  # a layer's own
            named, axes = biases.setdefault(masking.bias, (f"{marked.weights}:bias", shapes.get(marked.mask, ())))
            bias = named if masking.bias else ""
            switch = switches[marked.weights] = Switch.of(marked.weights, size, bias, [axis == 1 for axis in axes])
            found = _switched(made, marked, masking, switch, maps[marked.weights])
            made.rename(found, [marked.context, marked.weights, switch.rows, switch.query, switch.key])
        elif marked.weights in outputs or used[marked.weights]:
            made.rename(_eager(made, marked, masking, whole=True), [marked.context, marked.weights])
        else:
            made.rename([_context(made, marked, masking)], [marked.context])
        graph.node.extend(made.list)
    for bias, (named, _) in biases.items():
        gates = [each.project for each in switches.values() if each.bias == named]
        if bias and gates:
            graph.node.extend(_where_asked(bias, gates, named))
    return True


def _where_asked(name: str, gates: Sequence[str], output: str) -> Sequence[onnx.NodeProto]:
    """Put a tensor of four axes out where any of some gates is open."""
    made = Nodes(f"{output}_")
    some = reduce(lambda one, other: made.add("Or", one, other), gates)
    found = made.choose(some, lambda side: [side.add("Identity", name)], lambda side: [side.empty((0,) * 4)], 1)
    made.rename(found, [output])
    return made.list


class _Shared:
    """Makes what nodes with the same mask and the same sizes have in common, once."""

    def __init__(self, shapes: Mapping[str, Sequence[int | str]], longest: int) -> None:
        self._shapes, self._longest = shapes, longest
        self._made: dict[object, str] = {}

    def masking(self, nodes: Nodes, marked: _Marked) -> _Masking:
        mask = marked.mask
        if not mask:
            return _Masking("", "", self._fused(nodes, marked))
        number = self._once((mask, "number"), lambda: nodes.add("Cast", mask, to=_FLOAT))
        bias = self._once(
            (mask, "bias"),
            lambda: nodes.add("Where", mask, nodes.constant(np.float32(0)), nodes.constant(_MASKED)),
        )
        some = self._once((mask, "some"), lambda: nodes.add("ReduceMax", number, nodes.integers(-1), keepdims=1))
        return _Masking(bias, some, self._fused(nodes, marked))

    def _fused(self, nodes: Nodes, marked: _Marked) -> str:
        lengths = [self._shapes.get(name, (0, 0, name))[2] for name in (marked.query, marked.key)]
        if any((each if isinstance(each, int) else self._longest or FUSED_FROM) < FUSED_FROM for each in lengths):
            return ""
        return self._once((marked.mask, "fused", *lengths), lambda: self._pays(nodes, marked))

    def _pays(self, nodes: Nodes, marked: _Marked) -> str:
        sizes = [nodes.add("Shape", name, start=2, end=3) for name in (marked.query, marked.key)]
        shorter = nodes.add("Squeeze", nodes.add("Min", *sizes))
        long = nodes.add("GreaterOrEqual", shorter, nodes.constant(np.int64(FUSED_FROM)))
        if not marked.mask:
            return long
        number = self._made[marked.mask, "number"]
        return nodes.add("And", long, nodes.add("Cast", nodes.add("ReduceMin", number, keepdims=0), to=_BOOL))

    def _once(self, key: object, make: Callable[[], str]) -> str:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _switched(nodes: Nodes, marked: _Marked, masking: _Masking, switch: Switch, shape: Sequence[int]) -> Sequence[str]:
    """Context vectors, whole weights or none, rows or none, projections or none. What is asked for most often stands
    behind one If.
    """
    nothing = (0, *shape[1:])
    probed = nodes.add("Cast", nodes.add("Size", switch.heads), to=_BOOL)
    asked = nodes.add("Or", nodes.add("Or", switch.gate, probed), switch.project)
    special = nodes.add("Or", asked, masking.fused) if masking.fused else asked

    def no_projections(side: Nodes) -> Sequence[str]:
        return [side.empty((0, marked.heads, 0, switch.size)) for _ in range(2)]

    def usual(side: Nodes) -> Sequence[str]:
        context = _eager(side, marked, masking, whole=False)[0]
        return context, side.empty(nothing), side.empty((0, 0, 0, shape[3])), *no_projections(side)

    def otherwise(side: Nodes) -> Sequence[str]:
        both = side.choose(
            switch.gate,
            lambda whole: _eager(whole, marked, masking, whole=True),
            lambda fast: (_context(fast, marked, masking), fast.empty(nothing)),
            2,
        )
        rows = side.choose(
            probed,
            lambda some: [_rows(some, marked, masking, switch)],
            lambda none: [none.empty((0, 0, 0, shape[3]))],
            1,
        )
        made_of = side.choose(switch.project, lambda some: _projections(some, marked), no_projections, 2)
        return *both, *rows, *made_of

    return nodes.choose(special, otherwise, usual, 5)


def _context(nodes: Nodes, marked: _Marked, masking: _Masking) -> str:
    """Context vectors alone."""
    if not masking.fused:
        return _eager(nodes, marked, masking, whole=False)[0]
    return nodes.choose(
        masking.fused,
        lambda side: [_fused(side, marked)],
        lambda side: [_eager(side, marked, masking, whole=False)[0]],
        1,
    )[0]


def _eager(nodes: Nodes, marked: _Marked, masking: _Masking, *, whole: bool) -> Sequence[str]:
    """Context vectors and weights; unless they are `whole`, weights of queries with nothing to attend to are wrong."""
    # In this form ONNX Runtime takes scaling and transposing into the product.
    query = nodes.add("Mul", marked.query, nodes.constant(marked.scale))
    scores = nodes.add("MatMul", query, nodes.add("Transpose", marked.key, perm=[0, 1, 3, 2]))
    if masking.bias:
        scores = nodes.add("Add", scores, masking.bias)
    weights = nodes.add("Softmax", scores, axis=-1)
    if masking.some and whole:
        weights = nodes.add("Mul", weights, masking.some)
    context = nodes.add("MatMul", weights, marked.value)
    if masking.some and not whole:
        context = nodes.add("Mul", context, masking.some)
    return context, weights


def _fused(nodes: Nodes, marked: _Marked) -> str:
    """Context vectors by the fused operator, which takes [batch, position, head · d].

    It takes keys and values by heads too, but holds the weights then, as it does with a mask or a bias.
    """

    def joined(name: str) -> str:
        apart = marked.apart.get(name) or nodes.add("Transpose", name, perm=[0, 2, 1, 3])
        return nodes.add("Reshape", apart, nodes.integers(0, 0, -1))

    context = nodes.add(
        _FUSED,
        *map(joined, (marked.query, marked.key, marked.value)),
        domain=_CONTRIBUTED,
        num_heads=marked.heads,
        scale=float(marked.scale),
    )
    split = nodes.add("Reshape", context, nodes.integers(0, 0, marked.heads, -1))
    return nodes.add("Transpose", split, perm=[0, 2, 1, 3])


def _rows(nodes: Nodes, marked: _Marked, masking: _Masking, switch: Switch) -> str:
    """Weights of the heads and queries that are named."""

    def of_heads(name: str) -> str:
        return nodes.add("Gather", name, switch.heads, axis=1)

    def of_both(name: str) -> str:
        for axis, index in ((1, switch.heads), (2, switch.queries)):  # an axis of size 1 stands for all
            place = nodes.add("Mod", index, nodes.add("Shape", name, start=axis, end=axis + 1))
            name = nodes.add("Gather", name, place, axis=axis)
        return name

    query = nodes.add("Gather", of_heads(marked.query), switch.queries, axis=2)
    query = nodes.add("Mul", query, nodes.constant(marked.scale))
    scores = nodes.add("MatMul", query, nodes.add("Transpose", of_heads(marked.key), perm=[0, 1, 3, 2]))
    if masking.bias:
        scores = nodes.add("Add", scores, of_both(masking.bias))
    weights = nodes.add("Softmax", scores, axis=-1)
    return nodes.add("Mul", weights, of_both(masking.some)) if masking.some else weights


def _projections(nodes: Nodes, marked: _Marked) -> Sequence[str]:
    """What scores are made of: scaled queries, and keys."""
    return nodes.add("Mul", marked.query, nodes.constant(marked.scale)), nodes.add("Identity", marked.key)


def _is_marked(node: onnx.NodeProto) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, OPERATOR)


def _read(node: onnx.NodeProto, shapes: Mapping[str, Sequence[int | str]], apart: Mapping[str, str]) -> _Marked:
    query, key, value, *masks = node.input
    heads = shapes[query][1]
    assert isinstance(heads, int)  # nothing else is marked
    scale = np.float32(next(each.f for each in node.attribute if each.name == "scale"))
    context, weights = node.output
    return _Marked(query, key, value, masks[0] if masks else "", heads, scale, context, weights, apart)


def _shape(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    return tuple(each.dim_param or each.dim_value for each in value.type.tensor_type.shape.dim)


def _uses(nodes: Sequence[onnx.NodeProto]) -> Counter[str]:
    """Count who reads each tensor, inner graphs included."""
    inner = [node for graph in _inner(nodes) for node in graph.node]
    passed = (each.name for graph in _inner(nodes) for each in graph.output)
    return Counter([*(name for node in (*nodes, *inner) for name in node.input), *passed])


def _inner(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """Every graph inside of nodes, however deep."""
    for node in nodes:
        for attribute in node.attribute:
            for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield graph
                yield from _inner(graph.node)
