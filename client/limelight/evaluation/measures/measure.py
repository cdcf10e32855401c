"""The interface of a measure: when it applies, what each row adds, and its figures."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from limelight.attended import Attended
from limelight.descriptions import MapInfo, Model
from limelight.errors import Error
from limelight.evaluation.asking import Asking
from limelight.evaluation.replies import Reply
from limelight.evaluation.rows import Row
from limelight.evaluation.samples import Curve, Figure, Samples
from limelight.evaluation.weights import total_variation
from limelight.maps import AttentionMap
from limelight.v1 import values_pb2

NO_LABELS = "the data state no expected answers"


@dataclass(frozen=True)
class Setting:
    """Input of the measures. maps: those that are asked for, whose weights are not signed."""

    model: Model
    maps: tuple[MapInfo, ...]
    has_labels: bool
    has_evidence: bool

    def changeable(self) -> tuple[MapInfo, ...]:
        """Return the maps that take interventions."""
        return tuple(each for each in self.maps if each.interventions)


@dataclass(frozen=True)
class Seen:
    """An answered row."""

    row: Row
    reply: Reply
    answer: Attended


@dataclass
class Work:
    """State that measures share: the server, the samples so far, chance, and errors of instances that were changed."""

    setting: Setting
    asking: Asking
    samples: Samples
    chance: np.random.Generator
    seen: list[tuple[Row, Reply]] = field(default_factory=list)
    """Every answered row, without its maps."""
    failures: list[tuple[int, Error]] = field(default_factory=list)

    def replies(self, asked: Sequence[tuple[int, values_pb2.Instance]]) -> list[Reply | None]:
        """Return replies to instances, None for those that failed. asked: (number of the row, instance)."""
        found: list[Reply | None] = []
        replies = self.asking.replies([instance for _, instance in asked])
        for (number, _), reply in zip(asked, replies, strict=True):
            if isinstance(reply, Error):
                self.failures.append((number, reply))
            found.append(None if isinstance(reply, Error) else reply)
        return found


@dataclass(frozen=True)
class Measure:
    """A measure.

    Attributes:
        name: of `--measure` and the report.
        source: authors and year.
        summary: what its figures say, in a sentence or two.
        lacks: the reason why it cannot be computed; empty if it can.
        add: computes the values of some rows.
        finish: its figures and curves, once all rows are done.
    """

    name: str
    title: str
    source: str
    summary: str
    lacks: Callable[[Setting], str]
    add: Callable[[Sequence[Seen], Work], None]
    finish: Callable[[Work], tuple[Iterable[Figure], Iterable[Curve]]]


def means(name: str) -> Callable[[Work], tuple[Iterable[Figure], Iterable[Curve]]]:
    """Return a `finish` whose figures are means over rows."""
    return lambda work: (work.samples.means(name), ())


def no_interventions(setting: Setting) -> str:
    """Return why attention cannot be changed; empty if it can."""
    if setting.model.task != "classification":
        return f"answers of {setting.model.task} have no probabilities by class to compare"
    if not setting.changeable():
        return "no map takes interventions; `limelight export --interventions` makes a bundle whose maps do"
    return ""


def add_change(work: Work, measure: str, subject: str, row: Row, before: Reply, after: Reply) -> None:
    """Add how far a reply moved from the one to the unchanged instance."""
    add = work.samples.add
    add(measure, subject, "answers changed", row.number, float(after.text != before.text))
    add(measure, subject, "answer moves by", row.number, moved(before, after))
    if row.expected is not None:
        lost = float(before.text == row.expected) - float(after.text == row.expected)
        add(measure, subject, "accuracy lost", row.number, lost)


def moved(before: Reply, after: Reply) -> float:
    """Return the total variation distance of two replies' distributions; NaN without distributions."""
    if before.distribution is None or after.distribution is None:
        return float("nan")
    return total_variation(before.distribution, after.distribution)


def probability_of(reply: Reply, before: Reply) -> float:
    """Return the probability that a reply gives to the answer of another."""
    if reply.distribution is None or before.distribution is None:
        return float("nan")
    return float(reply.distribution[int(before.distribution.argmax())])


def each_map(seen: Seen, maps: Iterable[MapInfo]) -> Iterator[tuple[MapInfo, AttentionMap]]:
    """Yield the maps that an answer has."""
    there = {each.name: each for each in seen.answer.maps}
    yield from ((info, there[info.name]) for info in maps if info.name in there)
