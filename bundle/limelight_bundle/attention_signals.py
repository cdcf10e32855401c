"""Signals of attention: four numbers from 0 to 1 for each head and query of a map, that tell how it looks.

An export keeps their distribution over reference inputs in the bundle; a server compares what it sees with that.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.attention_drift import FEWEST_INPUTS, MOST_INPUTS, fitted_thresholds
from limelight_bundle.maps import MapWeights
from limelight_bundle.rows import Labels
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array

ENTROPY, SPECIAL, LARGEST, DISTANCE = SIGNALS = ("entropy", "special", "largest", "distance")
BINS = 10  # of equal width; a value on a bound belongs to the lower one
_BOUNDS = np.arange(1, BINS) / BINS
_MOST_CELLS = 2**24  # of a map of edges as a dense one


def is_observable(description: model_pb2.MapDescription) -> bool:
    """Return whether signals are defined for a map: its weights are a distribution over keys."""
    return description.normalised and not description.signed and not description.features


def signals(
    weights: MapWeights, description: model_pb2.MapDescription, labels: Mapping[str, Labels]
) -> dict[str, Array]:
    """Compute the signals of one map of one instance. Queries without any weight have none.

    entropy = -Σ w log w ÷ log n, where n is the number of keys with a weight in some head of the query; of queries
    with n > 1. special = Σ w over keys that are special tokens; where the key axis has such labels. largest = max w.
    distance = Σ w |q - k| ÷ (keys - 1), for queries and keys of one axis.

    Args:
        weights: whole map, [head, query, key] or edges.
        labels: label sets that the inputs decide, by name.

    Returns:
        Values FLOAT64 [head and query], by signal.
    """
    dense = _dense(weights, description, labels)
    if dense is None:
        return {}
    queries = dense.sum(axis=(0, 2)) > 0
    dense = dense[:, queries]
    found = {LARGEST: dense.max(axis=2, initial=0.0).ravel()}
    logs = np.log(dense, out=np.zeros_like(dense), where=dense > 0)
    allowed = (dense > 0).any(axis=0).sum(axis=1)
    several = allowed > 1
    entropy = -(dense * logs).sum(axis=2)[:, several]
    found[ENTROPY] = (entropy / np.log(allowed[several])).ravel()
    keys = labels.get(description.key_labels)
    if keys is not None and any(keys.special):
        found[SPECIAL] = dense[:, :, np.asarray(keys.special, dtype=bool)].sum(axis=2).ravel()
    size = dense.shape[2]
    if description.key_labels == description.query_labels and size > 1:
        places = np.arange(size)
        away = np.abs(np.flatnonzero(queries)[:, None] - places) / (size - 1)
        found[DISTANCE] = (dense * away).sum(axis=2).ravel()
    return {name: np.clip(values, 0.0, 1.0) for name, values in found.items() if values.size}


def counts(values: Array) -> Array:
    """Count values in bins: INT64 [BINS]."""
    return np.bincount(np.searchsorted(_BOUNDS, values, side="left"), minlength=BINS)


def references(
    maps: Iterable[model_pb2.MapDescription],
    instances: Iterable[tuple[Mapping[str, MapWeights], Mapping[str, Labels]]],
) -> list[bundle_pb2.AttentionReference]:
    """Count the signals of maps over reference inputs, and fit thresholds; empty for less than `FEWEST_INPUTS`.

    Args:
        instances: weights by map, and label sets by name, of each; those after `MOST_INPUTS` are not taken.
    """
    observable = [each for each in maps if is_observable(each)]
    found: dict[tuple[str, str], dict[int, Array]] = {}
    inputs = 0
    for weights, labels in islice(instances, MOST_INPUTS if observable else 0):
        for each in observable:
            if each.name in weights:
                for signal, values in signals(weights[each.name], each, labels).items():
                    found.setdefault((each.name, signal), {})[inputs] = counts(values)
        inputs += 1
    made = []
    for (name, signal), by_input in found.items() if inputs >= FEWEST_INPUTS else ():
        counted = np.array([by_input.get(place, np.zeros(BINS, dtype=np.int64)) for place in range(inputs)])
        bins, thresholds = counted.sum(axis=0).tolist(), fitted_thresholds(counted)
        made.append(
            bundle_pb2.AttentionReference(map=name, signal=signal, bins=bins, inputs=inputs, thresholds=thresholds)
        )
    return made


def _dense(weights: MapWeights, description: model_pb2.MapDescription, labels: Mapping[str, Labels]) -> Array | None:
    """Give weights as FLOAT64 [head, query, key]; None where edges would take too much memory."""
    values = weights.weights
    if weights.query_index is None or weights.key_index is None:
        return values.astype(np.float64)
    sizes = []
    for index, name in ((weights.query_index, description.query_labels), (weights.key_index, description.key_labels)):
        sizes.append(labels[name].size if name in labels else int(index.max(initial=-1)) + 1)
    if len(values) * sizes[0] * sizes[1] > _MOST_CELLS:
        return None
    dense = np.zeros((len(values), *sizes))
    dense[:, weights.query_index, weights.key_index] = values
    return dense
