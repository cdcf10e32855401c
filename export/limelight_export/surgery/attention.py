"""Replaces attention markers by standard operators, as cheap as their use allows.

Without weights, c = softmax(scale · q kᵀ + bias) v is computed by ONNX Runtime's fused operator where the sequence is
long and has neither mask nor bias. An *optional* map is computed only where its gate is true, and single rows of it
where its row probe names heads and queries. A map that a run does not request costs one If.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import onnx
from onnx import helper

from limelight_export.surgery.boolean_masks import BooleanMasks
from limelight_export.surgery.fused_attention import FUSED_FROM, FUSED_OPERATOR
from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.optional_maps import OptionalMap
from limelight_export.surgery.subgraphs import subgraphs
from limelight_models.attention.export_markers import OPERATOR
from limelight_models.export_names import DOMAIN, INTERVENTION

# Half of the lowest float: adding a score keeps it finite, in half precision too.
_MASKED_SCORE = np.float32(np.finfo(np.float32).min / 2)
# An intervention gives no weight to a key whose score gets such an addition or a lower one.
_NO_WEIGHT = np.float32(-1e4)
_CONTRIB_DOMAIN = "com.microsoft"
_BOOL, _FLOAT = onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT


@dataclass(frozen=True)
class _AttentionMarker:
    """An attention marker; all of its tensors have four axes.

    Attributes:
        mask: empty for no mask.
        added: FLOAT, added to scores; empty for nothing. Beside a mask it is finite; alone it may hold -inf.
        by_position: for a tensor [batch, head, position, d], the tensor [batch, position, head, d] that it transposes.
    """

    query: str
    key: str
    value: str
    mask: str
    added: str
    heads: int
    scale: np.float32
    context: str
    weights: str
    by_position: Mapping[str, str]


@dataclass(frozen=True)
class _Masking:
    """Tensors that markers with one mask share.

    Attributes:
        bias: FLOAT, added to scores; empty for neither a mask nor an addition of the marker.
        has_keys: FLOAT [..., query, 1], 1 for a query with a key to attend to, else 0; empty for no mask.
        fused: BOOL, true where the fused operator is faster and can be used; empty where it never is.
    """

    bias: str
    has_keys: str
    fused: str


def expand_attention(
    model: onnx.ModelProto, maps: Mapping[str, Sequence[int]], max_axis_size: int, *, intervenes: bool = False
) -> dict[str, OptionalMap]:
    """Replace every attention marker of a model, in place.

    Args:
        maps: outputs that become optional where they can, with their shapes; 0 for an axis that varies.
        max_axis_size: the most queries or keys; 0 for no limit.
        intervenes: compute all weights whole, behind a marker of `limelight_export.surgery.interventions`.
    Returns: the optional maps. Their inputs and outputs are not declared yet.
    """
    optional_maps: dict[str, OptionalMap] = {}
    found = _expand_graph(model.graph, maps, max_axis_size, optional_maps, intervenes=intervenes)
    for graph in subgraphs(model.graph.node):
        found = _expand_graph(graph, {}, max_axis_size, optional_maps) or found
    kept = [each for each in model.opset_import if each.domain not in (DOMAIN, _CONTRIB_DOMAIN)]
    del model.opset_import[:]
    model.opset_import.extend([*kept, *([helper.make_opsetid(_CONTRIB_DOMAIN, 1)] if found else [])])
    return optional_maps


def _expand_graph(
    graph: onnx.GraphProto,
    maps: Mapping[str, Sequence[int]],
    max_axis_size: int,
    optional_maps: dict[str, OptionalMap],
    *,
    intervenes: bool = False,
) -> bool:
    nodes = list(graph.node)
    if not any(_is_marker(node) for node in nodes):
        return False
    used, outputs = _count_uses(nodes), {each.name for each in graph.output}
    shapes: dict[str, Sequence[int | str]] = {each.name: _shape(each) for each in (*graph.value_info, *graph.input)}
    by_position = {
        each.output[0]: each.input[0]
        for each in nodes
        if each.op_type == "Transpose" and [*each.attribute[0].ints] == [0, 2, 1, 3]
    }
    shared = _MaskCache(shapes, max_axis_size, fuses=not intervenes)
    boolean_masks = BooleanMasks(graph)
    biases: dict[str, tuple[str, Sequence[int | str]]] = {}  # biases of optional maps: name of the output, and its axes
    del graph.node[:]
    for node in nodes:
        if not _is_marker(node):
            graph.node.append(node)
            continue
        marker = _parse_marker(node, shapes, by_position)
        builder = NodeBuilder(f"{marker.context}_")
        if marker.added and not marker.mask and marker.added in boolean_masks:
            marker = replace(marker, mask=shared.boolean(builder, marker.added), added="")
        masking = shared.masking(builder, marker)
        if intervenes:
            _add_intervened(builder, marker, masking)
        elif marker.weights in maps and not used[marker.weights]:
            size, value_size = (shapes[each][3] for each in (marker.query, marker.value))
            assert isinstance(size, int) and isinstance(value_size, int)  # constants of the layer
            if marker.added:  # a bias that is large itself, and whose zeros do not tell what is masked
                optional_map = OptionalMap.without_projections(marker.weights, value_size)
            else:
                named, axes = biases.setdefault(masking.bias, (f"{marker.weights}:bias", shapes.get(marker.mask, ())))
                bias = named if masking.bias else ""
                optional_map = OptionalMap.of(marker.weights, size, bias, [axis == 1 for axis in axes], value_size)
            optional_maps[marker.weights] = optional_map
            found = _optional_attention(builder, marker, masking, optional_map, maps[marker.weights])
            builder.rename(found, [marker.context, marker.weights, optional_map.rows, *optional_map.projected])
        elif marker.weights in outputs or used[marker.weights]:
            builder.rename(_eager(builder, marker, masking, whole=True), [marker.context, marker.weights])
        else:
            builder.rename([_context(builder, marker, masking)], [marker.context])
        graph.node.extend(builder.nodes)
    for bias, (named, _) in biases.items():
        gates = [each.projections_gate for each in optional_maps.values() if each.bias == named]
        if bias and gates:
            graph.node.extend(_output_if_any(bias, gates, named))
    return True


def _output_if_any(name: str, gates: Sequence[str], output: str) -> Sequence[onnx.NodeProto]:
    """Add an output that holds a four-axis tensor if one of several gates is true, else nothing."""
    builder = NodeBuilder(f"{output}_")
    open_ = reduce(lambda one, other: builder.add("Or", one, other), gates)
    found = builder.if_else(open_, lambda side: [side.add("Identity", name)], lambda side: [side.empty((0,) * 4)], 1)
    builder.rename(found, [output])
    return builder.nodes


class _MaskCache:
    """Builds the nodes that markers with one mask, one addition and the same sizes share, once."""

    def __init__(self, shapes: dict[str, Sequence[int | str]], max_axis_size: int, *, fuses: bool) -> None:
        self._shapes, self._max_axis_size, self._fuses = shapes, max_axis_size, fuses
        self._made: dict[object, str] = {}

    def masking(self, builder: NodeBuilder, marker: _AttentionMarker) -> _Masking:
        mask, added = marker.mask, marker.added
        if not mask:
            return self._bias_alone(builder, added) if added else _Masking("", "", self._fused(builder, marker))
        number = self._cached((mask, "number"), lambda: builder.add("Cast", mask, to=_FLOAT))
        bias = self._cached(
            (mask, "bias"),
            lambda: builder.add("Where", mask, builder.constant(np.float32(0)), builder.constant(_MASKED_SCORE)),
        )
        has_keys = self._cached(
            (mask, "has_keys"), lambda: builder.add("ReduceMax", number, builder.integers(-1), keepdims=1)
        )
        if added:
            both = self._cached((mask, "bias", added), lambda: builder.add("Add", added, bias))
            return _Masking(both, has_keys, "")
        return _Masking(bias, has_keys, self._fused(builder, marker))

    def boolean(self, builder: NodeBuilder, bias: str) -> str:
        """Make the mask, true where a query may attend to a key, of a bias that holds nothing but 0 and -inf."""
        mask = self._cached((bias, "boolean"), lambda: builder.add("Equal", bias, builder.constant(np.float32(0))))
        self._shapes.setdefault(mask, self._shapes.get(bias, ()))
        return mask

    def _bias_alone(self, builder: NodeBuilder, added: str) -> _Masking:
        """Let a bias that leaves a query no key, which Softmax would answer with NaN, be nothing for that query."""
        most = self._cached((added, "most"), lambda: builder.add("ReduceMax", added, builder.integers(-1), keepdims=1))
        attends = self._cached(
            (added, "attends"), lambda: builder.add("Greater", most, builder.constant(np.float32(-np.inf)))
        )
        bias = self._cached(
            (added, "bias"), lambda: builder.add("Where", attends, added, builder.constant(np.float32(0)))
        )
        return _Masking(bias, self._cached((added, "has_keys"), lambda: builder.add("Cast", attends, to=_FLOAT)), "")

    def _fused(self, builder: NodeBuilder, marker: _AttentionMarker) -> str:
        lengths = [self._shapes.get(name, (0, 0, name))[2] for name in (marker.query, marker.key)]
        most = [each if isinstance(each, int) else self._max_axis_size or FUSED_FROM for each in lengths]
        if not self._fuses or min(most) < FUSED_FROM:
            return ""
        return self._cached((marker.mask, "fused", *lengths), lambda: self._fused_pays(builder, marker))

    def _fused_pays(self, builder: NodeBuilder, marker: _AttentionMarker) -> str:
        sizes = [builder.add("Shape", name, start=2, end=3) for name in (marker.query, marker.key)]
        shorter = builder.add("Squeeze", builder.add("Min", *sizes))
        long = builder.add("GreaterOrEqual", shorter, builder.constant(np.int64(FUSED_FROM)))
        if not marker.mask:
            return long
        number = self._made[marker.mask, "number"]
        return builder.add("And", long, builder.add("Cast", builder.add("ReduceMin", number, keepdims=0), to=_BOOL))

    def _cached(self, key: object, make: Callable[[], str]) -> str:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _optional_attention(
    builder: NodeBuilder, marker: _AttentionMarker, masking: _Masking, optional_map: OptionalMap, shape: Sequence[int]
) -> Sequence[str]:
    """Build context vectors, and weights, rows and projections where requested.

    The most frequent case, context vectors alone, is behind one If.
    """
    nothing = (0, *shape[1:])
    probed = builder.add("Cast", builder.add("Size", optional_map.heads), to=_BOOL)
    requested = builder.add("Or", optional_map.gate, probed)
    projected = optional_map.projected
    if projected:
        requested = builder.add("Or", requested, optional_map.projections_gate)
    special = builder.add("Or", requested, masking.fused) if masking.fused else requested

    def no_projections(side: NodeBuilder) -> Sequence[str]:
        return [side.empty((0, marker.heads, 0, size)) for size in projected.values()]

    def usual(side: NodeBuilder) -> Sequence[str]:
        context = _eager(side, marker, masking, whole=False)[0]
        return context, side.empty(nothing), side.empty((0, 0, 0, shape[3])), *no_projections(side)

    def otherwise(side: NodeBuilder) -> Sequence[str]:
        both = side.if_else(
            optional_map.gate,
            lambda whole: _eager(whole, marker, masking, whole=True),
            lambda fast: (_context(fast, marker, masking), fast.empty(nothing)),
            2,
        )
        rows = side.if_else(
            probed,
            lambda some: [_rows(some, marker, masking, optional_map)],
            lambda none: [none.empty((0, 0, 0, shape[3]))],
            1,
        )
        projections = side.if_else(
            optional_map.projections_gate,
            lambda some: _projections(some, marker, optional_map),
            no_projections,
            len(projected),
        )
        return *both, *rows, *projections

    return builder.if_else(special, otherwise, usual, 3 + len(projected))


def _context(builder: NodeBuilder, marker: _AttentionMarker, masking: _Masking) -> str:
    """Build context vectors alone."""
    if not masking.fused:
        return _eager(builder, marker, masking, whole=False)[0]
    return builder.if_else(
        masking.fused,
        lambda side: [_fused(side, marker)],
        lambda side: [_eager(side, marker, masking, whole=False)[0]],
        1,
    )[0]


def _eager(builder: NodeBuilder, marker: _AttentionMarker, masking: _Masking, *, whole: bool) -> Sequence[str]:
    """Build context vectors and weights. Without `whole`, weights of queries with no key are wrong."""
    weights = _weights(builder, marker, masking, whole=whole)
    context = builder.add("MatMul", weights, marker.value)
    if masking.has_keys and not whole:
        context = builder.add("Mul", context, masking.has_keys)
    return context, weights


def _add_intervened(builder: NodeBuilder, marker: _AttentionMarker, masking: _Masking) -> None:
    """Build context vectors and weights under the marker's names, with an intervention marker behind the weights."""
    weights, mask = _weights(builder, marker, masking, whole=True), marker.mask
    if not mask and marker.added:
        mask = builder.add("Greater", marker.added, builder.constant(_NO_WEIGHT))
    factor = f"{marker.weights}:factor"
    inputs, outputs = [weights, *filter(None, [mask])], [marker.weights, factor]
    builder.nodes.append(helper.make_node(INTERVENTION, inputs, outputs, domain=DOMAIN, heads=marker.heads))
    builder.add("Mul", builder.add("MatMul", marker.weights, marker.value), factor, output=marker.context)


def _weights(builder: NodeBuilder, marker: _AttentionMarker, masking: _Masking, *, whole: bool) -> str:
    # ONNX Runtime fuses scaling and transposition of this form into the product.
    query = builder.add("Mul", marker.query, builder.constant(marker.scale))
    scores = builder.add("MatMul", query, builder.add("Transpose", marker.key, perm=[0, 1, 3, 2]))
    if masking.bias:
        scores = builder.add("Add", scores, masking.bias)
    weights = builder.add("Softmax", scores, axis=-1)
    if masking.has_keys and whole:
        weights = builder.add("Mul", weights, masking.has_keys)
    return weights


def _fused(builder: NodeBuilder, marker: _AttentionMarker) -> str:
    """Build context vectors by the fused operator, which takes [batch, position, head · d].

    The operator takes keys and values by heads too, but holds the weights then, as it does with a mask or a bias.
    """

    def joined(name: str) -> str:
        by_position = marker.by_position.get(name) or builder.add("Transpose", name, perm=[0, 2, 1, 3])
        return builder.add("Reshape", by_position, builder.integers(0, 0, -1))

    context = builder.add(
        FUSED_OPERATOR,
        *map(joined, (marker.query, marker.key, marker.value)),
        domain=_CONTRIB_DOMAIN,
        num_heads=marker.heads,
        scale=float(marker.scale),
    )
    split = builder.add("Reshape", context, builder.integers(0, 0, marker.heads, -1))
    return builder.add("Transpose", split, perm=[0, 2, 1, 3])


def _rows(builder: NodeBuilder, marker: _AttentionMarker, masking: _Masking, optional_map: OptionalMap) -> str:
    """Build the weights of the heads and queries that the row probe names."""

    def of_heads(name: str) -> str:
        return builder.add("Gather", name, optional_map.heads, axis=1)

    def of_both(name: str) -> str:
        for axis, index in ((1, optional_map.heads), (2, optional_map.queries)):  # an axis of size 1 broadcasts
            place = builder.add("Mod", index, builder.add("Shape", name, start=axis, end=axis + 1))
            name = builder.add("Gather", name, place, axis=axis)
        return name

    query = builder.add("Gather", of_heads(marker.query), optional_map.queries, axis=2)
    query = builder.add("Mul", query, builder.constant(marker.scale))
    scores = builder.add("MatMul", query, builder.add("Transpose", of_heads(marker.key), perm=[0, 1, 3, 2]))
    if masking.bias:
        scores = builder.add("Add", scores, of_both(masking.bias))
    weights = builder.add("Softmax", scores, axis=-1)
    return builder.add("Mul", weights, of_both(masking.has_keys)) if masking.has_keys else weights


def _projections(builder: NodeBuilder, marker: _AttentionMarker, optional_map: OptionalMap) -> Sequence[str]:
    """Build what stands behind the gate of a map's projections: scaled queries and keys, where it has them; values."""
    values = builder.add("Identity", marker.value)
    if not optional_map.query:
        return [values]
    query = builder.add("Mul", marker.query, builder.constant(marker.scale))
    return query, builder.add("Identity", marker.key), values


def _is_marker(node: onnx.NodeProto) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, OPERATOR)


def _parse_marker(
    node: onnx.NodeProto, shapes: Mapping[str, Sequence[int | str]], by_position: Mapping[str, str]
) -> _AttentionMarker:
    query, key, value, *given = node.input
    mask, added = [*given, "", ""][:2]
    heads = shapes[query][1]
    assert isinstance(heads, int)  # a marker always has a fixed number of heads
    scale = np.float32(next(each.f for each in node.attribute if each.name == "scale"))
    context, weights = node.output
    return _AttentionMarker(query, key, value, mask, added, heads, scale, context, weights, by_position)


def _shape(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    return tuple(each.dim_param or each.dim_value for each in value.type.tensor_type.shape.dim)


def _count_uses(nodes: Sequence[onnx.NodeProto]) -> Counter[str]:
    """Count the reads of each tensor, subgraphs included."""
    inner = [node for graph in subgraphs(nodes) for node in graph.node]
    passed = (each.name for graph in subgraphs(nodes) for each in graph.output)
    return Counter([*(name for node in (*nodes, *inner) for name in node.input), *passed])
