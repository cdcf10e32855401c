"""Scores of texts for one text: of a model that scores pairs, or the cosines of one that embeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight_bundle.errors import Path
from limelight_bundle.values import Array, Pair, Text
from limelight_service.codecs.doors.classes import SCORES, pair_result
from limelight_service.codecs.doors.rows import Gives, Rows
from limelight_service.codecs.doors.vectors import EMBEDS, vector_result
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.results import Classes, Embedding, Numbers

if TYPE_CHECKING:
    from limelight_service.codecs.doors.asking import Answered, Doors

MOST_TEXTS = 10_000  # that are ranked in a request, as Cohere has it
_SCORE = 24  # bytes of a number in JSON, at most
_MANY = 256  # vectors, above which they are compared on a thread
RANKS = Gives(
    "scores a pair of texts, or gives one vector for a text", lambda schema: SCORES.of(schema) or EMBEDS.of(schema)
)


@dataclass(frozen=True)
class Scored:
    """Scores of texts, in their order. answers: to each, without that of the one text. tokens, characters: that
    were read.
    """

    scores: Sequence[float]
    answers: "Sequence[Answered[Any]]"
    tokens: int
    characters: int

    @property
    def order(self) -> list[int]:
        """Indices of the texts, highest score first; equal ones as they were given."""
        return sorted(range(len(self.scores)), key=lambda place: -self.scores[place])


async def ranked(
    doors: "Doors",
    given: Mapping[str, Any],
    one: tuple[str, Path],
    texts: Sequence[tuple[str, Path]],
    size: int,
    call: Call,
    *,
    truncate: bool,
) -> Scored:
    """Score texts for one text: by a model of pairs; without a model's name by vectors only where no model of pairs is.

    Args:
        given: the fields of the request; `model`, `attention` and `explain` among them.
        one, texts: with their paths in the request.
        size: bytes of the request.

    Raises: LimelightError of every kind.
    """
    model = doors.preferred(given["model"], SCORES, RANKS, call)
    name = pair_result(model.schema)
    if not name:
        return await compared(doors, given, one, texts, size, call, truncate=truncate)
    rows = Rows.of([(Pair(one[0], text), path) for text, path in texts], size)
    answers = await doors.answers(
        model, rows, given, partial(_score, name=name), call, CallOptions(outputs=(), truncate=truncate)
    )
    return Scored([each.value for each in answers], answers, sum([each.tokens for each in answers]), rows.characters)


async def compared(
    doors: "Doors",
    given: Mapping[str, Any],
    one: tuple[str, Path],
    texts: Sequence[tuple[str, Path]],
    size: int,
    call: Call,
    *,
    truncate: bool,
) -> Scored:
    """Score texts for one text by the cosines of their vectors; as `ranked`."""
    model = doors.model(given["model"], EMBEDS, call)
    rows = Rows.of([(Text(text), path) for text, path in (one, *texts)], size)
    read = partial(_vector, name=vector_result(model.schema) or "")
    answers = await doors.answers(model, rows, given, read, call, CallOptions(outputs=(), truncate=truncate))
    compare = partial(_cosines, [each.value for each in answers])
    cosines = await doors.core.on_thread(compare, call) if len(rows) > _MANY else compare()
    return Scored(cosines, answers[1:], sum([each.tokens for each in answers]), rows.characters)


def _cosines(found: Sequence[Array]) -> list[float]:
    """Give the cosine of each vector with the first, without the first's own."""
    vectors = np.asarray(found, np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    products = (vectors[1:] * vectors[0]).sum(axis=1)  # not by BLAS, whose sums depend on how many rows there are
    cosines = products / np.maximum(lengths[1:] * lengths[0], np.finfo(np.float64).tiny)
    clipped: list[float] = np.clip(cosines, -1, 1).tolist()
    return clipped


def _score(checked: CheckedCall, prediction: Prediction, *, name: str) -> tuple[float, int]:
    """Give the number of a pair, as Predict does."""
    result = prediction.results[name]
    if isinstance(result, Classes):
        return result.probabilities[0], _SCORE
    assert isinstance(result, Numbers)
    return result.numbers[0].value, _SCORE


def _vector(checked: CheckedCall, prediction: Prediction, *, name: str) -> tuple[Array, int]:
    result = prediction.results[name]
    assert isinstance(result, Embedding)
    return result.vector, result.vector.nbytes
