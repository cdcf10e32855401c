"""Scores of texts for one text: of a model that scores pairs, or the cosines of one that embeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight_bundle.errors import Path
from limelight_bundle.values import Array, Pair, Text
from limelight_service.codecs.doors.classes import SCORES, pair_result, pair_score
from limelight_service.codecs.doors.rows import Gives, Rows
from limelight_service.codecs.doors.vectors import EMBEDS, vector_result
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.results import Embedding

if TYPE_CHECKING:
    from limelight_service.codecs.doors.asking import Answered, Doors

MOST_TEXTS = 10_000  # that are ranked in a request, as Cohere has it
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


@dataclass(frozen=True)
class Ranking:
    """What is scored. given: the fields of the request; `model`, `attention` and `explain` among them. one, texts: with
    their paths in the request. size: bytes of the request. truncate: texts that are too long.
    """

    given: Mapping[str, Any]
    one: tuple[str, Path]
    texts: Sequence[tuple[str, Path]]
    size: int
    truncate: bool

    async def scored(self, doors: "Doors", call: Call) -> Scored:
        """Score by a model of pairs; without a model's name by vectors only where no model of pairs is.

        Raises: LimelightError of every kind.
        """
        model = doors.preferred(self.given["model"], SCORES, RANKS, call)
        name = pair_result(model.schema)
        if not name:
            return await self.compared(doors, call)
        rows = Rows.of([(Pair(self.one[0], text), path) for text, path in self.texts], self.size)
        answers = await doors.answers(model, rows, self.given, partial(pair_score, name=name), call, self._options)
        return _scored([each.value for each in answers], answers, answers, rows)

    async def compared(self, doors: "Doors", call: Call) -> Scored:
        """Score by the cosines of vectors. Raises: LimelightError of every kind."""
        model = doors.model(self.given["model"], EMBEDS, call)
        rows = Rows.of([(Text(text), path) for text, path in (self.one, *self.texts)], self.size)
        read = partial(_vector, name=vector_result(model.schema) or "")
        answers = await doors.answers(model, rows, self.given, read, call, self._options)
        compare = partial(_cosines, [each.value for each in answers])
        cosines = await doors.core.on_thread(compare, call) if len(rows) > _MANY else compare()
        return _scored(cosines, answers[1:], answers, rows)

    @property
    def _options(self) -> CallOptions:
        return CallOptions(outputs=(), truncate=self.truncate)


def _scored(
    scores: Sequence[float], of_texts: "Sequence[Answered[Any]]", answers: "Sequence[Answered[Any]]", rows: Rows
) -> Scored:
    return Scored(scores, of_texts, sum([each.tokens for each in answers]), rows.characters)


def _cosines(found: Sequence[Array]) -> list[float]:
    """Give the cosine of each vector with the first, without the first's own."""
    vectors = np.asarray(found, np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    products = (vectors[1:] * vectors[0]).sum(axis=1)  # not by BLAS, whose sums depend on how many rows there are
    cosines = products / np.maximum(lengths[1:] * lengths[0], np.finfo(np.float64).tiny)
    clipped: list[float] = np.clip(cosines, -1, 1).tolist()
    return clipped


def _vector(checked: CheckedCall, prediction: Prediction, *, name: str) -> tuple[Array, int]:
    result = prediction.results[name]
    assert isinstance(result, Embedding)
    return result.vector, result.vector.nbytes
