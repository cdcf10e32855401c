"""Replaces packing markers (`limelight_models.attention.token_packing`) by standard operators.

Each marker becomes one gather. Packing by heads also replaces a transposition, so a batch without padding costs
nothing more.
"""

from collections.abc import Callable

import numpy as np
import onnx

from limelight_export.surgery.node_builder import NodeBuilder
from limelight_models.attention.token_packing import PACK, PACK_HEADS, UNPACK, UNPACK_HEADS
from limelight_models.export_names import DOMAIN

_INT64 = onnx.TensorProto.INT64


def expand_token_packing(model: onnx.ModelProto) -> tuple[str, ...]:
    """Replace every packing marker of a model, in place, and return the inputs that are its masks."""
    nodes = list(model.graph.node)
    if not any(_is_marker(node) for node in nodes):
        return ()
    positions: dict[str, _TokenPositions] = {}
    del model.graph.node[:]
    for node in nodes:
        if not _is_marker(node):
            model.graph.node.append(node)
            continue
        features, mask = node.input
        (output,) = node.output
        sizes = {each.name: each.i for each in node.attribute}
        new = NodeBuilder(f"{output}_")
        tokens = positions[mask] if mask in positions else positions.setdefault(mask, _TokenPositions(new, mask))
        _EXPANSIONS[node.op_type](new, tokens, features, output, sizes)
        model.graph.node.extend(new.nodes)
    return tuple(each.name for each in model.graph.input if each.name in positions)


class _TokenPositions:
    """Positions of the tokens, computed once for all markers with one mask.

    `real` is INT64 [real token], the position of a real token in the whole batch. `place` is INT64 [batch, token], the
    real token at a position; at padding, the last real token before it, which is of the same row where the row has any,
    so that a value that is not finite stays in its row. A batch without tokens counts as all real tokens, so that no
    layer gets an empty tensor.
    """

    def __init__(self, builder: NodeBuilder, mask: str) -> None:
        self.mask = mask
        number = builder.add("Cast", mask, to=_INT64)
        empty = builder.add("Equal", builder.add("ReduceSum", number, keepdims=0), builder.constant(np.int64(0)))
        real = builder.add("Reshape", builder.add("Or", mask, empty), builder.integers(-1))
        self.real = builder.add("Squeeze", builder.add("NonZero", real), builder.integers(0))
        counted = builder.add("CumSum", builder.add("Cast", real, to=_INT64), builder.constant(np.int64(0)))
        before = builder.add(
            "Max", builder.add("Sub", counted, builder.constant(np.int64(1))), builder.constant(np.int64(0))
        )
        self.place = builder.add("Reshape", before, builder.add("Shape", mask))
        self._by_heads: dict[tuple[str, int], str] = {}

    def real_by_heads(self, builder: NodeBuilder, heads: int) -> str:
        """Build INT64 [real token, head]: positions among [batch, head, token]."""

        def make() -> str:
            length = builder.add("Max", builder.add("Shape", self.mask, start=1, end=2), builder.integers(1))
            row = builder.add("Div", self.real, length)
            others = builder.add("Mul", row, builder.add("Mul", length, builder.integers(heads - 1)))
            first = builder.add("Unsqueeze", builder.add("Add", self.real, others), builder.integers(1))
            return builder.add("Add", first, builder.add("Mul", length, builder.integers(*range(heads))))

        return self._cached((PACK_HEADS, heads), make)

    def place_by_heads(self, builder: NodeBuilder, heads: int) -> str:
        """Build INT64 [batch, head, token]: the entry of [real token, head] at each position."""

        def make() -> str:
            first = builder.add(
                "Mul", builder.add("Unsqueeze", self.place, builder.integers(1)), builder.integers(heads)
            )
            return builder.add("Add", first, builder.constant(np.arange(heads)[:, None]))

        return self._cached((UNPACK_HEADS, heads), make)

    def _cached(self, key: tuple[str, int], make: Callable[[], str]) -> str:
        if key not in self._by_heads:
            self._by_heads[key] = make()
        return self._by_heads[key]


def _pack(builder: NodeBuilder, tokens: _TokenPositions, features: str, output: str, sizes: dict[str, int]) -> None:
    flat = builder.add("Reshape", features, builder.integers(1, -1, sizes["size"]))
    builder.add("Gather", flat, tokens.real, axis=1, output=output)


def _unpack(builder: NodeBuilder, tokens: _TokenPositions, features: str, output: str, sizes: dict[str, int]) -> None:
    builder.add("Gather", builder.add("Squeeze", features, builder.integers(0)), tokens.place, axis=0, output=output)


def _pack_heads(
    builder: NodeBuilder, tokens: _TokenPositions, features: str, output: str, sizes: dict[str, int]
) -> None:
    flat = builder.add("Reshape", features, builder.integers(-1, sizes["size"]))
    gathered = builder.add("Gather", flat, tokens.real_by_heads(builder, sizes["heads"]), axis=0)
    builder.add("Reshape", gathered, builder.integers(1, -1, sizes["heads"] * sizes["size"]), output=output)


def _unpack_heads(
    builder: NodeBuilder, tokens: _TokenPositions, features: str, output: str, sizes: dict[str, int]
) -> None:
    flat = builder.add("Reshape", features, builder.integers(-1, sizes["size"]))
    builder.add("Gather", flat, tokens.place_by_heads(builder, sizes["heads"]), axis=0, output=output)


_EXPANSIONS = {PACK: _pack, UNPACK: _unpack, PACK_HEADS: _pack_heads, UNPACK_HEADS: _unpack_heads}


def _is_marker(node: onnx.NodeProto) -> bool:
    return node.domain == DOMAIN and node.op_type in _EXPANSIONS
