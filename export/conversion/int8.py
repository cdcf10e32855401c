"""Products with large weight matrices in 8-bit integers: twice as fast on a CPU, at less than half the size.

A weight matrix has a scale for each column, set once. A row of activations (a token) has a scale of its own, set by its
largest number whenever it is multiplied: x W ≈ m/127 · s ∘ (round(127 x / m) · round(W / s)), with m = max |x| of the
row and s = max |W| / 63 of each column. Integers are summed exactly, and no row has its scale from the rows and
the padding beside it, as it has with one for all of a batch (docs/decisions/0013).
"""

import hashlib
import logging
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
# What turns a weight before it is multiplied: the exporter folds it away only where the weight is small.
_TURNS = ("Identity", "Transpose", "Reshape")
# Where these have weights, they stand in the place given.
_WEIGHTS = {"MatMul": (1,), "Gemm": (1,), "GRU": (1, 2), "LSTM": (1, 2), "RNN": (1, 2), "Conv": (1,)}
_CONSTANTS = {
    "int8_least": np.float32(1e-30),
    "int8_step": np.float32(1 / _MOST),
    "int8_zero": np.uint8(_ZERO),
    "int8_last_axis": np.array([-1], np.int64),
}


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Quantised:
    """A matrix [in, out] as names of initializers: its integers, and the scale of each column."""

    integers: str
    scales: str


def quantise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a copy of a float32 model with its large products in 8-bit integers; inputs and outputs stay as they are.

    What of its weights stays in float32 is logged.
    Raises: ExportError where there is no such product, or other operators hold more of the weights, naming the one that
    holds most.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    weights = _Weights(graph)
    products = [node for node in graph.node if _is_large_product(node, weights)]
    _check_worth(graph, products, weights)
    graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in _CONSTANTS.items())
    matrices: dict[str, _Quantised] = {}
    rows: dict[str, tuple[str, str]] = {}
    nodes: list[onnx.NodeProto] = []
    chosen = {node.output[0] for node in products}
    for node in graph.node:
        if node.output[0] not in chosen:
            nodes.append(node)
            continue
        matrix = weights.matrix(node)
        known = hashlib.sha256(repr(matrix.shape).encode() + matrix.tobytes()).hexdigest()
        if known not in matrices:  # several parts, or places, may read one weight, each turned by a node of its own
            matrices[known] = _quantise_matrix(graph, f"{node.input[1]}_{len(matrices)}", matrix)
        if node.input[0] not in rows:
            made, rows[node.input[0]] = _quantise_rows(node.input[0])
            nodes += made
        nodes += _product(node, *rows[node.input[0]], matrices[known])
    del graph.node[:]
    graph.node.extend(nodes)
    _drop_unused(graph)
    return copy


class _Weights:
    """The constant operands of a graph's products, through the nodes that turn them."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._given = {each.name: each for each in graph.initializer}
        self._made = {node.output[0]: node for node in graph.node if node.op_type in (*_TURNS, "Constant")}

    def source(self, name: str) -> str:
        """Name the initializer that an operand is; empty where it is none, or of more than one."""
        while name not in self._given:
            node = self._made.get(name)
            if node is None or node.op_type not in _TURNS:
                return ""
            if node.op_type == "Reshape" and self._shape(node) is None:
                return ""
            name = node.input[0]
        return name

    def array(self, name: str) -> Array | None:
        """Give an operand; None where it is no constant."""
        if not self.source(name):
            return None
        if name in self._given:
            return numpy_helper.to_array(self._given[name])
        node = self._made[name]
        before = self.array(node.input[0])
        if before is None or node.op_type == "Identity":
            return before
        if node.op_type == "Transpose":
            turned: list[int] = _listed(node, "perm") or list(range(before.ndim))[::-1]
            return before.transpose(turned)
        shape = self._shape(node)
        assert shape is not None
        return before.reshape([size or before.shape[place] for place, size in enumerate(shape)])

    def matrix(self, node: onnx.NodeProto) -> Array:
        """Give the matrix [in, out] of a product."""
        found = self.array(node.input[1])
        assert found is not None
        return np.ascontiguousarray(found.T if _attribute(node, "transB", 0) else found)

    def _shape(self, node: onnx.NodeProto) -> list[int] | None:
        name = node.input[1]
        if name in self._given:
            return [int(size) for size in numpy_helper.to_array(self._given[name])]
        made = self._made.get(name)
        value = next((each for each in made.attribute if each.name == "value"), None) if made is not None else None
        if value is not None:
            return [int(size) for size in numpy_helper.to_array(value.t)]
        return _listed(made, "value_ints") if made is not None else None


def _is_large_product(node: onnx.NodeProto, weights: _Weights) -> bool:
    if node.op_type not in ("MatMul", "Gemm") or node.domain not in _DOMAINS:
        return False
    plain = {"transA": 0, "alpha": 1.0, "beta": 1.0}
    if any(_attribute(node, name, value) != value for name, value in plain.items()):
        return False
    matrix = weights.array(node.input[1])
    return matrix is not None and matrix.ndim == 2 and matrix.size >= SMALLEST and matrix.dtype == np.float32


def _check_worth(graph: onnx.GraphProto, products: list[onnx.NodeProto], weights: _Weights) -> None:
    """Refuse a graph that int8 would do nothing for; say what of another it leaves as it is."""
    chosen = {weights.source(node.input[1]) for node in products}
    converted_products = {node.output[0] for node in products}
    left: Counter[str] = Counter()
    counted: set[str] = set()
    said: Counter[str] = Counter()
    for node in _all_nodes(graph):
        for place in _WEIGHTS.get(node.op_type, ()):
            source = weights.source(node.input[place]) if len(node.input) > place else ""
            array = weights.array(node.input[place]) if source else None
            if array is None or node.output[0] in converted_products:
                continue
            if array.size >= SMALLEST:
                said[f"{node.op_type} with {list(array.shape)}"] += 1
            if source not in chosen | counted:
                counted.add(source)
                left[node.op_type] += array.size
    sizes = {each.name: int(np.prod(each.dims)) for each in graph.initializer}
    converted = sum(sizes[name] for name in chosen)
    if left.total() > converted or not converted:
        most = f", most of the others in {left.most_common(1)[0][0]}, which stays in float32" if left else ""
        raise ExportError(
            f"int8 would win nothing: {converted} of {converted + left.total()} weights are in products with matrices "
            f"of at least {SMALLEST} numbers{most}"
        )
    if said:
        listed = ", ".join(f"{count} {what}" for what, count in sorted(said.items()))
        logger.warning(
            "int8: %d products are in integers; these with large weights stay in float32: %s", len(products), listed
        )


def _quantise_matrix(graph: onnx.GraphProto, name: str, matrix: Array) -> _Quantised:
    scales: Array = np.abs(matrix).max(axis=0) / np.float32(_MOST_WEIGHT)
    scales[scales == 0] = 1
    integers = np.rint(matrix / scales).astype(np.int8)
    names = _Quantised(f"{name}_int8", f"{name}_int8_scales")
    graph.initializer.append(numpy_helper.from_array(integers, names.integers))
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


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Drop the nodes that turned weights, and the float32 weights, that nothing reads any more."""
    while True:
        read = {name for node in _all_nodes(graph) for name in node.input} | {each.name for each in graph.output}
        kept = [node for node in graph.node if node.op_type not in _TURNS or read.intersection(node.output)]
        if len(kept) == len(graph.node):
            break
        del graph.node[:]
        graph.node.extend(kept)
    read |= {each.name for each in graph.input}  # what may be left out has its default among them
    weights = [each for each in graph.initializer if each.name in read]
    del graph.initializer[:]
    graph.initializer.extend(weights)


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


def _listed(node: onnx.NodeProto, name: str) -> list[int] | None:
    found = next((each for each in node.attribute if each.name == name), None)
    return None if found is None else [int(each) for each in found.ints]
