"""Oracles of the alignments over the scaled dot score, by the mechanism's name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracles import alignments as al
from tests.oracles import scores
from tests.oracles.cases import Array, Oracle, Row, additive_parameters, array, by_row, rows, summed


def over_scaled_dot(weights: Callable[[Any, Row, Array], Array]) -> Oracle:
    """weights(alignment, row, scores)."""
    return by_row(lambda m, r: weights(m.align, r, np.array([scores.scaled_dot(r.query, k) for k in r.keys])))


def sampler(s: Any) -> tuple[Array, Array, Array, float]:
    """W, b, w and b' of a selector."""
    return array(s.hidden.weight), array(s.hidden.bias), array(s.odds.weight)[0], float(array(s.odds.bias)[0])


def reinforced(a: Any, r: Row, e: Array) -> Array:
    """Keys are drawn by their sampler; a query that its own sampler does not keep gets nothing."""
    keep = [r.first["noise"][j] < al.selector(r.keys, r.valid, j, *sampler(a.selector)) for j in range(len(e))]
    if a.query_selector is not None:
        kept = r.inputs["query_noise"] < al.selector(r.queries, r.asking, r.at, *sampler(a.query_selector))
        keep = [k and bool(kept) for k in keep]
    return al.softmax(e, r.allowed & np.array(keep))


def positional(a: Any, r: Row, e: Array) -> Array:
    """Every key but the one of the query's own place."""
    seen = np.array([j != r.at for j in range(len(e))])
    return al.softmax(e, r.allowed & seen)


def gaussian_grid(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Three filters a query, one below the other."""
    layer, found = module.align.parameters_of, {}
    for index, r in rows(inputs):
        centre, log_variance, log_stride = array(layer.weight) @ r.query + array(layer.bias)
        grid = al.gaussian_grid(len(r.keys), r.allowed, 3, centre, log_variance, log_stride)
        found[index] = grid, np.stack([summed(a, r.values) for a in grid])
    batch, heads, queries = inputs["query"].shape[:3]
    stacked = [
        np.stack([
            np.stack([np.concatenate([found[b, h, i][n] for i in range(queries)]) for h in range(heads)])
            for b in range(batch)
        ])
        for n in (0, 1)
    ]  # fmt: skip
    return {"weights": stacked[0], "context": stacked[1]}


def picture_grid(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Three times three points a query, over the cells of the rows that are there."""
    layer, weights, contexts = module.align.parameters_of, [], []
    for asking, cells, there in zip(inputs["query"], inputs["cells"], inputs["mask"], strict=True):
        keys, allowed = cells.reshape(-1, cells.shape[-1]), np.repeat(there, cells.shape[1])
        grids = []
        for query in asking.reshape(-1, asking.shape[-1]):
            *centre, log_variance, log_stride = array(layer.weight) @ query + array(layer.bias)
            grids.append(al.picture_grid(cells.shape[1], allowed, 3, np.array(centre), log_variance, log_stride))
        rows_of_all = np.array(grids).reshape(len(asking), -1, len(keys))
        weights.append(rows_of_all)
        contexts.append([[summed(a, keys) for a in of_head] for of_head in rows_of_all])
    return {"weights": np.array(weights), "context": np.array(contexts)}


def energy(m: Any, r: Row) -> Array:
    """The monotonic alignment over the energy of its paper, whose offset is the alignment's."""
    parts, length = additive_parameters(m.score, r.head), float(array(m.score.length, r.head).item())
    e = np.array([scores.normalised_additive(r.query, k, *parts, length) for k in r.keys])
    return monotonic(m.align, r, e)


def monotonic(a: Any, r: Row, e: Array) -> Array:
    """The energy has an offset of its own."""
    offset = float(array(a.offset, r.head).item())
    return al.monotonic(e + offset, r.allowed, r.inputs["previous_weights"], r.inputs["noise"])


def chunkwise(a: Any, r: Row, e: Array) -> Array:
    """The chunk's energy is another score, without the offset."""
    energy = np.array([scores.additive(r.query, k, *additive_parameters(a.chunk, r.head)) for k in r.keys])
    return al.chunkwise(monotonic(a, r, e), energy, r.allowed, 2)


def temperature(a: Any, r: Row, e: Array) -> Array:
    found = array(a.found.weight)[0], r.inputs["previous_context"]
    return al.temperature(e, r.allowed, r.query, array(a.exponent.weight)[0], *found, 4.0)


def entmax(a: Any, r: Row, e: Array) -> Array:
    return al.entmax(e, r.allowed, 1 + al.sigmoid(float(array(a.weight, r.head).item())))


def span(a: Any, r: Row, e: Array) -> Array:
    return al.adaptive_span(e, r.allowed, r.at, 4 * min(max(float(array(a.share, r.head).item()), 0.0), 1.0), 2)


def predictive(a: Any, r: Row, e: Array) -> Array:
    return al.local_predictive(e, r.allowed, r.query, array(a.hidden.weight), array(a.position.weight)[0], 2)


def kernel_ratio(m: Any, r: Row) -> Array:
    directions = array(m.score.directions)
    return al.ratio(np.array([scores.positive_random_features(r.query, k, directions) for k in r.keys]), r.allowed)


def kernel_weights(m: Any, r: Row) -> Array:
    h = len(r.query) ** 0.25
    return np.array([scores.gaussian_kernel(r.query, k, h) for k in r.keys]) * r.allowed


ALIGN_ORACLES: dict[str, Oracle] = {
    "soft (global)": over_scaled_dot(lambda a, r, e: al.softmax(e, r.allowed)),
    "sigmoid": over_scaled_dot(lambda a, r, e: al.sigmoids(e, r.allowed)),
    "hard": over_scaled_dot(lambda a, r, e: al.hard(e, r.allowed, r.inputs["noise"])),
    "local, monotonic": over_scaled_dot(lambda a, r, e: al.local_monotonic(e, r.allowed, r.at, 2)),
    "local, predictive": over_scaled_dot(predictive),
    "reinforced": over_scaled_dot(reinforced),
    "reinforced, queries and keys": over_scaled_dot(reinforced),
    "sparsemax": over_scaled_dot(lambda a, r, e: al.entmax(e, r.allowed, 2.0)),
    "1.5-entmax": over_scaled_dot(lambda a, r, e: al.entmax(e, r.allowed, 1.5)),
    "α-entmax": over_scaled_dot(entmax),
    "positional mask": over_scaled_dot(positional),
    "selective grid of Gaussians": gaussian_grid,
    "selective grid of Gaussians, of a picture": picture_grid,
    "self-adaptive temperature": over_scaled_dot(temperature),
    "compositional de-attention": over_scaled_dot(lambda a, r, e: al.de_attention(e, r.allowed, r.query, r.keys)),
    "constrained softmax": over_scaled_dot(
        lambda a, r, e: al.constrained_softmax(e, r.allowed, r.inputs["upper_bounds"])
    ),
    "constrained sparsemax": over_scaled_dot(
        lambda a, r, e: al.constrained_sparsemax(e, r.allowed, r.inputs["upper_bounds"])
    ),
    "adaptive span": over_scaled_dot(span),
    "hard monotonic": over_scaled_dot(monotonic),
    "hard monotonic, normalised energy": by_row(energy),
    "monotonic chunkwise": over_scaled_dot(chunkwise),
    "distance-aware": over_scaled_dot(lambda a, r, e: al.distance_aware(e, r.allowed, r.inputs["distances"], 4)),
    "kernel ratio": by_row(kernel_ratio),
    "softmax-free kernel": by_row(kernel_weights),
}
