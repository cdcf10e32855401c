"""The data folder of HeadVis, a static viewer of attention heads (Luger, Kamath et al. 2026).

The viewer shows the heads of a model by their figures over many texts, and each head in texts of every strength. The
format is that of its `data_pipeline.py`; layers are the maps of self-attention, in their order.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from limelight.attended import Attended
from limelight.base.errors import Error, InputError, Internal
from limelight.descriptions import MapInfo, Model
from limelight.files import write_file
from limelight.maps import AttentionMap
from limelight.v1 import values_pb2

Floats = npt.NDArray[np.float64]
Asking = Callable[[Iterable[values_pb2.Instance], Sequence[str]], Iterable[Attended | Error]]
"""Gives the answers to instances, in order, with maps of these names: `attend_many`."""

METRICS = {
    "self_attention_score": "Mean weight of a token on itself.",
    "previous_token_score": "Mean weight of a token on the one before it.",
    "pattern_entropy": "Mean entropy of the weights of a token, in nats.",
    "qk_distance": "Mean distance between a token and where its weight is, in tokens.",
    "qk_distance_variance": "Variance of that distance.",
    "induction_score": "Mean weight on what followed an earlier occurrence of the same token.",
}
_INTERVALS = 10
_SAMPLES, _TOP_SAMPLES = 3, 10  # texts of an interval, and of the one with the largest weights
_KEYS, _LEAST = 8, 0.005  # weights that are kept of a token, and the least of them
_DISTANCES = (0, *(2**power for power in range(14)))
_BINS = 50
_TOKENS = 50


@dataclass
class _Head:
    """Sums of a head over texts. Weights are counted by tokens; the strength of a text is its largest weight."""

    sums: Floats = field(default_factory=lambda: np.zeros(6))
    counts: Floats = field(default_factory=lambda: np.zeros(6))
    strengths: dict[int, float] = field(default_factory=dict)
    texts: list[dict[str, Any]] = field(default_factory=list)


def self_attention(model: Model) -> list[MapInfo]:
    """The maps that HeadVis can show: weights of tokens over the same tokens, which sum to 1."""
    return [
        each
        for each in model.maps
        if each.query == each.key and each.form == "dense" and each.normalised and not each.features
    ]


def write(folder: Path, model: Model, instances: Sequence[values_pb2.Instance], ask: Asking) -> list[Error]:
    """Write the folder; the server is asked for every text once, and again for those that are shown.

    Returns: the errors of instances that could not be answered.
    Raises:
        InputError: the model has no map of self-attention, or no instance could be answered.
        OSError: a file cannot be written.
    """
    layers = self_attention(model)
    if not layers:
        raise InputError(f"{model.name} has no map of tokens over themselves, which is what HeadVis shows")
    names = [each.name for each in layers]
    heads: dict[tuple[int, int], _Head] = {}
    failed: list[Error] = []
    for number, answer in enumerate(ask(instances, names)):
        if isinstance(answer, Error):
            failed.append(answer)
            continue
        for layer, name in enumerate(names):
            _check(answer, name, layers[layer].heads)
            _count(answer[name], number, [heads.setdefault((layer, head), _Head()) for head in answer[name].heads])
    if len(failed) == len(instances):
        raise InputError("no instance could be answered" + (f": {failed[0].message}" if failed else ""))
    chosen = {key: _chosen(head.strengths) for key, head in heads.items()}
    again = sorted({number for each in chosen.values() for number in each})
    for number, answer in zip(again, ask([instances[number] for number in again], names), strict=True):
        for (layer, head), intervals in chosen.items():
            if number in intervals and isinstance(answer, Attended):
                _check(answer, names[layer], layers[layer].heads)
                text = _text(answer[names[layer]], head)
                strength = round(heads[layer, head].strengths[number], 4)
                told = {"sequence_id": number, "interval": intervals[number], "max_activation": strength}
                heads[layer, head].texts.append(told | text)
    _write(folder, model, heads)
    return failed


def _check(answer: Attended, name: str, heads: int) -> None:
    """Check that an answer has a whole map of a number of heads. Raises Internal."""
    found = answer.get(name)
    if found is None or found.weights.ndim != 3 or found.edges is not None or found.heads != tuple(range(heads)):
        raise Internal(f"the server's answer has not the {heads} heads of {name!r}")


def _count(found: AttentionMap, number: int, heads: Sequence[_Head]) -> None:
    """Add a text to the sums of the heads of one map [head, query, key]."""
    weights = found.weights.astype(np.float64)
    size = weights.shape[-1]
    places = np.arange(size)
    distance = np.abs(places[:, np.newaxis] - places)
    tokens = np.array(found.key.labels)
    same = (tokens[:, np.newaxis] == tokens) & (places[:, np.newaxis] > places)  # [query, earlier]
    follows = np.zeros_like(same)
    follows[:, 1:] = same[:, :-1]
    repeats = np.count_nonzero(same.any(1))
    parts = (
        (np.einsum("hqq->h", weights), size),
        (np.einsum("hqq->h", weights[:, 1:, :-1]), size - 1),
        (-np.sum(weights * np.log(np.where(weights > 0, weights, 1)), (1, 2)), size),
        (np.sum(weights * distance, (1, 2)), size),
        (np.sum(weights * distance**2, (1, 2)), size),
        (np.sum(weights * follows, (1, 2)), repeats),
    )
    inner = weights[:, 1:, 1:]  # the viewer leaves the first token out as well
    strengths = inner.max((1, 2)) if inner.size else np.zeros(len(weights))
    for place, head in enumerate(heads):
        head.sums += [float(each[place]) for each, _ in parts]
        head.counts += [count for _, count in parts]
        head.strengths[number] = float(strengths[place])


def _chosen(strengths: Mapping[int, float]) -> dict[int, int]:
    """Choose texts of each interval of strengths, evenly; of the last the strongest. Returns text -> interval."""
    ordered = sorted(strengths, key=lambda number: strengths[number])
    chosen: dict[int, int] = {}
    for interval, part in enumerate(np.array_split(np.array(ordered), _INTERVALS), 1):
        is_last = interval == _INTERVALS
        few = part[-_TOP_SAMPLES:] if is_last else part[np.unique(np.linspace(0, len(part) - 1, _SAMPLES).astype(int))]
        chosen |= {int(number): interval for number in (few if len(part) else ())}
    return chosen


def _text(found: AttentionMap, head: int) -> dict[str, Any]:
    """A text with the largest weights of each token, as flat places query * size + key."""
    weights = found.weights[head].astype(np.float64)
    size = weights.shape[-1]
    largest = np.sort(np.argsort(-weights, axis=1, kind="stable")[:, :_KEYS], axis=1)
    values = np.take_along_axis(weights, largest, 1)
    flat = np.arange(size)[:, np.newaxis] * size + largest
    kept = values >= _LEAST
    return {
        "tokens": list(found.key.labels),
        "attention_indices": flat[kept].tolist(),
        "attention_values": np.round(values[kept], 4).tolist(),
        "seq_len": size,
    }


def _write(folder: Path, model: Model, heads: Mapping[tuple[int, int], _Head]) -> None:
    rows = []
    for (layer, number), head in heads.items():
        means = head.sums / np.maximum(head.counts, 1)
        means[4] -= means[3] ** 2
        rows.append({"layer": layer, "head": number, **dict(zip(METRICS, np.round(means, 4).tolist(), strict=True))})
        strengths = list(head.strengths.values())
        counts, edges = np.histogram(strengths, _BINS, (0, 1))
        _json(
            folder / "heads" / f"L{layer}H{number}.json",
            {
                "sequences": head.texts,
                "qk_distance_histogram": _distances(head.texts),
                "top_query_tokens": _tokens(head.texts, lambda flat, size: flat // size),
                "top_key_tokens": _tokens(head.texts, lambda flat, size: flat % size),
                "histogram": {"bin_edges": np.round(edges, 2).tolist(), "bin_values": counts.tolist()},
                "statistics": {"n_samples": len(strengths), "mean_max_activation": round(float(np.mean(strengths)), 4)},
            },
        )
    _json(folder / "scatter_data.json", rows)
    _json(folder / "server_config.json", {})  # there is no server: the viewer reads files alone
    _json(folder / "attributions" / "manifest.json", {})
    tables = {"top_query_tokens": "Top query tokens", "top_key_tokens": "Top key tokens"}
    config = {
        "model_name": model.name,
        "heads": [list(key) for key in heads],
        "n_layers": 1 + max(layer for layer, _ in heads),
        "n_heads": 1 + max(number for _, number in heads),
        "n_intervals": _INTERVALS,
        "metrics": list(METRICS),
        "metric_descriptions": METRICS,
        "head_data_pattern": "L{layer}H{head}.json",
        "has_umap": False,
        "umap_heads": [],
        "custom_plots": [{"key": "qk_distance_histogram", "label": "Distance"}],
        "custom_tables": [{"key": key, "label": label} for key, label in tables.items()],
        "statistics_display": {"mean_max_activation": {"label": "Mean largest weight", "format": "default"}},
    }
    _json(folder / "config.json", config)


def _distances(texts: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The weight at each distance."""
    far = [
        abs(flat // text["seq_len"] - flat % text["seq_len"]) for text in texts for flat in text["attention_indices"]
    ]
    weights = [value for text in texts for value in text["attention_values"]]
    values, edges = np.histogram(far, _DISTANCES, weights=weights)
    return {"bin_edges": edges.tolist(), "bin_values": np.round(values, 4).tolist()}


def _tokens(texts: Sequence[Mapping[str, Any]], place: Callable[[int, int], int]) -> list[dict[str, Any]]:
    """The tokens with the largest share of the weight."""
    sums: dict[str, float] = {}
    for text in texts:
        for flat, value in zip(text["attention_indices"], text["attention_values"], strict=True):
            token = text["tokens"][place(flat, text["seq_len"])]
            sums[token] = sums.get(token, 0.0) + value
    total = sum(sums.values()) or 1.0
    largest = sorted(sums.items(), key=lambda each: -each[1])[:_TOKENS]
    return [{"token": token, "weight": round(value / total, 4)} for token, value in largest]


def _json(file: Path, content: object) -> None:
    write_file(file, json.dumps(content, ensure_ascii=False))
