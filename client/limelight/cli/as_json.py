"""JSON form of answers. It is a public interface: releases add fields and never rename them."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limelight.attended import Attended
from limelight.descriptions import Model, ModelStatus
from limelight.events import GeneratedToken, GenerationEnd, GenerationEvent, GenerationStart
from limelight.labels import LabelSet
from limelight.maps import AttentionMap
from limelight.predictions import GeneratedSequence, Prediction, Result, Sequences
from limelight.saving import SavedMap
from limelight.streams import StreamStart

# Fields with bytes, which JSON cannot represent.
_HIDDEN = {"examples"}


def write(document: Any) -> None:
    """Print a JSON document on one line; characters outside the output's encoding are escaped."""
    whole = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    # Lone surrogates, from file names, are printed as JSON escapes.
    print(json.dumps(document, ensure_ascii=not whole, allow_nan=True), flush=True)


def plain(value: Any) -> Any:
    """Convert dataclasses, mappings, tuples and arrays to JSON types."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value) if field.name not in _HIDDEN}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def models(statuses: list[ModelStatus]) -> dict[str, Any]:
    """Return `{"models": [...]}`."""
    return {"models": plain(statuses)}


def model(description: Model) -> dict[str, Any]:
    """Return a model's description, with the number of its examples in place of the examples."""
    return {**plain(description), "examples": len(description.examples)}


def prediction(answer: Prediction) -> dict[str, Any]:
    """Return a prediction: results by name, and the first label and text (null for a model without)."""
    return {
        "label": answer.label,
        "probability": answer.probability,
        "text": answer.text,
        "results": {name: result(each) for name, each in answer.results.items()},
        "label_sets": {name: label_set(each) for name, each in answer.label_sets.items()},
        "outputs": plain(answer.outputs),
        "truncated": answer.truncated,
        "seed": answer.seed,
        "provenance": plain(answer.provenance),
    }


def result(each: Result) -> dict[str, Any]:
    """Return a result: `kind` and its content."""
    document = {"kind": type(each).__name__.lower(), **plain(each)}
    if isinstance(each, Sequences):
        document["sequences"] = sequences(each.sequences)
    return document


def sequences(each: Sequence[GeneratedSequence]) -> list[dict[str, Any]]:
    """Return generated sequences with their probabilities."""
    return [{**plain(one), "probability": one.probability} for one in each]


def attended(answer: Attended) -> dict[str, Any]:
    """Return `{"prediction": ..., "maps": [...], "other_sequences": [...]}`."""
    others = [
        {
            "sequence": other.sequence,
            # Label sets shared with the best sequence are in the prediction.
            "label_sets": {
                name: label_set(each)
                for name, each in other.label_sets.items()
                if each is not answer.label_sets.get(name)
            },
            "maps": [attention_map(each) for each in other.maps],
        }
        for other in answer.other_sequences
    ]
    return {
        "prediction": prediction(answer.prediction),
        "maps": [attention_map(each) for each in answer.maps],
        "other_sequences": others,
    }


def label_set(labels: LabelSet) -> dict[str, Any]:
    """Return a label set as columns; columns that do not apply are null."""
    return {
        "kind": labels.kind,
        "labels": list(labels.labels),
        "offsets": plain(labels.offsets) or None,
        "ids": labels.ids.tolist() or None,
        "special": labels.special.tolist(),
        "parents": labels.parents.tolist() or None,
        "parent": labels.parent or None,
        "inputs": list(labels.origins) or None,
        "words": labels.words.tolist() or None,
        "grid": plain(labels.grid),
    }


def attention_map(each: AttentionMap) -> dict[str, Any]:
    """Return a map: `weights` nested by `axes`. Indices refer to the whole label sets."""
    edges, key_index = None, None
    if each.edges is not None:
        edges = {
            "query_index": _whole_indices(each.edges.query_index, each.query),
            "key_index": _whole_indices(each.edges.key_index, each.key),
        }
    if each.key_index is not None:
        key_index = _whole_indices(each.key_index, each.key)
    return {
        "name": each.name,
        "stack": each.stack,
        "layer": each.layer,
        "kind": each.kind,
        "quantity": each.quantity,
        "normalised": each.normalised,
        "signed": each.signed,
        "query": each.query.name,
        "key": each.key.name,
        "head_labels": each.head_labels.name if each.head_labels else None,
        "feature_labels": each.feature_labels.name if each.feature_labels else None,
        "heads": list(each.heads),
        "head_reduction": each.head_reduction,
        "queries": plain(each.query.indices),
        "keys": plain(each.key.indices),
        "axes": list(each.axes),
        "shape": list(each.weights.shape),
        "edges": edges,
        "key_index": key_index,
        "weights": each.weights.tolist(),
        "left_out": plain(each.left_out),
    }


def _whole_indices(positions: NDArray[np.int64], labels: LabelSet) -> Any:
    """Convert positions along an axis to indices into its whole label set; negative positions stay."""
    if labels.indices is None:
        return positions.tolist()
    return np.where(positions < 0, positions, np.asarray(labels.indices, np.int64)[positions]).tolist()


def saved(each: StreamStart | SavedMap) -> dict[str, Any]:
    """Return one line of a stream saved to files: `{"prediction": ...}`, then each map with its `file`."""
    if isinstance(each, StreamStart):
        return {"prediction": prediction(each.prediction)}
    described = each.map
    return {
        "name": described.name,
        "stack": described.stack,
        "layer": described.layer,
        "kind": described.kind,
        "query": described.query.name,
        "key": described.key.name,
        "heads": list(described.heads),
        "queries": plain(described.query.indices),
        "keys": plain(described.key.indices),
        "shape": list(described.shape),
        "file": str(each.file),
    }


def event(each: GenerationEvent) -> dict[str, Any]:
    """Return an event of a generation: `{"event": "start" | "token" | "end", ...}`."""
    match each:
        case GenerationStart():
            sets = {name: label_set(labels) for name, labels in each.label_sets.items()}
            return {"event": "start", "truncated": each.truncated, "seed": each.seed, "label_sets": sets}
        case GeneratedToken():
            maps = [attention_map(map_) for map_ in each.maps]
            token = {"index": each.index, "id": each.id, "text": each.text, "delta": each.delta}
            return {"event": "token", **token, "log_probability": each.log_probability, "maps": maps}
        case GenerationEnd():
            return {
                "event": "end",
                "text": each.text,
                "probability": each.probability,
                "sequences": sequences(each.sequences),
                "output_steps": label_set(each.output_steps) if each.output_steps else None,
                "maps": [attention_map(map_) for map_ in each.maps],
                "provenance": plain(each.provenance),
            }
