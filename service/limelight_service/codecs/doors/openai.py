"""OpenAI's API: the list of models, and embeddings (https://platform.openai.com/docs/api-reference)."""

import base64
from collections.abc import Sequence
from functools import partial

import numpy as np
import orjson

from limelight_bundle.errors import InputError
from limelight_bundle.values import Array
from limelight_service.codecs.doors.asking import BESIDE, Doors, Gives, with_beside
from limelight_service.codecs.doors.fields import Field, Form, one_of, whole
from limelight_service.codecs.doors.openai_fields import MODEL, SERVICE, USER, error_body
from limelight_service.codecs.doors.rows import Rows, takes_texts, text_rows
from limelight_service.codecs.json.writing import written
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.http.methods import HttpMethod, HttpRequest, HttpResponse, UnaryHttp
from limelight_service.frontend.results import Embedding
from limelight_service.frontend.schema import ModelSchema

_MOST_DIMENSIONS = 2**16
_EMBEDDINGS = Form(
    MODEL,
    Field("input", text_rows(), is_required=True),
    Field("encoding_format", one_of("float", "base64"), "float"),
    Field("dimensions", whole(1, _MOST_DIMENSIONS)),
    USER,
    *BESIDE,
)


def vector_result(schema: ModelSchema) -> str | None:
    """Name the result that is one vector for a text; None where there is none."""
    found = (each.name for each in schema.results if each.HasField("embedding"))
    return next(found, None) if takes_texts(schema) else None


EMBEDS = Gives("gives one vector for a text", lambda schema: vector_result(schema) is not None)


class OpenAI:
    """The methods of the API. For one event loop."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        return [
            UnaryHttp(
                "POST",
                "/v1/embeddings",
                SERVICE,
                "Embeddings",
                error_body,
                right="Predict",
                summary="Embeds texts, as OpenAI's API does.",
                request=_EMBEDDINGS.schema,
                handle=self.embeddings,
            ),
        ]

    async def embeddings(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Embed every text."""
        doors = self._doors
        given = await doors.read(_EMBEDDINGS, request, call)
        model = doors.model(given["model"], EMBEDS, call)
        rows = Rows.of(given["input"], len(request.body))
        as_text = given["encoding_format"] == "base64"
        read = partial(_embedding, dimensions=given["dimensions"], as_text=as_text)
        answers = await doors.answers(model, rows, given, read, call)
        data = [
            {"object": "embedding", "index": place, "embedding": orjson.Fragment(each.value)}
            for place, each in enumerate(answers)
        ]
        tokens = sum([each.tokens for each in answers])
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "data": data, "model": given["model"], "usage": usage}
        return HttpResponse([with_beside(answer, answers)])


def cut_vector(vector: Array, dimensions: int | None) -> Array:
    """Give a vector's first numbers as a vector of length 1 (Kusupati et al. 2022); None for all, as it is.

    Raises: InputError for more than there are.
    """
    if dimensions is None or dimensions == len(vector):
        return vector
    if dimensions > len(vector):
        raise InputError("dimensions", f"is {dimensions}; the model gives {len(vector)}")
    cut = vector[:dimensions]
    length = np.linalg.norm(cut)
    return cut / length if length else cut


def _embedding(
    checked: CheckedCall, prediction: Prediction, *, dimensions: int | None, as_text: bool
) -> tuple[bytes, int]:
    """Write a vector, as numbers or as base64 of float32."""
    name = vector_result(checked.schema)
    result = prediction.results[name or ""]
    assert isinstance(result, Embedding)
    vector = cut_vector(result.vector, dimensions)
    if as_text:
        data = b'"%s"' % base64.b64encode(np.asarray(vector, "<f4").tobytes())
    else:
        data = written(np.ascontiguousarray(vector))
    return data, len(data)
