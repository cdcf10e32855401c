"""Cases of the oracle test: expected outputs of a small instance, row by row.

An oracle is a function (module, inputs) -> expected outputs by name, all NumPy. Those for an `Attention` are made from
a function that gives one row of weights; the rows and the weighted sums are plain loops here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Oracle = Callable[[Any, dict[str, Array]], dict[str, Array]]


@dataclass
class Row:
    """One query of one head of one instance."""

    head: int
    at: int
    query: Array
    keys: Array
    values: Array
    allowed: Array
    valid: Array  # keys that any query of the instance may attend to
    inputs: dict[str, Array]  # the context's fields, this row of each
    first: dict[str, Array]  # the same, the first query's row
    queries: Array  # all queries of the head
    asking: Array  # queries that may attend to any key


def array(parameter: Any, head: int | None = None) -> Array:
    """A parameter in NumPy; with `head`, that head's part (or the one part that all heads share)."""
    values = parameter.detach().numpy()
    return values if head is None else values[min(head, len(values) - 1)]


def linear(layer: Any, head: int) -> Array:
    """A head's matrix as the equations have it, [d_out, d_in]."""
    return array(layer.weight, head).T


def bias(layer: Any, head: int) -> Array:
    """A head's bias vector."""
    return array(layer.bias, head)[0]


def additive_parameters(s: Any, head: int) -> tuple[Array, Array, Array, Array]:
    """W₁, W₂, b, w."""
    return linear(s.query_map, head), linear(s.key_map, head), bias(s.query_map, head), linear(s.importance, head)[0]


def rows(inputs: dict[str, Array]) -> Any:
    """All rows of an attention's inputs, with their indices."""
    query, mask = inputs["query"], inputs["mask"]
    batch, heads, length, _ = query.shape
    extra = {n: t for n, t in inputs.items() if n not in ("query", "key", "value", "mask")}
    for b in range(batch):
        valid = mask[b, 0].any(0)
        for h in range(heads):
            for i in range(length):
                yield (
                    (b, h, i),
                    Row(
                        head=h,
                        at=i,
                        query=query[b, h, i],
                        keys=inputs["key"][b, h],
                        values=inputs["value"][b, h],
                        allowed=mask[b, 0, i],
                        valid=valid,
                        inputs={n: t[b, h, i] for n, t in extra.items()},
                        first={n: t[b, h, 0] for n, t in extra.items()},
                        queries=query[b, h],
                        asking=mask[b, 0].any(-1),
                    ),
                )


def summed(weights: Array, values: Array) -> Array:
    """Σ_l a_l v_l, feature by feature where the weights have features."""
    total = np.zeros(values.shape[-1])
    for position in range(len(values)):
        total = total + weights[position] * values[position]
    return total


def by_row(weights: Callable[[Any, Row], Array], combine: Callable[[Any, Row, Array], Array] | None = None) -> Oracle:
    """An oracle from one that knows a single row of weights (and, if not by weighted sum, its context vector)."""

    def oracle(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
        found: dict[tuple[int, ...], tuple[Array, Array]] = {}
        for index, row in rows(inputs):
            a = weights(module, row)
            found[index] = a, summed(a, row.values) if combine is None else combine(module, row, a)
        shape = inputs["query"].shape[:3]
        gather = [np.stack([found[index][n] for index in np.ndindex(*shape)]) for n in (0, 1)]
        a, c = (g.reshape(*shape, *g.shape[1:]) for g in gather)
        return {"weights": a, "context": c}

    return oracle
