"""Runs of the runtime that wait until a test lets them go on or fail, and calls of which everything is written down."""

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from limelight_bundle.values import Array
from limelight_service.engine.engine import Engine
from limelight_service.engine.model import Model
from limelight_service.engine.runtime.sessions import Session
from limelight_service.engine.types import Answer, GenerationSettings, Query, Step
from tests.kit import bundles
from tests.service.engine.generating import generating

_ONE_PASS = "tiny"


@dataclass(eq=False)
class HeldRun:
    """A run that waits inside the runtime. model: by the graph's inputs, one that generates or one that does not."""

    one_pass: bool
    rows: int
    released: threading.Event = field(default_factory=threading.Event)
    fails: bool = False


class Gate:
    """Stands in front of every run of the runtime, on the workers' threads.

    failed: kinds of model and numbers of rows of the runs that failed so far.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[HeldRun] = []
        self._open = False
        self.failed: Counter[tuple[bool, int]] = Counter()

    @property
    def held(self) -> list[HeldRun]:
        """Those that wait, in order of arrival."""
        with self._lock:
            return list(self._held)

    def run(self, session: Session, outputs: Sequence[str], feeds: Mapping[str, Array], **how: Any) -> list[Array]:
        """Wait; then run, or fail as a library does."""
        one_pass = "mask" in feeds and "logits" in session.outputs
        run = HeldRun(one_pass, len(next(iter(feeds.values()))))
        with self._lock:
            waits = not self._open
            if waits:
                self._held.append(run)
        if waits:
            assert run.released.wait(60), "nobody let this run go on"
        if run.fails:
            raise RuntimeError("/secret/path: the runtime fails, as it was told to")
        return _run(session, outputs, feeds, **how)

    def release(self, run: HeldRun, *, fails: bool) -> None:
        """Let a run go on, or fail."""
        with self._lock:
            self._held.remove(run)
            run.fails = fails
            if fails:
                self.failed[run.one_pass, run.rows] += 1
        run.released.set()

    def open(self) -> None:
        """Let all go on from now on."""
        with self._lock:
            self._open = True
            waiting, self._held = self._held, []
        for each in waiting:
            each.released.set()


_run = Session.run


def stand_before_sessions(patch: pytest.MonkeyPatch, gate: Gate) -> None:
    """Have every run of every session go through a gate."""

    def run(self: Session, outputs: Sequence[str], feeds: Mapping[str, Array], **how: Any) -> list[Array]:
        return gate.run(self, outputs, feeds, **how)

    patch.setattr(Session, "run", run)


@dataclass(eq=False)
class ScriptedCall:
    """A call, what the workers made for it, and what its caller got.

    sources: the token ids of its rows, which no other call of a test has. finished: by row, how often its answer was
    built; steps: indices of the tokens that were built. got: what came to the caller, in order. may_read: permissions
    of a stream's caller to read on; None for one that always reads.
    """

    model: str
    sources: tuple[tuple[int, ...], ...]
    deadline: float | None
    streams: bool
    may_read: asyncio.Semaphore | None = None
    finished: Counter[int] = field(default_factory=Counter)
    steps: list[int] = field(default_factory=list)
    got: list[Step | Answer] = field(default_factory=list)
    error: type[BaseException] | None = None
    cancelled: bool = False
    ended: bool = False

    @property
    def built(self) -> int:
        """Number of times that a worker built something for it."""
        return self.finished.total() + len(self.steps)

    async def make(self, engine: Engine, model: Model, rows: Sequence[object]) -> None:
        """Make the call and write down how it ends."""
        query = Query(tuple(rows), generation=GenerationSettings(), deadline=self.deadline)  # type: ignore[arg-type]
        try:
            if self.streams:
                await self._read(engine, model, query)
            else:
                self.got += await engine.answer(model, query, self._finish)
        except BaseException as error:  # a cancellation too; the traceback would keep the model
            self.error = type(error)
        finally:
            self.ended = True

    async def _read(self, engine: Engine, model: Model, query: Query) -> None:
        with generating(engine, model, query, self._tell, lambda answer: self._finish(0, answer)) as events:
            async for event in events:
                self.got.append(event)
                if self.may_read is not None:
                    await self.may_read.acquire()

    def _finish(self, index: int, answer: Answer) -> Answer:
        self.finished[index] += 1
        return answer

    def _tell(self, step: Step) -> Step:
        self.steps.append(step.index)
        return step

    def check_answers(self) -> None:
        """Hold what came against NumPy: every row its own, in order, each once."""
        answers = [each for each in self.got if isinstance(each, Answer)]
        assert len(answers) == len(self.sources)
        assert self.finished == Counter(range(len(self.sources)))
        for source, answer in zip(self.sources, answers, strict=True):
            if self.model == _ONE_PASS:
                np.testing.assert_allclose(answer.outputs["features"], _features(source), rtol=1e-3, atol=1e-4)
            else:
                tokens, chances = _sequence(source)
                assert answer.sequences[0].token_ids == tokens
                np.testing.assert_allclose(answer.sequences[0].log_probabilities, chances, atol=1e-3)
        if self.streams:
            *steps, last = self.got
            assert isinstance(last, Answer)
            assert [each.token_id for each in steps if isinstance(each, Step)] == list(last.sequences[0].token_ids)

    def check_steps(self) -> None:
        """A stream, whole or not, holds each token once and in order."""
        steps = [each for each in self.got if isinstance(each, Step)]
        assert [each.index for each in steps] == list(range(len(steps)))
        assert self.steps == list(range(len(self.steps)))
        if self.streams:
            assert [each.token_id for each in steps] == list(_sequence(self.sources[0])[0][: len(steps)])


@lru_cache(maxsize=4096)
def _features(source: tuple[int, ...]) -> Array:
    return bundles.tiny_answer(np.array(source)).outputs["features"]


@lru_cache(maxsize=4096)
def _sequence(source: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The tokens that a source is answered with, and the logarithms of their probabilities."""
    tokens = bundles.echo_answer(np.array(source)).token_ids
    chances = [bundles.log_probabilities(np.array(source), tokens[:place])[each] for place, each in enumerate(tokens)]
    return tuple(tokens), tuple(map(float, chances))
