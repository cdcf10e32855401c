"""Puts standard operators in the place of marks where tokens are packed and unpacked (`models.attention.packed`).

Each is one gather. By heads it takes the place of a transposition, so that rows without padding pay nothing for it.
"""

from collections.abc import Callable

import numpy as np
import onnx

from export.surgery.node_builder import Nodes
from models.attention.marked import DOMAIN
from models.attention.packed import PACK, PACK_HEADS, UNPACK, UNPACK_HEADS

_INT64 = onnx.TensorProto.INT64


def expand_packing(model: onnx.ModelProto) -> tuple[str, ...]:
    """Replace every mark of a model, in place; gives the inputs that are masks by which tokens are packed."""
    nodes = list(model.graph.node)
    if not any(_is_mark(node) for node in nodes):
        return ()
    made: dict[str, _Tokens] = {}
    del model.graph.node[:]
    for node in nodes:
        if not _is_mark(node):
            model.graph.node.append(node)
            continue
        features, mask = node.input
        (output,) = node.output
        sizes = {each.name: each.i for each in node.attribute}
        new = Nodes(f"{output}_")
        tokens = made[mask] if mask in made else made.setdefault(mask, _Tokens(new, mask))
        _KINDS[node.op_type](new, tokens, features, output, sizes)
        model.graph.node.extend(new.list)
    return tuple(each.name for each in model.graph.input if each.name in made)


class _Tokens:
    """Where tokens stand, found once for all marks with one mask.

    real: INT64 [real token], its place among all of the batch. place: INT64 [batch, token], which of the real tokens
    stands there; at padding the last one before it, which is of the same row where the row has any: so what is not
    finite in one row does not come into another. A batch without a single token counts as one of real tokens, so that
    no layer sees an empty tensor.
    """

    def __init__(self, nodes: Nodes, mask: str) -> None:
        self.mask = mask
        number = nodes.add("Cast", mask, to=_INT64)
        empty = nodes.add("Equal", nodes.add("ReduceSum", number, keepdims=0), nodes.constant(np.int64(0)))
        real = nodes.add("Reshape", nodes.add("Or", mask, empty), nodes.integers(-1))
        self.real = nodes.add("Squeeze", nodes.add("NonZero", real), nodes.integers(0))
        counted = nodes.add("CumSum", nodes.add("Cast", real, to=_INT64), nodes.constant(np.int64(0)))
        before = nodes.add("Max", nodes.add("Sub", counted, nodes.constant(np.int64(1))), nodes.constant(np.int64(0)))
        self.place = nodes.add("Reshape", before, nodes.add("Shape", mask))
        self._by_heads: dict[tuple[str, int], str] = {}

    def real_by_heads(self, nodes: Nodes, heads: int) -> str:
        """INT64 [real token, head]: places among [batch, head, token]."""

        def make() -> str:
            length = nodes.add("Max", nodes.add("Shape", self.mask, start=1, end=2), nodes.integers(1))
            row = nodes.add("Div", self.real, length)
            others = nodes.add("Mul", row, nodes.add("Mul", length, nodes.integers(heads - 1)))
            first = nodes.add("Unsqueeze", nodes.add("Add", self.real, others), nodes.integers(1))
            return nodes.add("Add", first, nodes.add("Mul", length, nodes.integers(*range(heads))))

        return self._once((PACK_HEADS, heads), make)

    def place_by_heads(self, nodes: Nodes, heads: int) -> str:
        """INT64 [batch, head, token]: which of [real token, head] stands there."""

        def make() -> str:
            first = nodes.add("Mul", nodes.add("Unsqueeze", self.place, nodes.integers(1)), nodes.integers(heads))
            return nodes.add("Add", first, nodes.constant(np.arange(heads)[:, None]))

        return self._once((UNPACK_HEADS, heads), make)

    def _once(self, key: tuple[str, int], make: Callable[[], str]) -> str:
        if key not in self._by_heads:
            self._by_heads[key] = make()
        return self._by_heads[key]


def _pack(nodes: Nodes, tokens: _Tokens, features: str, output: str, sizes: dict[str, int]) -> None:
    flat = nodes.add("Reshape", features, nodes.integers(1, -1, sizes["size"]))
    nodes.add("Gather", flat, tokens.real, axis=1, output=output)


def _unpack(nodes: Nodes, tokens: _Tokens, features: str, output: str, sizes: dict[str, int]) -> None:
    nodes.add("Gather", nodes.add("Squeeze", features, nodes.integers(0)), tokens.place, axis=0, output=output)


def _pack_heads(nodes: Nodes, tokens: _Tokens, features: str, output: str, sizes: dict[str, int]) -> None:
    flat = nodes.add("Reshape", features, nodes.integers(-1, sizes["size"]))
    gathered = nodes.add("Gather", flat, tokens.real_by_heads(nodes, sizes["heads"]), axis=0)
    nodes.add("Reshape", gathered, nodes.integers(1, -1, sizes["heads"] * sizes["size"]), output=output)


def _unpack_heads(nodes: Nodes, tokens: _Tokens, features: str, output: str, sizes: dict[str, int]) -> None:
    flat = nodes.add("Reshape", features, nodes.integers(-1, sizes["size"]))
    nodes.add("Gather", flat, tokens.place_by_heads(nodes, sizes["heads"]), axis=0, output=output)


_KINDS = {PACK: _pack, UNPACK: _unpack, PACK_HEADS: _pack_heads, UNPACK_HEADS: _unpack_heads}


def _is_mark(node: onnx.NodeProto) -> bool:
    return node.domain == DOMAIN and node.op_type in _KINDS
