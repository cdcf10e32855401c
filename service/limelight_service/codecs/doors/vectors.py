"""Vectors of texts, as every door gives them: the models that have one, their first numbers, JSON and base64."""

import base64

import numpy as np

from limelight_bundle.errors import InputError
from limelight_bundle.values import Array
from limelight_service.codecs.doors.fields import Field, one_of
from limelight_service.codecs.doors.rows import Gives, per_model, takes_texts
from limelight_service.codecs.json.numbers import written
from limelight_service.frontend.schema import ModelSchema

MOST_DIMENSIONS = 2**16
ENCODING = Field("encoding_format", one_of("float", "base64"), "float")


@per_model
def vector_result(schema: ModelSchema) -> str | None:
    """Name the result that is one vector for a text; None where there is none."""
    found = (each.name for each in schema.results if each.HasField("embedding"))
    return next(found, None) if takes_texts(schema) else None


EMBEDS = Gives("gives one vector for a text", lambda schema: vector_result(schema) is not None)


@per_model
def tokens_result(schema: ModelSchema) -> str:
    """Name the result that is a vector for each token of a text; empty where there is none."""
    found = (each.name for each in schema.results if each.HasField("token_vectors"))
    return next(found, "") if takes_texts(schema) else ""


def cut_vector(vector: Array, dimensions: int | None, field: str = "dimensions") -> Array:
    """Give a vector's first numbers as a vector of length 1 (Kusupati et al. 2022); None for all, as it is.

    Raises: InputError naming the field for more than there are.
    """
    if dimensions is None or dimensions == len(vector):
        return vector
    if dimensions > len(vector):
        raise InputError(field, f"is {dimensions}; the model gives {len(vector)}")
    cut = vector[:dimensions]
    length = np.linalg.norm(cut)
    return cut / length if length else cut


def written_vector(vector: Array, *, as_text: bool) -> bytes:
    """Write a vector, as numbers or as base64 of float32."""
    if as_text:
        return b'"%s"' % base64.b64encode(np.asarray(vector, "<f4").tobytes())
    return written(np.ascontiguousarray(vector))
