"""Products with large weight matrices in 8-bit integers: twice as fast on a CPU, at less than half the size.

Each column of a weight matrix has a fixed scale. Each row of activations (a token) has a scale of its own, computed
at each product: x W ≈ m/127 · s ∘ (round(127 x / m) · round(W / s)), with m = max |x| of the row and
s = max |W| / 63 of the column. Integer sums are exact, and the scale of a row does not depend on the other rows and
the padding in its batch (docs/decisions/0013).
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.surgery.subgraphs import all_nodes, drop_unread

# Below this many values, quantising the input costs more than the product. Speed-up by int8 for 16 to 197 rows:
# 128 x 128 0.7 to 0.95, 128 x 256 0.9 to 1.2, 256 x 256 1.2 to 1.5.
MIN_MATRIX_VALUES = 2**15
# 7 bits of weights: the sum of two 8-bit products overflows 16 bits on processors without VNNI.
_WEIGHT_LEVELS = 63
_ACTIVATION_LEVELS = 127
_ACTIVATION_ZERO_POINT = 128  # unsigned activations use the faster kernel
_DOMAINS = ("", "ai.onnx")
# Nodes between a weight and its product: the exporter folds them only for small weights.
_RESHAPING = ("Identity", "Transpose", "Reshape")
# Inputs that may hold weights, by operator.
_WEIGHT_INPUTS = {"MatMul": (1,), "Gemm": (1,), "GRU": (1, 2), "LSTM": (1, 2), "RNN": (1, 2), "Conv": (1,)}
_CONSTANTS = {
    "int8_least": np.float32(1e-30),
    "int8_step": np.float32(1 / _ACTIVATION_LEVELS),
    "int8_zero": np.uint8(_ACTIVATION_ZERO_POINT),
    "int8_last_axis": np.array([-1], np.int64),
}


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Quantised:
    """Names of the initializers of a quantised matrix [in, out]: its integers, and the scale of each column."""

    integers: str
    scales: str


def quantise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a float32 model with its large products in 8-bit integers.

    Inputs and outputs keep their types. A warning lists the products with large weights that stay in float32.

    Raises:
        ExportError: int8 products would hold less than half of the weights.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    weights = _ConstantOperands(graph)
    products = [node for node in graph.node if _is_large_product(node, weights)]
    _check_coverage(graph, products, weights)
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
        digest = hashlib.sha256(repr(matrix.shape).encode() + matrix.tobytes()).hexdigest()
        if digest not in matrices:  # several products may read one weight, each through its own transposition
            matrices[digest] = _quantise_matrix(graph, f"{node.input[1]}_{len(matrices)}", matrix)
        if node.input[0] not in rows:
            made, rows[node.input[0]] = _quantise_rows(node.input[0])
            nodes += made
        nodes += _product(node, *rows[node.input[0]], matrices[digest])
    del graph.node[:]
    graph.node.extend(nodes)
    drop_unread(graph, _RESHAPING)  # float32 weights, and the nodes that reshaped them
    return copy


class _ConstantOperands:
    """Constant operands of a graph's products, followed through nodes that only reshape them."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._initializers = {each.name: each for each in graph.initializer}
        self._producers = {node.output[0]: node for node in graph.node if node.op_type in (*_RESHAPING, "Constant")}

    def source(self, name: str) -> str:
        """Return the initializer behind an operand; empty where there is none."""
        while name not in self._initializers:
            node = self._producers.get(name)
            if node is None or node.op_type not in _RESHAPING:
                return ""
            if node.op_type == "Reshape" and self._shape(node) is None:
                return ""
            name = node.input[0]
        return name

    def array(self, name: str) -> Array | None:
        """Return the values of an operand; None where it is not constant."""
        if not self.source(name):
            return None
        if name in self._initializers:
            return numpy_helper.to_array(self._initializers[name])
        node = self._producers[name]
        before = self.array(node.input[0])
        if before is None or node.op_type == "Identity":
            return before
        if node.op_type == "Transpose":
            permutation: list[int] = _listed(node, "perm") or list(range(before.ndim))[::-1]
            return before.transpose(permutation)
        shape = self._shape(node)
        assert shape is not None
        return before.reshape([size or before.shape[place] for place, size in enumerate(shape)])

    def matrix(self, node: onnx.NodeProto) -> Array:
        """Return the weight matrix [in, out] of a product."""
        found = self.array(node.input[1])
        assert found is not None
        return np.ascontiguousarray(found.T if _attribute(node, "transB", 0) else found)

    def _shape(self, node: onnx.NodeProto) -> list[int] | None:
        name = node.input[1]
        if name in self._initializers:
            return [int(size) for size in numpy_helper.to_array(self._initializers[name])]
        made = self._producers.get(name)
        value = next((each for each in made.attribute if each.name == "value"), None) if made is not None else None
        if value is not None:
            return [int(size) for size in numpy_helper.to_array(value.t)]
        return _listed(made, "value_ints") if made is not None else None


def _is_large_product(node: onnx.NodeProto, weights: _ConstantOperands) -> bool:
    if node.op_type not in ("MatMul", "Gemm") or node.domain not in _DOMAINS:
        return False
    plain = {"transA": 0, "alpha": 1.0, "beta": 1.0}
    if any(_attribute(node, name, value) != value for name, value in plain.items()):
        return False
    matrix = weights.array(node.input[1])
    return matrix is not None and matrix.ndim == 2 and matrix.size >= MIN_MATRIX_VALUES and matrix.dtype == np.float32


def _check_coverage(graph: onnx.GraphProto, products: list[onnx.NodeProto], weights: _ConstantOperands) -> None:
    """Refuse a graph whose weights are mostly outside int8 products; log the remaining float32 products."""
    chosen = {weights.source(node.input[1]) for node in products}
    converted_products = {node.output[0] for node in products}
    remaining: Counter[str] = Counter()
    counted: set[str] = set()
    skipped: Counter[str] = Counter()
    for node in all_nodes(graph):
        for place in _WEIGHT_INPUTS.get(node.op_type, ()):
            source = weights.source(node.input[place]) if len(node.input) > place else ""
            array = weights.array(node.input[place]) if source else None
            if array is None or node.output[0] in converted_products:
                continue
            if array.size >= MIN_MATRIX_VALUES:
                skipped[f"{node.op_type} with {list(array.shape)}"] += 1
            if source not in chosen | counted:
                counted.add(source)
                remaining[node.op_type] += array.size
    sizes = {each.name: int(np.prod(each.dims)) for each in graph.initializer}
    converted = sum(sizes[name] for name in chosen)
    if remaining.total() > converted or not converted:
        most = f"; most others are in {remaining.most_common(1)[0][0]}, which stays in float32" if remaining else ""
        raise ExportError(
            f"int8 does not pay: {converted} of {converted + remaining.total()} weights are in products with matrices "
            f"of at least {MIN_MATRIX_VALUES} values{most}"
        )
    if skipped:
        listed = ", ".join(f"{count} {what}" for what, count in sorted(skipped.items()))
        logger.warning(
            "int8: %d products are in integers; these with large weights stay in float32: %s", len(products), listed
        )


def _quantise_matrix(graph: onnx.GraphProto, name: str, matrix: Array) -> _Quantised:
    scales: Array = np.abs(matrix).max(axis=0) / np.float32(_WEIGHT_LEVELS)
    scales[scales == 0] = 1
    integers = np.rint(matrix / scales).astype(np.int8)
    names = _Quantised(f"{name}_int8", f"{name}_int8_scales")
    graph.initializer.append(numpy_helper.from_array(integers, names.integers))
    graph.initializer.append(numpy_helper.from_array(scales / np.float32(_ACTIVATION_LEVELS), names.scales))
    return names


def _quantise_rows(name: str) -> tuple[list[onnx.NodeProto], tuple[str, str]]:
    """Quantise activations [..., in] by row.

    Returns: the nodes, and the names of the integers and of the largest value of each row [..., 1].
    """
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


def _attribute(node: onnx.NodeProto, name: str, default: float) -> float:
    found = next((each for each in node.attribute if each.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def _listed(node: onnx.NodeProto, name: str) -> list[int] | None:
    found = next((each for each in node.attribute if each.name == name), None)
    return None if found is None else [int(each) for each in found.ints]
