"""vLLM's paths for models that do not generate: scores of pairs, classes, and whatever else a model gives for a text
(https://docs.vllm.ai/en/latest/models/pooling_models).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import orjson

from limelight_bundle.errors import InputError
from limelight_bundle.values import Array, Pair, Text
from limelight_service.codecs.doors.asking import Answered, Doors, usage
from limelight_service.codecs.doors.beside import BESIDE
from limelight_service.codecs.doors.classes import NUMBER, SCORES, class_result, pair_result, pair_score
from limelight_service.codecs.doors.errors import error_body
from limelight_service.codecs.doors.fields import (
    OPTIONAL_MODEL,
    USER,
    Field,
    Form,
    one_of,
    one_or_more,
    text,
    unused,
    whole,
)
from limelight_service.codecs.doors.methods import predicting
from limelight_service.codecs.doors.rows import MOST_ROWS, Gives, Rows, Value, per_model, takes_texts, text_rows
from limelight_service.codecs.doors.vectors import (
    ENCODING,
    MOST_DIMENSIONS,
    cut_vector,
    tokens_result,
    vector_result,
    written_vector,
)
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.http.methods import HttpMethod, HttpRequest, HttpResponse
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.results import Classes, Embedding, TokenVectors
from limelight_service.frontend.schema import ModelSchema

SERVICE = "vllm"
_LONGEST_NAME = 256
_TINY = 1e-12  # of the length of a vector
_COMMON = (
    OPTIONAL_MODEL,
    USER,
    Field("truncate_prompt_tokens", unused(-1)),  # to what the model takes
    Field("truncation_side", unused("right")),
    Field("padding", unused("do_not_pad")),
    Field("use_activation", unused(True)),
    Field("activation", unused(True)),  # its older name
    Field("request_id", text(longest=_LONGEST_NAME)),
    Field("priority", unused(0)),
    Field("mm_processor_kwargs", unused()),
    Field("cache_salt", text()),
    *BESIDE,
)
_OF_TEXTS = (
    Field("input", text_rows(), is_required=True),
    Field("add_special_tokens", unused(True)),
    Field("messages", unused()),
)
_SIDES = (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2"))
_SCORE = Form(
    *(Field(name, one_or_more(text(), MOST_ROWS)) for name in dict.fromkeys(name for both in _SIDES for name in both)),
    Field("max_tokens_per_query", unused(0)),
    Field("max_tokens_per_doc", unused(0)),
    *_COMMON,
)
_CLASSIFY = Form(*_OF_TEXTS, *_COMMON)
_POOLING = Form(
    *_OF_TEXTS,
    Field("task", one_of("embed", "token_embed", "classify")),
    ENCODING,
    Field("dimensions", whole(1, MOST_DIMENSIONS)),
    Field("embed_dtype", unused("float32")),
    Field("endianness", unused("native", "little")),
    *_COMMON,
)


@per_model
def classes_result(schema: ModelSchema) -> str:
    """Name the result that is the classes of a text; empty where there is none."""
    found = class_result(schema) if takes_texts(schema) else None
    return found.name if found is not None and found.HasField("classes") else ""


@dataclass(frozen=True)
class _Task:
    """What a model does for a text. named: the result, empty for models without. write: it, by the request's fields."""

    what: str
    named: Callable[[ModelSchema], str | None]
    write: Callable[[Any, Mapping[str, Any]], bytes]


def _written_embedding(result: Embedding, given: Mapping[str, Any]) -> bytes:
    return written_vector(cut_vector(result.vector, given["dimensions"]), as_text=given["encoding_format"] == "base64")


def _written_vectors(result: TokenVectors, given: Mapping[str, Any]) -> bytes:
    return written_vector(result.vectors, as_text=given["encoding_format"] == "base64")


def _written_classes(result: Classes, given: Mapping[str, Any]) -> bytes:
    return written_vector(np.asarray(_in_order(result), np.float32), as_text=given["encoding_format"] == "base64")


def _in_order(classes: Classes) -> list[float]:
    """Give probabilities in the model's order of classes."""
    return [each for _, each in sorted(zip(classes.indices, classes.probabilities, strict=True))]


_TASKS = {
    "embed": _Task("gives one vector for a text", vector_result, _written_embedding),
    "token_embed": _Task("gives a vector for each token of a text", tokens_result, _written_vectors),
    "classify": _Task("gives classes of a text", classes_result, _written_classes),
}


def _gives(task: _Task) -> Gives:
    return Gives(task.what, lambda schema: bool(task.named(schema)))


_GIVES = {name: _gives(each) for name, each in _TASKS.items()}
_POOLS = Gives("gives vectors or classes of a text", lambda schema: any(each.of(schema) for each in _GIVES.values()))
_SCORES = Gives(
    "scores a pair of texts, or gives vectors for a text",
    lambda schema: bool(pair_result(schema)) or _GIVES["embed"].of(schema) or _GIVES["token_embed"].of(schema),
)


class VLLM:
    """The methods at these paths. For one event loop."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        score = "Scores pairs of texts, as vLLM does."
        method = partial(predicting, SERVICE, error_body)
        return [
            method("/score", "Score", score, _SCORE, self.score),
            method("/v1/score", "ScoreV1", score, _SCORE, self.score),
            method("/classify", "Classify", "Classifies texts, as vLLM does.", _CLASSIFY, self.classify),
            method("/pooling", "Pooling", "Gives vectors or classes of texts, as vLLM does.", _POOLING, self.pooling),
        ]

    async def score(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Score pairs: by a model of pairs, else by how similar the vectors of both texts are.

        Attention then rides along for each text of the first side, and after them for those of the second.
        """
        doors = self._doors
        given = await doors.read(_SCORE, request, call)
        one, other = _sides(given)
        model = doors.preferred(given["model"], SCORES, _SCORES, call)
        name, size = pair_result(model.schema), len(request.body)
        firsts = repeat(given[one][0], len(given[other])) if len(given[one]) == 1 else given[one]
        values: list[tuple[Value, tuple[str, int]]]
        if name:
            pairs = enumerate(zip(firsts, given[other], strict=True))
            values = [(Pair(first, second), (other, place)) for place, (first, second) in pairs]
            answers = await self._answers(model, values, size, given, partial(pair_score, name=name), call)
            scores = [each.value for each in answers]
        else:
            values = [(Text(each), (side, place)) for side in (one, other) for place, each in enumerate(given[side])]
            read = partial(_vectors, name=vector_result(model.schema) or tokens_result(model.schema))
            answers = await self._answers(model, values, size, given, read, call)
            vectors = [each.value for each in answers]
            compare = partial(_similarities, vectors[: len(given[one])], vectors[len(given[one]) :])
            scores = await doors.core.on_thread(compare, call)
        data = [{"index": place, "object": "score", "score": each} for place, each in enumerate(scores)]
        return await self._response("score", given, model.schema.name, data, answers, call)

    async def classify(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Classify every text. Probabilities are in the model's order of classes."""
        given = await self._doors.read(_CLASSIFY, request, call)
        model = self._doors.model(given["model"], _GIVES["classify"], call)
        read = partial(_classes, name=classes_result(model.schema))
        answers = await self._answers(model, given["input"], len(request.body), given, read, call)
        data = [{"index": place, **each.value} for place, each in enumerate(answers)]
        return await self._response("classify", given, model.schema.name, data, answers, call)

    async def pooling(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Give what a task names for every text; without a task, the first that the model does."""
        given = await self._doors.read(_POOLING, request, call)
        model = self._doors.model(given["model"], _GIVES.get(given["task"], _POOLS), call)
        task = _TASKS[given["task"] or next(name for name, each in _GIVES.items() if each.of(model.schema))]
        if given["dimensions"] is not None and task is not _TASKS["embed"]:
            raise InputError("dimensions", "is of task embed alone; leave it out")
        read = partial(_pooled, task=task, name=task.named(model.schema) or "", given=given)
        answers = await self._answers(model, given["input"], len(request.body), given, read, call)
        data = [
            {"index": place, "object": "pooling", "data": orjson.Fragment(each.value)}
            for place, each in enumerate(answers)
        ]
        return await self._response("pool", given, model.schema.name, data, answers, call)

    async def _answers(
        self, model: Any, values: Any, size: int, given: Mapping[str, Any], read: Any, call: Call
    ) -> Sequence[Answered[Any]]:
        options = CallOptions(outputs=(), truncate=given["truncate_prompt_tokens"] is not None)
        return await self._doors.answers(model, Rows.of(values, size), given, read, call, options)

    async def _response(
        self, kind: str, given: Mapping[str, Any], model: str, data: Any, answers: Sequence[Answered[Any]], call: Call
    ) -> HttpResponse:
        answer = {
            "id": f"{kind}-{given['request_id'] or call.identity}",
            "object": "list",
            "created": int(time.time()),
            "model": given["model"] or model,
            "data": data,
            "usage": usage(answers),
        }
        return await self._doors.response(answer, answers, call)


def _sides(given: Mapping[str, Any]) -> tuple[str, str]:
    """Name the fields of both sides. Raises: InputError for other than two, and for sides that do not fit."""
    there = {name for both in _SIDES for name in both if given[name] is not None}
    found = next((both for both in _SIDES if set(both) == there), None)
    if found is None:
        choices = ", ".join(" and ".join(both) for both in _SIDES)
        raise InputError(min(there, default="text_1"), f"is to be one of two; send one of: {choices}")
    ones, others = (len(given[name]) for name in found)
    if ones not in (1, others):
        raise InputError(found[0], f"has {ones} texts; send one, or {others} as in {found[1]}")
    return found


def _vectors(checked: CheckedCall, prediction: Prediction, *, name: str) -> tuple[Array, int]:
    """Give vectors [token, size] of a text, of length 1; a text with one vector has it in place of those of tokens."""
    result = prediction.results[name]
    assert isinstance(result, Embedding | TokenVectors)
    found = np.asarray(result.vector[np.newaxis] if isinstance(result, Embedding) else result.vectors, np.float64)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), _TINY)
    return found, found.nbytes


def _similarities(ones: Sequence[Array], others: Sequence[Array]) -> list[float]:
    """Sum, over the vectors of one text, the largest cosine with one of the other (MaxSim; Khattab and Zaharia 2020);
    of one vector for each text, the cosine.
    """
    firsts = repeat(ones[0], len(others)) if len(ones) == 1 else ones
    return [float((one @ other.T).max(axis=1).sum()) for one, other in zip(firsts, others, strict=True)]


def _classes(checked: CheckedCall, prediction: Prediction, *, name: str) -> tuple[Mapping[str, Any], int]:
    result = prediction.results[name]
    assert isinstance(result, Classes)
    probabilities = _in_order(result)
    label = result.names[0] or f"LABEL_{result.indices[0]}"
    found = {"label": label, "probs": probabilities, "num_classes": len(probabilities)}
    return found, NUMBER * len(probabilities) + len(label)


def _pooled(
    checked: CheckedCall, prediction: Prediction, *, task: _Task, name: str, given: Mapping[str, Any]
) -> tuple[bytes, int]:
    data = task.write(prediction.results[name], given)
    return data, len(data)
