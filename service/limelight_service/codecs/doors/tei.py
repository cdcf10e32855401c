"""Text Embeddings Inference: its HTTP API (https://huggingface.github.io/text-embeddings-inference).

A server of it has one model. Here every path also is there below `/models/NAME`, a request may have the field `model`,
and without either the only model that fits answers.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import orjson

from limelight_bundle.errors import InputError
from limelight_bundle.values import Array, Pair, Text
from limelight_service.attention.hidden import HiddenOptions
from limelight_service.codecs.doors.asking import Answered, Doors, usage
from limelight_service.codecs.doors.classes import (
    CLASSIFIES,
    CLASSIFIES_PAIRS,
    CLASSIFIES_TEXTS,
    Scoring,
    class_result,
)
from limelight_service.codecs.doors.documents import DOCUMENTS, reranked, results
from limelight_service.codecs.doors.fields import OPTIONAL_MODEL, Form
from limelight_service.codecs.doors.ranking import MOST_TEXTS, Ranking, Scored
from limelight_service.codecs.doors.rows import Gives, Rows, takes_texts
from limelight_service.codecs.doors.tei_models import described, tokens
from limelight_service.codecs.doors.tei_requests import (
    DECODE,
    EMBED,
    EMBED_ALL,
    PREDICT,
    RERANK,
    ROOT,
    SIMILARITY,
    TOKENIZE,
    Either,
)
from limelight_service.codecs.doors.vectors import EMBEDS, cut_vector, tokens_result, vector_result, written_vector
from limelight_service.codecs.json.numbers import shown, written
from limelight_service.errors import WrongModelError
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.http.failures import Failure
from limelight_service.frontend.http.methods import HttpMethod, HttpRequest, HttpResponse, UnaryHttp
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.results import Embedding, TokenVectors

SERVICE = "tei"
_OF_MODEL = "/models/{name:name}"
Handle = Callable[[HttpRequest, Call], Awaitable[HttpResponse]]
_UNIT = 1e-5  # what the length of a vector of length 1 may differ by, in float32
_STAGES = {"x-tokenization-time": "preprocess", "x-queue-time": "queue", "x-inference-time": "compute"}
_SPARSE = "/embed_sparse is not there: no model gives sparse vectors; /embed gives dense ones"
_RERANK_EITHER = Either(RERANK, DOCUMENTS, choose=lambda value: DOCUMENTS if "documents" in value else RERANK)
_EMBEDS_TOKENS = Gives(
    "embeds texts and puts out vectors of their tokens",
    lambda schema: bool(tokens_result(schema)) or (EMBEDS.of(schema) and bool(schema.hidden)),
)
_READS_TEXTS = Gives("reads one text", takes_texts)
_HAS_TOKENS = Gives("reads texts", lambda schema: schema.preprocessor.has_texts)
_ANYTHING = Gives("is there", lambda schema: True)
_ANSWERS = Gives("embeds or classifies", lambda schema: EMBEDS.of(schema) or CLASSIFIES.of(schema))


class Tei:
    """The methods of the API. For one event loop."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        sparse = "Refuses sparse vectors, which no model gives"
        ranks = "Ranks texts, or documents in the form of Cohere, Jina and vLLM"
        posts: list[tuple[str, str, str, Form, Handle]] = [
            ("/embed", "TeiEmbed", "Embeds texts", EMBED, self.embed),
            ("/embed_all", "TeiEmbedAll", "Embeds every token of texts", EMBED_ALL, self.embed_all),
            ("/embed_sparse", "TeiEmbedSparse", sparse, EMBED_ALL, self.embed_sparse),
            ("/predict", "TeiPredict", "Classifies texts or pairs of texts", PREDICT, self.predict),
            ("/rerank", "TeiRerank", ranks, _RERANK_EITHER, self.rerank),
            ("/similarity", "TeiSimilarity", "Compares sentences with one", SIMILARITY, self.similarity),
            ("/tokenize", "TeiTokenize", "Cuts texts into tokens", TOKENIZE, self.tokenize),
            ("/decode", "TeiDecode", "Writes tokens as text", DECODE, self.decode),
        ]
        root = "Embeds, ranks, compares or classifies, by the fields and by the model"
        found: list[HttpMethod] = []
        for prefix in ("", _OF_MODEL):
            found += [
                *(
                    _method("POST", prefix + path, name, words, form, handle)
                    for path, name, words, form, handle in posts
                ),
                _method("POST", prefix or "/", "TeiRoot", root, ROOT, self.root),
                _method("GET", f"{prefix}/info", "TeiInfo", "Describes a model", None, self.info),
            ]
        return found

    async def _read(self, form: Form, request: HttpRequest, call: Call) -> dict[str, Any]:
        """Read a request, with the model that its path names. Raises: InputError naming the field."""
        given = await self._doors.read(form, request, call)
        named = request.names.get("name")
        if named is None:
            return given
        if given.get("model") not in (None, named):
            raise InputError("model", f"is {shown(given['model'])}; the path names {named}")
        return {**given, "model": named}

    async def root(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Answer as the fields and the model tell."""
        given = await self._read(ROOT, request, call)
        if "query" in given:
            return await self.rerank(request, call)
        if isinstance(given.get("inputs"), dict):
            return await self.similarity(request, call)
        named = OPTIONAL_MODEL.kind.read(given["model"], ("model",)) if given.get("model") is not None else None
        model = self._doors.model(named, _ANSWERS, call)
        return await (self.embed if EMBEDS.of(model.schema) else self.predict)(request, call)

    async def embed(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Embed every text."""
        began, given = time.monotonic(), await self._read(EMBED, request, call)
        model = self._doors.model(given["model"], EMBEDS, call)
        read = partial(
            _embedded,
            name=vector_result(model.schema) or "",
            dimensions=given["dimensions"],
            normalize=given["normalize"],
        )
        options = CallOptions(outputs=(), truncate=given["truncate"])
        rows = Rows.of(given["inputs"], len(request.body))
        answers = await self._doors.answers(model, rows, given, read, call, options)
        return await self._told([orjson.Fragment(each.value) for each in answers], answers, rows, began, call)

    async def embed_all(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Give a vector for every token: of late interaction, or of the last layer."""
        began, given = time.monotonic(), await self._read(EMBED_ALL, request, call)
        model = self._doors.model(given["model"], _EMBEDS_TOKENS, call)
        hidden = None if tokens_result(model.schema) else HiddenOptions(layers=(-1,))
        if hidden is not None and given["explain"] is not None:
            raise InputError("explain", "does not go with hidden states; /embed explains the vector of a text")
        options = CallOptions(outputs=(), truncate=given["truncate"], hidden=hidden)
        rows = Rows.of(given["inputs"], len(request.body))
        answers = await self._doors.answers(model, rows, given, _token_vectors, call, options)
        return await self._told([orjson.Fragment(each.value) for each in answers], answers, rows, began, call)

    async def embed_sparse(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Refuse."""
        await self._read(EMBED_ALL, request, call)
        raise WrongModelError(_SPARSE)

    async def predict(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Classify every text or pair; where there are `parameters`, a list of lists as of Hugging Face's pipelines."""
        began, given = time.monotonic(), await self._read(PREDICT, request, call)
        found, is_batch = given["inputs"]
        pipeline = given["parameters"] or {"function_to_apply": None, "top_k": None}
        fitting = CLASSIFIES_PAIRS if isinstance(found[0][0], Pair) else CLASSIFIES_TEXTS
        model = self._doors.model(given["model"], CLASSIFIES if given["model"] else fitting, call)
        result = class_result(model.schema)
        assert result is not None
        function = "none" if given["raw_scores"] else pipeline["function_to_apply"]
        if function is not None and result.HasField("regression"):
            field = ("raw_scores",) if given["raw_scores"] else ("parameters", "function_to_apply")
            raise InputError(field, f"does not go with {model.schema.name}, which gives its numbers as they are")
        scoring = Scoring(result, function, pipeline["top_k"])
        options = CallOptions(outputs=scoring.outputs, truncate=given["truncate"])
        rows = Rows.of(found, len(request.body))
        answers = await self._doors.answers(model, rows, given, scoring.read, call, options)
        data = [orjson.Fragment(each.value) for each in answers]
        is_list = is_batch or given["parameters"] is not None
        return await self._told(data if is_list else data[0], answers, rows, began, call)

    async def rerank(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Score texts, the best first; documents as Cohere, Jina and vLLM have them."""
        began, given = time.monotonic(), await self._read(_RERANK_EITHER, request, call)
        if "documents" in given:
            scored = await reranked(self._doors, given, len(request.body), call)
            found = {
                "id": call.identity,
                "model": given["model"] or call.model,
                "results": results(given, scored, with_documents=True),
                "usage": {"prompt_tokens": scored.tokens, "total_tokens": scored.tokens},
            }
            return await self._scored(found, scored, began, call)
        texts = [(each, ("texts", place)) for place, each in enumerate(given["texts"])]
        query, size = (given["query"], ("query",)), len(request.body)
        scored = await Ranking(given, query, texts, size, given["truncate"]).scored(self._doors, call)
        ranks = [
            {
                "index": place,
                **({"text": given["texts"][place]} if given["return_text"] else {}),
                "score": scored.scores[place],
            }
            for place in scored.order
        ]
        return await self._scored(ranks, scored, began, call)

    async def similarity(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Give the cosine of each sentence's vector with that of one."""
        began, given = time.monotonic(), await self._read(SIMILARITY, request, call)
        inputs = given["inputs"]
        sentences = [(each, ("inputs", "sentences", place)) for place, each in enumerate(inputs["sentences"])]
        one, size = (inputs["source_sentence"], ("inputs", "source_sentence")), len(request.body)
        given |= given["parameters"]
        scored = await Ranking(given, one, sentences, size, given["truncate"]).compared(self._doors, call)
        return await self._scored(scored.scores, scored, began, call)

    async def tokenize(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Cut every text into tokens."""
        began, given = time.monotonic(), await self._read(TOKENIZE, request, call)
        model = self._doors.model(given["model"], _READS_TEXTS, call)
        rows = Rows.of(
            [(Text(each), ("inputs", place)) for place, each in enumerate(given["inputs"])], len(request.body)
        )
        write = partial(tokens, add_special_tokens=given["add_special_tokens"])
        found = await self._doors.tokens(model, rows, write, call)
        data = [orjson.Fragment(b"".join(each.labels)) for each in found]
        return await self._told(data, (), rows, began, call)

    async def decode(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Write every list of tokens as text."""
        given = await self._read(DECODE, request, call)
        preprocessor = self._doors.model(given["model"], _HAS_TOKENS, call).schema.preprocessor
        write = partial(preprocessor.text_of, skip_special_tokens=given["skip_special_tokens"])
        data = await self._doors.core.on_thread(lambda: written([write(each) for each in given["ids"]]), call)
        return HttpResponse([data])

    async def info(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Describe a model."""
        model = self._doors.model(request.names.get("name"), _ANYTHING, call)
        return HttpResponse([written(described(model.schema, self._doors.core.settings, MOST_TEXTS))])

    async def _scored(self, value: Any, scored: Scored, began: float, call: Call) -> HttpResponse:
        response = await self._doors.response(value, scored.answers, call)
        return replace(response, headers=_headers(scored.tokens, scored.characters, began, call))

    async def _told(
        self, value: Any, answers: Sequence[Answered[Any]], rows: Rows, began: float, call: Call
    ) -> HttpResponse:
        response = await self._doors.response(value, answers, call)
        tokens_read = usage(answers)["total_tokens"]
        return replace(response, headers=_headers(tokens_read, rows.characters, began, call))


def _method(verb: str, path: str, name: str, words: str, form: Form | None, handle: Handle) -> HttpMethod:
    right = {"TeiTokenize": "Tokenize", "TeiDecode": "Tokenize", "TeiInfo": "GetModel"}.get(name, "Predict")
    schema = None if form is None else form.schema
    summary = f"{words}, in the form of Text Embeddings Inference."
    return UnaryHttp(verb, path, SERVICE, name, error_body, right=right, summary=summary, request=schema, handle=handle)


def _embedded(
    checked: CheckedCall, prediction: Prediction, *, name: str, dimensions: int | None, normalize: bool
) -> tuple[bytes, int]:
    """Write a vector's first numbers, of length 1 or as the model gives them.

    Raises: InputError for more than there are, and for a vector that is of length 1 already where it should not be.
    """
    result = prediction.results[name]
    assert isinstance(result, Embedding)
    vector, cut = result.vector, cut_vector(result.vector, dimensions)
    if not normalize:
        if _is_unit(vector):
            raise InputError("normalize", "is false; the model itself gives vectors of length 1")
        cut = vector[:dimensions]
    elif not _is_unit(cut):
        cut = cut / (np.linalg.norm(cut) or 1.0)
    data = written_vector(cut, as_text=False)
    return data, len(data)


def _is_unit(vector: Array) -> bool:
    return abs(float(np.linalg.norm(vector)) - 1.0) < _UNIT


def _token_vectors(checked: CheckedCall, prediction: Prediction) -> tuple[bytes, int]:
    """Write the vectors of the tokens: of late interaction where there are such, else of the hidden state."""
    found = [each.vectors for each in prediction.results.values() if isinstance(each, TokenVectors)]
    vectors = found[0] if found else prediction.hidden[0].vectors
    data = written(np.asarray(vectors, np.float32, order="C"))
    return data, len(data)


def _headers(tokens_read: int, characters: int, began: float, call: Call) -> Mapping[str, str]:
    """Tell what was computed, and how long it took, in milliseconds."""
    took = round((time.monotonic() - began) * 1000)
    stages = {name: call.durations.get(stage, 0) // 10**6 for name, stage in _STAGES.items()}
    values = {"x-compute-time": took, "x-total-time": took, "x-compute-tokens": tokens_read}
    return {name: str(each) for name, each in {**values, "x-compute-characters": characters, **stages}.items()}


def error_body(failure: Failure) -> Any:
    """Give the JSON of an error as Text Embeddings Inference tells errors."""
    kind = {429: "Overloaded", 503: "Unhealthy"}.get(
        failure.status, "Backend" if failure.status >= 500 else "Validation"
    )
    return {"error": failure.message, "error_type": kind}
