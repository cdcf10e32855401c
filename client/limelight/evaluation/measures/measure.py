"""The interface of a measure: when it applies, what each row adds, and its figures."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from limelight.attended import Attended
from limelight.base.errors import Error
from limelight.descriptions import MapInfo, Model
from limelight.evaluation.asking import Asking, Explained, forced
from limelight.evaluation.replies import Reply
from limelight.evaluation.rows import Row
from limelight.evaluation.samples import Curve, Figure, Samples
from limelight.evaluation.weights import total_variation
from limelight.groups import Groups
from limelight.maps import AttentionMap
from limelight.v1 import values_pb2

NO_LABELS = "the data state no expected answers"
CHANGING = ("classification", "generation")
"""Tasks whose answers to changed instances are compared."""


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

    @property
    def forces(self) -> bool:
        """Whether the model tells the probability of a given text."""
        return self.model.task == "generation" and bool(self.model.target_input)


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

    def explained(self, asked: Sequence[tuple[Row, Groups, Sequence[str]]]) -> list[Explained | None]:
        """Return explanations by units and ways, None for those that failed."""
        found: list[Explained | None] = []
        replies = self.asking.explain([(row.instance, units, ways) for row, units, ways in asked])
        for (row, _, _), reply in zip(asked, replies, strict=True):
            if isinstance(reply, Error):
                self.failures.append((row.number, reply))
            found.append(None if isinstance(reply, Error) else reply)
        return found

    def forced(self, asked: Sequence[tuple[Seen, values_pb2.Instance]]) -> list[Reply | None]:
        """Return replies to instances; a model that writes texts puts out its first answer again.

        An empty text cannot be put out again: such a reply has no probabilities.
        """
        replies = self.replies([(seen.row.number, self.as_before(seen, instance)) for seen, instance in asked])
        if not self.setting.forces:
            return replies
        return [
            reply if reply is None or seen.reply.text else replace(reply, probability=math.nan, chances=None)
            for (seen, _), reply in zip(asked, replies, strict=True)
        ]

    def compared(self, asked: Sequence[tuple[Seen, values_pb2.Instance]]) -> list[Reply | None]:
        """Return replies to changed instances, None for those that failed.

        A model that writes texts is asked twice, for its answer, and for the probability of its first answer; one to
        which no text can be given has no probabilities to compare.
        """
        replies = self.replies([(seen.row.number, instance) for seen, instance in asked])
        if not self.setting.forces:
            return [reply and replace(reply, chances=None) for reply in replies]
        return [
            None if free is None or again is None else replace(again, text=free.text)
            for free, again in zip(replies, self.forced(asked), strict=True)
        ]

    def as_before(self, seen: Seen, instance: values_pb2.Instance) -> values_pb2.Instance:
        """Return the instance, for which a model that writes texts puts out its first answer again, if it has one."""
        if not self.setting.forces or not seen.reply.text:
            return instance
        return forced(instance, self.setting.model, seen.reply.text)


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
        changes: whether it compares answers to changed instances.
    """

    name: str
    title: str
    source: str
    summary: str
    lacks: Callable[[Setting], str]
    add: Callable[[Sequence[Seen], Work], None]
    finish: Callable[[Work], tuple[Iterable[Figure], Iterable[Curve]]]
    changes: bool = False


def means(name: str) -> Callable[[Work], tuple[Iterable[Figure], Iterable[Curve]]]:
    """Return a `finish` whose figures are means over rows."""
    return lambda work: (work.samples.means(name), ())


def no_interventions(setting: Setting) -> str:
    """Return why attention cannot be changed; empty if it can."""
    if setting.model.task not in CHANGING:
        return f"answers of {setting.model.task} have no probabilities by class to compare"
    if not setting.changeable():
        return "no map takes interventions; `limelight export --interventions` makes a bundle whose maps do"
    return ""


def add_change(work: Work, measure: str, subject: str, row: Row, before: Reply, after: Reply) -> None:
    """Add how far a reply moved from the one to the unchanged instance."""
    add = work.samples.add
    add(measure, subject, "answers changed", row.number, float(after.text != before.text))
    add(measure, subject, "answer moves by", row.number, moved(before, after))
    writes = work.setting.model.task == "generation"
    if writes:
        add(measure, subject, "log-probability lost", row.number, log_lost(before, after))
    if row.expected is not None:
        lost = float(before.text == row.expected) - float(after.text == row.expected)
        add(measure, subject, "exact match lost" if writes else "accuracy lost", row.number, lost)


def moved(before: Reply, after: Reply) -> float:
    """Return how far a reply is from another, from 0 to 1; NaN where no probabilities are known.

    Of classes: the total variation distance of the distributions. Of a text: the mean over its tokens of the difference
    of their probabilities, of which the distance of the distributions is never less.
    """
    if before.distribution is not None and after.distribution is not None:
        return total_variation(before.distribution, after.distribution)
    chances = _of_same_tokens(before, after)
    return float("nan") if chances is None else float(np.abs(chances[0] - chances[1]).mean())


def log_lost(before: Reply, after: Reply) -> float:
    """Return by how much the log-probability of a token of a text falls, in nats, the mean over its tokens."""
    chances = _of_same_tokens(before, after)
    if chances is None:
        return float("nan")
    first, other = np.log(np.maximum(chances, np.finfo(np.float64).tiny))
    return float((first - other).mean())


def _of_same_tokens(before: Reply, after: Reply) -> NDArray[np.float64] | None:
    """Return the probabilities [reply, token] of a text that both put out; None where they did not."""
    if before.chances is None or after.chances is None or before.chances.shape != after.chances.shape:
        return None
    return np.stack([before.chances, after.chances])


def probability_of(reply: Reply, before: Reply) -> float:
    """Return the probability that a reply gives to the answer of another."""
    if reply.distribution is not None and before.distribution is not None:
        return float(reply.distribution[int(before.distribution.argmax())])
    return float("nan") if _of_same_tokens(before, reply) is None else reply.probability


def weights_above(found: AttentionMap, maps: Sequence[AttentionMap]) -> NDArray[np.float64] | None:
    """Return the weight of each query of a nested map, such as of sentences whose words are its keys: [query].

    It is the weight that the level above gives the query as its key. None for a map that is not nested, or whose level
    above is not here.
    """
    if not found.is_nested:
        return None
    for each in maps:
        if (
            each.key.name == found.query.name
            and len(each.key) == len(found.query)
            and (each.is_nested or len(each.query) == 1)
        ):
            return key_weights(each, maps)
    return None


def key_weights(found: AttentionMap, maps: Sequence[AttentionMap]) -> NDArray[np.float64]:
    """Return the mean weight that each key gets, over heads and queries: [key].

    Of a nested map it is the product of the levels, so that words of a sentence without weight have none.
    """
    weights, above = found.mean_over_heads(), weights_above(found, maps)
    return np.asarray(weights.mean(axis=0) if above is None else above @ weights, np.float64)


def each_map(seen: Seen, maps: Iterable[MapInfo]) -> Iterator[tuple[MapInfo, AttentionMap]]:
    """Yield the maps that an answer has."""
    there = {each.name: each for each in seen.answer.maps}
    yield from ((info, there[info.name]) for info in maps if info.name in there)
