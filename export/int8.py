"""Products with large weight matrices in 8-bit integers: twice as fast on a CPU, at less than half the size.

A weight matrix has a scale for each column, set once. A row of activations (a token) has a scale of its own, set by its
largest number whenever it is multiplied: x W ≈ m/127 · s ∘ (round(127 x / m) · round(W / s)), with m = max |x| of the
row and s = max |W| / 63 of each column. Integers are summed exactly, and no row has its scale from the rows and
the padding beside it, as it has with one for all of a batch (docs/decisions/0013).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bundle.values import Array
from export.errors import ExportError

# Below this many numbers a matrix is multiplied sooner than its input is turned into integers. Measured for 16 to 197
# rows, time in float32 by time in int8: 128 x 128 0.7 to 0.95, 128 x 256 0.9 to 1.2, 256 x 256 1.2 to 1.5.
SMALLEST = 2**15
# Of weights 7 bits are used: two products of 8-bit numbers overflow the 16-bit sums of processors without VNNI.
_MOST_WEIGHT = 63
_MOST = 127
_ZERO = 128  # activations are unsigned, which is the faster kernel
_DOMAINS = ("", "ai.onnx")
# Where these have weights, they stand in the place given.
_WEIGHTS = {"MatMul": (1,), "Gemm": (1,), "GRU": (1, 2), "LSTM": (1, 2), "RNN": (1, 2), "Conv": (1,)}
_CONSTANTS = {
    "int8_least": np.float32(1e-30),
    "int8_step": np.float32(1 / _MOST),
    "int8_zero": np.uint8(_ZERO),
    "int8_last_axis": np.array([-1], np.int64),
}


@dataclass(frozen=True)
class _Quantised:
    """A matrix [in, out] as names of initializers: its integers, and the scale of each column."""

    integers: str
    scales: str


def quantise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a copy of a float32 model with its large products in 8-bit integers; inputs and outputs stay as they are.

    Raises: ExportError where there is no such product, or other operators hold more of the weights, naming the one that
    holds most.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    weights = {each.name: each for each in graph.initializer}
    products = [node for node in graph.node if _is_large_product(node, weights)]
    _check_worth(graph, products, weights)
    graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in _CONSTANTS.items())
    matrices: dict[tuple[str, bool], _Quantised] = {}
    rows: dict[str, tuple[str, str]] = {}
    nodes: list[onnx.NodeProto] = []
    chosen = {node.output[0] for node in products}
    for node in graph.node:
        if node.output[0] not in chosen:
            nodes.append(node)
            continue
        source, turned = node.input[1], bool(_attribute(node, "transB", 0))
        if (source, turned) not in matrices:
            matrices[source, turned] = _quantise_matrix(graph, weights[source], turned)
        if node.input[0] not in rows:
            made, rows[node.input[0]] = _quantise_rows(node.input[0])
            nodes += made
        nodes += _product(node, *rows[node.input[0]], matrices[source, turned])
    del graph.node[:]
    graph.node.extend(nodes)
    _drop_unused(graph, {source for source, _ in matrices})
    return copy


def _is_large_product(node: onnx.NodeProto, weights: dict[str, onnx.TensorProto]) -> bool:
    if node.op_type not in ("MatMul", "Gemm") or node.domain not in _DOMAINS or node.input[1] not in weights:
        return False
    plain = {"transA": 0, "alpha": 1.0, "beta": 1.0}
    if any(_attribute(node, name, value) != value for name, value in plain.items()):
        return False
    matrix = weights[node.input[1]]
    large = len(matrix.dims) == 2 and matrix.dims[0] * matrix.dims[1] >= SMALLEST
    return large and matrix.data_type == onnx.TensorProto.FLOAT


def _check_worth(graph: onnx.GraphProto, products: list[onnx.NodeProto], weights: dict[str, onnx.TensorProto]) -> None:
    """Refuse a graph that int8 would do nothing for."""
    chosen = {node.input[1] for node in products}
    left: Counter[str] = Counter()
    for node in _all_nodes(graph):
        for place in _WEIGHTS.get(node.op_type, ()):
            if len(node.input) > place and node.input[place] in weights.keys() - chosen:
                left[node.op_type] += int(np.prod(weights[node.input[place]].dims))
    converted = sum(int(np.prod(weights[name].dims)) for name in chosen)
    if left.total() > converted or not converted:
        most = f", most of the others in {left.most_common(1)[0][0]}, which stays in float32" if left else ""
        raise ExportError(
            f"int8 would win nothing: {converted} of {converted + left.total()} weights are in products with matrices "
            f"of at least {SMALLEST} numbers{most}"
        )


def _quantise_matrix(graph: onnx.GraphProto, weight: onnx.TensorProto, turned: bool) -> _Quantised:
    matrix = numpy_helper.to_array(weight)
    matrix = matrix.T if turned else matrix
    scales: Array = np.abs(matrix).max(axis=0) / np.float32(_MOST_WEIGHT)
    scales[scales == 0] = 1
    integers = np.rint(matrix / scales).astype(np.int8)
    names = _Quantised(f"{weight.name}_int8{'_turned' * turned}", f"{weight.name}_int8{'_turned' * turned}_scales")
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(integers), names.integers))
    graph.initializer.append(numpy_helper.from_array(scales / np.float32(_MOST), names.scales))
    return names


def _quantise_rows(name: str) -> tuple[list[onnx.NodeProto], tuple[str, str]]:
    """Turn activations [..., in] into integers, and the largest of each row [..., 1]; gives nodes and both names."""
    sizes, some, most, shares, integers = (f"{name}_int8_{each}" for each in ("sizes", "some", "most", "shares", "row"))
    nodes = [
        helper.make_node("Abs", [name], [sizes]),
        helper.make_node("ReduceMax", [sizes, "int8_last_axis"], [some], keepdims=1),
        helper.make_node("Max", [some, "int8_least"], [most]),
        helper.make_node("Div", [name, most], [shares]),
        helper.make_node("QuantizeLinear", [shares, "int8_step", "int8_zero"], [integers]),
    ]
    return nodes, (integers, most)


def _product(node: onnx.NodeProto, integers: str, most: str, matrix: _Quantised) -> Iterator[onnx.NodeProto]:
    result = node.output[0]
    bias = node.input[2] if len(node.input) > 2 else ""
    whole, real, scaled, unbiased = (f"{result}_int8_{each}" for each in ("sum", "real", "scaled", "unbiased"))
    yield helper.make_node("MatMulInteger", [integers, matrix.integers, "int8_zero"], [whole])
    yield helper.make_node("Cast", [whole], [real], to=onnx.TensorProto.FLOAT)
    yield helper.make_node("Mul", [real, matrix.scales], [scaled])
    yield helper.make_node("Mul", [scaled, most], [unbiased if bias else result])
    if bias:
        yield helper.make_node("Add", [unbiased, bias], [result])


def _drop_unused(graph: onnx.GraphProto, candidates: set[str]) -> None:
    """Drop the float32 matrices that nothing reads any more."""
    read = {name for node in _all_nodes(graph) for name in node.input} | {each.name for each in graph.output}
    kept = [each for each in graph.initializer if each.name not in candidates or each.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Every node, those of bodies and branches included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from _all_nodes(inner)


def _attribute(node: onnx.NodeProto, name: str, default: float) -> float:
    found = next((each for each in node.attribute if each.name == name), None)
    return default if found is None else helper.get_attribute_value(found)
