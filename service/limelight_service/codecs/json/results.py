"""Typed results as JSON."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from limelight_bundle.values import Array
from limelight_service.frontend.results import (
    Boxes,
    Classes,
    Embedding,
    Numbers,
    Spans,
    Tags,
    TokenVectors,
    TypedResult,
)
from limelight_service.ipc import boundary
from limelight_service.ipc.boundary import FinishReason

_FINISH = {each: f"FINISH_REASON_{each.name}" for each in FinishReason}


def kept(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what has its default. Of lists and plain values, not of arrays."""
    return {name: value for name, value in fields.items() if value}


def singles(values: Sequence[float]) -> list[Any]:
    """Give numbers in single precision, as short as they can be told apart; words for those that are not finite."""
    found: list[Any] = orjson.loads(orjson.dumps(np.array(values, np.float32), option=orjson.OPT_SERIALIZE_NUMPY))
    if None in found:
        return [_word(value) if each is None else each for each, value in zip(found, values, strict=True)]
    return found


def result_json(result: TypedResult, tensor: Callable[[Array], dict[str, Any]]) -> dict[str, Any]:
    """Write a typed result as the field of its kind. tensor: writes an array."""
    match result:
        case Classes():
            classes = zip(result.names, result.indices, singles(result.probabilities), strict=True)
            found = [kept({"label": name, "index": index, "probability": each}) for name, index, each in classes]
            return {"classification": kept({"classes": found})}
        case Tags():
            entries, ends = result.entries or ((), ())
            tagging = {
                "labelSet": result.label_set,
                "classesPerEntry": result.per_entry,
                "labels": result.names,
                "indices": result.indices,
                "probabilities": singles(result.probabilities),
                "selected": result.entries is not None,
                "entries": list(entries),
                "entryEnds": list(ends),
            }
            return {"tagging": kept(tagging)}
        case Embedding():
            return {"embedding": {"vector": tensor(result.vector)}}
        case TokenVectors():
            return {"tokenVectors": {"labelSet": result.label_set, "vectors": tensor(result.vectors)}}
        case Numbers():
            numbers = [
                kept({"name": each.name, "value": _double(each.value), "unit": each.unit}) for each in result.numbers
            ]
            return {"regression": kept({"numbers": numbers})}
        case Spans():
            likely = singles([each.probability for each in result.spans])
            found = [_span(*each) for each in zip(result.spans, likely, strict=True)]
            none = {} if result.none is None else {"noneProbability": singles([result.none])[0]}
            return {"spans": kept({"spans": found}) | none}
        case Boxes():
            boxes = kept({"boxes": [_box(each) for each in result.boxes]})
            return {"boxes": boxes | kept({"labelSet": result.label_set, "relative": result.relative})}
    return {"sequences": kept({"sequences": [sequence_json(each) for each in result.sequences]})}


def sequence_json(sequence: boundary.Sequence) -> dict[str, Any]:
    """Write a sequence."""
    return kept(
        {
            "text": sequence.text,
            "tokenIds": sequence.token_ids,
            "logProbabilities": singles(sequence.log_probabilities),
            "score": singles([sequence.score])[0],
            "finishReason": _FINISH[sequence.finish_reason],
            "forcedTokens": sequence.forced,
            "top": top_json(sequence.top),
        }
    )


def top_json(top: boundary.TopTokens | None) -> dict[str, Any]:
    """Write the most probable tokens of steps; empty where they are not asked for."""
    if top is None:
        return {}
    return {
        "tokensPerStep": top.per_step,
        "tokenIds": top.token_ids,
        "texts": top.texts,
        "logProbabilities": singles(top.log_probabilities),
    }


def _span(span: Any, probability: float) -> dict[str, Any]:
    small = {
        "text": span.text,
        "start": span.start,
        "end": span.end,
        "probability": probability,
        "part": span.part,
    }
    return kept(small) | ({} if span.sentence is None else {"sentence": span.sentence})


def _box(box: Any) -> dict[str, Any]:
    probability, left, top, right, bottom = singles([box.probability, *box.edges])
    return kept(
        {
            "label": box.name,
            "index": box.index,
            "probability": probability,
            "left": left,
            "top": top,
            "right": right,
            "bottom": bottom,
            "query": box.query,
        }
    )


def _double(value: float) -> Any:
    return value if math.isfinite(value) else _word(value)


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
