"""Token search of one row: the next tokens from the scores of its live hypotheses.

A search has one hypothesis (greedy, sampling, a forced target) or several (beams). It sees nothing of batches, states
and graphs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from limelight_service.engine.runtime.noise import generator
from limelight_service.engine.types import FinishReason, GenerationSettings

Floats = NDArray[np.float64]
_CACHED = 2**13
_MOST_STOPPED = 16  # times the usual number of continuations, where each may end a stop text


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A sequence so far, as a chain: the last token, and the hypothesis that it continues.

    total: sum of log-probabilities. place: of the hypothesis that it continues, among those of its row that were live.
    """

    parent: "Hypothesis | None" = None
    token: int = -1
    log_probability: float = 0.0
    total: float = 0.0
    length: int = 0
    place: int = 0
    finish: FinishReason | None = None

    def then(self, token: int, log_probability: float, place: int = 0) -> "Hypothesis":
        """Continue with a token; `place` is this hypothesis's own."""
        return Hypothesis(self, token, log_probability, self.total + log_probability, self.length + 1, place)

    def chain(self) -> "list[Hypothesis]":
        """Give the hypothesis after each of its tokens, first to last."""
        chain, each = [], self
        while each.parent is not None:
            chain.append(each)
            each = each.parent
        return chain[::-1]

    def token_ids(self) -> list[int]:
        """Give its tokens."""
        return [each.token for each in self.chain()]


@dataclass(frozen=True)
class Move:
    """The decision of a step: hypotheses that go on, and those that ended."""

    live: tuple[Hypothesis, ...]
    ended: tuple[Hypothesis, ...] = ()


class Search(Protocol):
    """Chooses the tokens of one row."""

    def advance(self, live: Sequence[Hypothesis], log_probabilities: Floats) -> Move:
        """Choose. log_probabilities: [live hypothesis, token]."""

    def best(self, ended: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Choose the sequences to answer with, best first, among all that ended."""

    def score(self, hypothesis: Hypothesis) -> float:
        """Give the score that `best` orders by; 0 where there is only one."""


Choose = Callable[[Floats, int], int]


@dataclass(frozen=True)
class Ending:
    """End conditions of a sequence.

    end_tokens: each of them ends it. limit: most tokens, the end token apart. stopped: whether a stop text has
    appeared.
    """

    end_tokens: frozenset[int]
    limit: int
    stopped: Callable[[Hypothesis], bool] | None = None

    def apply(self, hypothesis: Hypothesis) -> Hypothesis:
        """Give the hypothesis that just got a token, marked where that token ends it.

        One step past the limit only the end token counts: a sequence of exactly `limit` tokens that wants to end has
        ended.
        """
        if hypothesis.token in self.end_tokens:
            return replace(hypothesis, finish=FinishReason.END)
        if hypothesis.length > self.limit:
            assert hypothesis.parent is not None
            return replace(hypothesis.parent, finish=FinishReason.LENGTH)
        if self.stopped is not None and self.stopped(hypothesis):
            return replace(hypothesis, finish=FinishReason.STOP)
        return hypothesis


@dataclass(frozen=True)
class SingleSearch:
    """One token after another, each chosen by `choose(log_probabilities [token], step)`."""

    choose: Choose
    ending: Ending

    def advance(self, live: Sequence[Hypothesis], log_probabilities: Floats) -> Move:
        """Choose the next token."""
        (hypothesis,), (row,) = live, log_probabilities
        token = self.choose(row, hypothesis.length)
        hypothesis = self.ending.apply(hypothesis.then(token, float(row[token])))
        return Move((), (hypothesis,)) if hypothesis.finish else Move((hypothesis,))

    def best(self, ended: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Give the one sequence."""
        return list(ended)

    def score(self, hypothesis: Hypothesis) -> float:
        """Nothing is ordered."""
        return 0.0


@dataclass(frozen=True)
class ForcedSearch:
    """The tokens of a target, whatever the scores say, and then those of another search.

    Attributes:
        before: steps in front of the target, whose tokens are the most probable ones.
        behind: chooses behind the target; None where the sequence ends with it.
    """

    target: tuple[int, ...]
    before: int = 0
    behind: Search | None = None

    @property
    def forced(self) -> int:
        """Number of tokens that are not chosen freely."""
        return self.before + len(self.target)

    def advance(self, live: Sequence[Hypothesis], log_probabilities: Floats) -> Move:
        """Take the target's next token, or the most probable one in front of it; behind it, let the search choose."""
        if self.behind is not None and live[0].length >= self.forced:
            return self.behind.advance(live, log_probabilities)
        (hypothesis,), (row,) = live, log_probabilities
        place = hypothesis.length - self.before
        token = int(row.argmax()) if place < 0 else self.target[place]
        hypothesis = hypothesis.then(token, float(row[token]))
        if place + 1 == len(self.target) and self.behind is None:
            return Move((), (replace(hypothesis, finish=FinishReason.TARGET),))
        return Move((hypothesis,))

    def best(self, ended: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Give the one sequence, or those of the search."""
        return list(ended) if self.behind is None else self.behind.best(ended)

    def score(self, hypothesis: Hypothesis) -> float:
        """Give the score of the search; else nothing is ordered."""
        return 0.0 if self.behind is None else self.behind.score(hypothesis)


class BeamSearch:
    """The `beams` most probable sequences at each step; those that end are ordered by total / length ** length_penalty,
    both of what it has chosen: of tokens that were forced before, nothing counts.

    It goes on until `beams` have ended and no live one can still beat the worst of them.
    """

    def __init__(self, settings: GenerationSettings, ending: Ending) -> None:
        self._beams = settings.beams
        self._penalty = settings.length_penalty
        self._hypotheses = settings.hypotheses
        self._ending = ending
        self._ended: list[float] = []
        self._began: Hypothesis | None = None

    def advance(self, live: Sequence[Hypothesis], log_probabilities: Floats) -> Move:
        """Choose the best continuations of all live hypotheses together."""
        self._began = self._began or live[0]
        if live[0].length >= self._ending.limit:
            best = zip(live, log_probabilities, log_probabilities.argmax(axis=1), strict=True)
            longer = [each.then(int(token), float(row[token]), place) for place, (each, row, token) in enumerate(best)]
            return Move((), tuple(map(self._ending.apply, longer)))
        totals = log_probabilities + np.array([[each.total] for each in live])
        going: list[Hypothesis] = []
        ended: list[Hypothesis] = []
        for flat in self._candidates(totals.ravel()):
            place, token = divmod(flat, totals.shape[1])
            if not np.isfinite(totals[place, token]) or len(going) == self._beams:
                break
            longer = live[place].then(token, float(log_probabilities[place, token]), place)
            hypothesis = self._ending.apply(longer)
            if not hypothesis.finish:
                going.append(hypothesis)
            elif len(ended) < self._beams:  # others of this length are worse
                ended.append(hypothesis)
        self._ended = sorted([*self._ended, *map(self.score, ended)], reverse=True)[: self._beams]
        if len(self._ended) == self._beams and going and self._ended[-1] >= self._bound(going[0]):
            going = []
        return Move(tuple(going), tuple(ended))

    def _candidates(self, totals: Floats) -> Iterator[int]:
        """Give the places of continuations, best first, as many as leave `beams` that go on.

        Of each hypothesis every end token can be among the best; any token can end a stop text, so that with these
        there are more.
        """
        enough = (1 + len(self._ending.end_tokens)) * self._beams
        most = enough if self._ending.stopped is None else _MOST_STOPPED * enough
        found = 0
        for count in sorted({min(2 * self._beams, most), enough, most}):
            yield from largest(totals, count)[found:].tolist()
            found = count

    def best(self, ended: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Give as many hypotheses as requested, by score."""
        return sorted(ended, key=self.score, reverse=True)[: self._hypotheses]

    def score(self, hypothesis: Hypothesis) -> float:
        """Give total log-probability / length ** length_penalty."""
        total, length = self._chosen(hypothesis)
        return total / float(max(length, 1) ** self._penalty)

    def _bound(self, hypothesis: Hypothesis) -> float:
        """Give the best score that a continuation can reach: no token adds to a total, and length helps as the
        penalty says.
        """
        total, length = self._chosen(hypothesis)
        most = length + self._ending.limit + 1 - hypothesis.length
        return total / float((most if self._penalty > 0 else length) ** self._penalty)

    def _chosen(self, hypothesis: Hypothesis) -> tuple[float, int]:
        """Give the log-probability and the number of the tokens that this search chose."""
        began = self._began or Hypothesis()
        return hypothesis.total - began.total, hypothesis.length - began.length


def greedy(log_probabilities: Floats, step: int) -> int:
    """Choose the most probable token; the lowest id where several are."""
    return int(log_probabilities.argmax())


def sampler(settings: GenerationSettings, seed: int) -> Choose:
    """Make the choice by chance: temperature, then top k, then top p of what those leave; one draw a step of the
    row's own stream. Temperature and top p are above 0.
    """

    def choose(log_probabilities: Floats, step: int) -> int:
        allowed = probabilities(log_probabilities, settings)
        # The inverse of the cumulated probabilities in order of token ids: no order of near-equal scores matters.
        cumulated = np.cumsum(allowed)
        draw = generator(seed, step=step).random() * cumulated[-1]
        return min(int(np.searchsorted(cumulated, draw, side="right")), int(np.flatnonzero(allowed)[-1]))

    return choose


def probabilities(log_probabilities: Floats, settings: GenerationSettings) -> Floats:
    """Give the sampling weights [token]: not normalised, zero for tokens that top k and top p leave out."""
    scaled = log_probabilities / settings.temperature
    weights: Floats = np.exp(scaled - scaled.max())
    if not (0 < settings.top_k < len(weights) or settings.top_p < 1):
        return weights
    order = np.argsort(-weights, kind="stable")
    if settings.top_k:
        order = order[: settings.top_k]
    if settings.top_p < 1:
        cumulated = np.cumsum(weights[order])
        order = order[: int(np.searchsorted(cumulated, settings.top_p * cumulated[-1], side="left")) + 1]
    kept = np.zeros_like(weights)
    kept[order] = weights[order]
    return kept


def log_softmax(scores: NDArray[np.generic]) -> Floats:
    """Give log-probabilities [hypothesis, token] in double precision.

    A few hypotheses at a time, whose parts a core's cache holds: of 16 with 8,000 tokens, all at once take three times
    as long.
    """
    wide = scores.astype(np.float64)
    few = max(1, _CACHED // wide.shape[1])
    for first in range(0, len(wide), few):
        rows = wide[first : first + few]
        rows -= rows.max(axis=-1, keepdims=True)
        rows -= np.log(np.exp(rows).sum(axis=-1, keepdims=True))
    return wide


def largest(values: Floats, count: int) -> NDArray[np.intp]:
    """Give the places of the largest values, largest first, the lowest place where they are equal."""
    if count < len(values):
        threshold = np.partition(values, len(values) - count)[len(values) - count]
        places = np.flatnonzero(values >= threshold)
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")][:count]
