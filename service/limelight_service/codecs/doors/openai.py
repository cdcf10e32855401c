"""OpenAI's API: the list of models, and embeddings (https://platform.openai.com/docs/api-reference)."""

from collections.abc import Sequence
from functools import partial

import orjson

from limelight_service.codecs.doors.asking import Doors, usage
from limelight_service.codecs.doors.beside import BESIDE
from limelight_service.codecs.doors.errors import SERVICE, error_body
from limelight_service.codecs.doors.fields import MODEL, USER, Field, Form, whole
from limelight_service.codecs.doors.methods import predicting
from limelight_service.codecs.doors.rows import Rows, text_rows
from limelight_service.codecs.doors.vectors import (
    EMBEDS,
    ENCODING,
    MOST_DIMENSIONS,
    cut_vector,
    vector_result,
    written_vector,
)
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.http.methods import HttpMethod, HttpRequest, HttpResponse
from limelight_service.frontend.results import Embedding

_EMBEDDINGS = Form(
    MODEL,
    Field("input", text_rows(), is_required=True),
    ENCODING,
    Field("dimensions", whole(1, MOST_DIMENSIONS)),
    USER,
    *BESIDE,
)


class OpenAI:
    """The methods of the API. For one event loop."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        summary = "Embeds texts, as OpenAI's API does."
        return [predicting(SERVICE, error_body, "/v1/embeddings", "Embeddings", summary, _EMBEDDINGS, self.embeddings)]

    async def embeddings(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Embed every text."""
        doors = self._doors
        given = await doors.read(_EMBEDDINGS, request, call)
        model = doors.model(given["model"], EMBEDS, call)
        rows = Rows.of(given["input"], len(request.body))
        as_text = given["encoding_format"] == "base64"
        read = partial(
            _embedding, name=vector_result(model.schema) or "", dimensions=given["dimensions"], as_text=as_text
        )
        answers = await doors.answers(model, rows, given, read, call)
        data = [
            {"object": "embedding", "index": place, "embedding": orjson.Fragment(each.value)}
            for place, each in enumerate(answers)
        ]
        answer = {"object": "list", "data": data, "model": given["model"], "usage": usage(answers)}
        return await doors.response(answer, answers, call)


def _embedding(
    checked: CheckedCall, prediction: Prediction, *, name: str, dimensions: int | None, as_text: bool
) -> tuple[bytes, int]:
    result = prediction.results[name]
    assert isinstance(result, Embedding)
    data = written_vector(cut_vector(result.vector, dimensions), as_text=as_text)
    return data, len(data)
