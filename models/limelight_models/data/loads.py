"""Signals on the nodes of graphs, whose next steps are to be forecast: of an archive, and made-up loads of roads.

Of the made-up ones each example is a network of its own. A station's load is half of its own a step ago and nearly half
of the fullest station's from which a road leads to it, whichever that is then; now and then some comes from elsewhere.
Who takes all neighbours alike forecasts a jam too small.
"""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np

from limelight_bundle.values import Array, Graph
from limelight_models.data.archives import arrays
from limelight_models.data.dataset import DataError, Dataset, Example

HISTORY, HORIZON = 8, 4  # steps
_BEFORE = 12  # steps after which a network is like any other moment
_SHOWN = 3


def dataset(*, seed: int = 0, training: int = 300, held_out: int = 60) -> Dataset:
    """Make networks of 8 to 14 stations with their loads, in vehicles a minute."""
    chance = random.Random(f"loads/{seed}")
    examples = [_example(chance) for _ in range(training + 2 * held_out)]
    test = examples[training + held_out :]
    return Dataset(
        name="Made-up loads of roads",
        licence="none: generated",
        summary=f"Loads of stations of small networks of roads, generated from seed {seed}.",
        train=tuple(examples[:training]),
        dev=tuple(examples[training : training + held_out]),
        test=tuple(test),
        shown=tuple(each.instance for each in test[:_SHOWN]),
    )


def _example(chance: random.Random) -> Example:
    count = chance.randint(8, 14)
    before = [chance.sample([other for other in range(count) if other != each], 3) for each in range(count)]
    loads = [[10.0] * count]
    for _ in range(_BEFORE + HISTORY + HORIZON):
        last = loads[-1]
        fullest = [max(last[other] for other in others) for others in before]
        new = [chance.uniform(10, 40) if chance.random() < 0.02 else 0.0 for _ in range(count)]
        loads.append([0.5 * own + 0.45 * most + more for own, most, more in zip(last, fullest, new, strict=True)])
    edges = np.array([(source, target) for target, others in enumerate(before) for source in sorted(others)], np.int64)
    names = tuple(f"station {number}" for number in range(count))
    return _window(np.array(loads, np.float32)[-HISTORY - HORIZON :], edges.T.copy(), names, HISTORY)


def _window(series: Array, edges: Array, names: tuple[str, ...], history: int) -> Example:
    """The first steps of a series [step, node] as what is sent, the others as what is to be forecast."""
    sent = np.ascontiguousarray(series[:history].T)
    return Example(
        {"graph": Graph(sent, edges, None, names)}, numbers=np.ascontiguousarray(series[history:].T, np.float32)
    )


def read(path: Path, *, name: str = "", licence: str = "") -> Dataset:
    """Read a series on one graph from an .npz archive, without pickles: windows of its first seven tenths to learn
    from, of the next to choose by, of the last two held out.

    series: numbers [step, node]; edge_index: int [2, edge], the source and the target of each; steps: how many are
    sent and how many forecast, 12 and 12 where it is not there; node_names where there are any.
    Raises: DataError naming the file, and the array that is missing or does not fit.
    """
    found = arrays(path)
    try:
        series, edges = np.asarray(found["series"], np.float32), np.asarray(found["edge_index"])
        history, horizon = (int(each) for each in found.get("steps", np.array([12, 12])))
    except (KeyError, ValueError) as error:
        raise DataError(f"{path}: has no arrays series, edge_index and steps as they should be ({error})") from error
    if series.ndim != 2 or not np.isfinite(series).all() or min(history, horizon) < 1:
        raise DataError(f"{path}: series has shape {list(series.shape)}; finite numbers [step, node] are wanted")
    count, nodes = series.shape
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind != "i" or not ((edges >= 0) & (edges < nodes)).all():
        raise DataError(f"{path}: edge_index is not [2, edge] of nodes from 0 to {nodes - 1}")
    names = tuple(map(str, found.get("node_names", np.array([f"node {number}" for number in range(nodes)]))))
    if len(names) != nodes:
        raise DataError(f"{path}: node_names has {len(names)} entries for {nodes} nodes")
    ends = [0, count * 7 // 10, count * 8 // 10, count]
    parts = [
        tuple(
            _window(series[first : first + history + horizon], np.ascontiguousarray(edges, np.int64), names, history)
            for first in range(begin, end - history - horizon + 1)
        )
        for begin, end in pairwise(ends)
    ]
    if not all(parts):
        raise DataError(f"{path}: a tenth of {count} steps holds no window of {history} and {horizon} steps")
    train, dev, test = parts
    return Dataset(
        name=name or path.resolve().name.split(".")[0],
        licence=licence or "not stated",
        summary=f"A series of {count} steps on one graph, cut into windows; the last fifth is held out.",
        train=train,
        dev=dev,
        test=test,
    )
