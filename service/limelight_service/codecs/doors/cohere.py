"""Cohere's API: reranking and embeddings, version 2 and 1 (https://docs.cohere.com/reference)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson

from limelight_bundle.values import Array, Text
from limelight_service.codecs.doors.asking import Doors
from limelight_service.codecs.doors.beside import BESIDE
from limelight_service.codecs.doors.documents import DOCUMENTS, reranked, results
from limelight_service.codecs.doors.fields import OPTIONAL_MODEL, Field, Form, listed, one_of, text, unused, whole
from limelight_service.codecs.doors.methods import predicting
from limelight_service.codecs.doors.ranking import MOST_TEXTS
from limelight_service.codecs.doors.rows import Rows
from limelight_service.codecs.doors.vectors import EMBEDS, MOST_DIMENSIONS, cut_vector, vector_result, written_vector
from limelight_service.codecs.json.numbers import written
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.http.failures import Failure
from limelight_service.frontend.http.methods import HttpMethod, HttpRequest, HttpResponse
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.results import Embedding

SERVICE = "cohere"
_LEVELS = 127  # of int8, to either side


_EMBED = Form(
    OPTIONAL_MODEL,
    Field("texts", listed(text(), MOST_TEXTS), is_required=True),
    Field("input_type", one_of("search_document", "search_query", "classification", "clustering")),
    Field("embedding_types", listed(one_of("float", "int8", "uint8", "binary", "ubinary", "base64"), 6)),
    Field("output_dimension", whole(1, MOST_DIMENSIONS)),
    Field("truncate", one_of("END", "NONE"), "END"),
    Field("images", unused()),
    Field("inputs", unused()),
    Field("max_tokens", unused()),
    Field("priority", unused(0)),
    *BESIDE,
)


class Cohere:
    """The methods of the API. For one event loop."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        rank, embed = "Ranks documents for a query, as Cohere's API does.", "Embeds texts, as Cohere's API does."
        method = partial(predicting, SERVICE, error_body)
        return [
            method("/v2/rerank", "CohereRerank", rank, DOCUMENTS, partial(self._rerank, version="2")),
            method("/v1/rerank", "CohereRerankV1", rank, DOCUMENTS, partial(self._rerank, version="1")),
            method("/v2/embed", "CohereEmbed", embed, _EMBED, partial(self._embed, version="2")),
            method("/v1/embed", "CohereEmbedV1", embed, _EMBED, partial(self._embed, version="1")),
        ]

    async def _rerank(self, request: HttpRequest, call: Call, *, version: str) -> HttpResponse:
        doors = self._doors
        given = await doors.read(DOCUMENTS, request, call)
        scored = await reranked(doors, given, len(request.body), call)
        meta = {"api_version": {"version": version}, "tokens": {"input_tokens": scored.tokens}}
        answer = {"id": call.identity, "results": results(given, scored), "meta": meta}
        return await doors.response(answer, scored.answers, call)

    async def _embed(self, request: HttpRequest, call: Call, *, version: str) -> HttpResponse:
        """Embed every text; version 1 gives lists of numbers alone where no types are named."""
        doors = self._doors
        given = await doors.read(_EMBED, request, call)
        model = doors.model(given["model"], EMBEDS, call)
        rows = Rows.of([(Text(each), ("texts", place)) for place, each in enumerate(given["texts"])], len(request.body))
        types = list(dict.fromkeys(given["embedding_types"] or ["float"]))
        name = vector_result(model.schema) or ""
        read = partial(_embedding, name=name, types=types, dimensions=given["output_dimension"])
        options = CallOptions(outputs=(), truncate=given["truncate"] == "END")
        answers = await doors.answers(model, rows, given, read, call, options)
        by_type = {name: [orjson.Fragment(each.value[name]) for each in answers] for name in types}
        is_plain = version == "1" and given["embedding_types"] is None
        tokens = {"input_tokens": sum([each.tokens for each in answers])}
        answer = {
            "id": call.identity,
            "embeddings": by_type["float"] if is_plain else by_type,
            "texts": given["texts"],
            "meta": {"api_version": {"version": version}, "billed_units": tokens},
            "response_type": "embeddings_floats" if is_plain else "embeddings_by_type",
        }
        return await doors.response(answer, answers, call)


def _embedding(
    checked: CheckedCall, prediction: Prediction, *, name: str, types: Sequence[str], dimensions: int | None
) -> tuple[dict[str, bytes], int]:
    """Write a vector in each of some types."""
    result = prediction.results[name]
    assert isinstance(result, Embedding)
    vector = cut_vector(result.vector, dimensions, "output_dimension")
    found = {each: _written(vector, each) for each in types}
    return found, sum(map(len, found.values()))


def _written(vector: Array, kind: str) -> bytes:
    """Write a vector in one type.

    int8 has the vector times the number that makes its largest element 127 or -127: cosines stay, lengths do not. uint8
    is int8 + 128. binary and ubinary have a bit for each element, set above 0, in bytes with the first bit highest;
    binary is ubinary - 128.
    """
    match kind:
        case "float" | "base64":
            return written_vector(vector, as_text=kind == "base64")
        case "int8" | "uint8":
            largest = float(np.abs(vector).max()) or 1.0
            scaled = np.rint(np.asarray(vector, np.float64) * (_LEVELS / largest)).astype(np.int64)
            return written(scaled + (128 if kind == "uint8" else 0))
    bits = np.packbits(vector > 0).astype(np.int64)
    return written(bits - (128 if kind == "binary" else 0))


def error_body(failure: Failure) -> Any:
    """Give the JSON of an error as Cohere tells errors."""
    return {"message": failure.message}
