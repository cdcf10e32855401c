"""The engine under anything in any order: calls, cancellations, deadlines, failures, swaps of models, a stop.

Models and runtime are real; runs wait inside the runtime until the machine lets them go on or fail. `pytest
--hypothesis-profile deep` tries many more.
"""

import asyncio
import contextlib
import gc
import itertools
import logging
import time
import weakref
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from limelight_bundle.reader import BundleFolder
from limelight_service.engine.engine import Engine
from limelight_service.engine.model import Model
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import Provider
from limelight_service.errors import DeadlineError, InferenceError, ModelUnavailableError, QueueFullError
from limelight_service.observability.metrics import Metrics
from limelight_service.settings import Settings
from tests.kit import bundles
from tests.service.engine.scripted import Gate, ScriptedCall, stand_before_sessions

WORKERS, QUEUE_ROWS, POOL_ROWS = 2, 8, 3
_PATIENCE = 30.0  # seconds in which idle workers take what is ready, on however busy a machine
_LOOKS_AGAIN = 0.01
_DEEP = settings.get_current_profile_name() == "deep"
_SETTINGS = settings(max_examples=400 if _DEEP else 25, stateful_step_count=80 if _DEEP else 30, deadline=None)

# Which of those that are there now: what time decides may not decide what hypothesis draws.
PLACES = st.integers(0, 9)


class EngineMachine(RuleBasedStateMachine):
    """Rules do what callers, clocks, runtimes and operators do; each ends when the workers have come to rest."""

    loaded: dict[str, Model]
    folders: dict[str, BundleFolder]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.patch, self.gate, self.metrics = pytest.MonkeyPatch(), Gate(), Metrics()
        stand_before_sessions(self.patch, self.gate)
        self.engine = Engine(
            Settings(queue_rows=QUEUE_ROWS),
            Provider("CPUExecutionProvider", WORKERS, WORKERS, cores=WORKERS),
            observer=self.metrics,
        )
        self.models = {name: replace(model) for name, model in self.loaded.items()}
        self.retired: list[weakref.ref[Model]] = []
        self.calls: list[ScriptedCall] = []
        self.tasks: dict[ScriptedCall, asyncio.Task[None]] = {}
        self.used: dict[ScriptedCall, Model] = {}
        self.swaps: list[asyncio.Task[None]] = []
        self.closed: dict[ScriptedCall, int] = {}  # how much may have been built for a call that has ended
        self.stopped: asyncio.Task[None] | None = None
        self.numbers = itertools.count()

    @initialize()
    def start(self) -> None:
        self._do(self.engine.start())

    @rule(
        name=st.sampled_from(["tiny", "echo"]), rows=st.integers(1, 4), patience=st.sampled_from([None, 0.0, 0.004, 60])
    )
    def call(self, name: str, rows: int, patience: float | None) -> None:
        self._begin(name, rows, patience, streams=False)

    @rule(patience=st.sampled_from([None, 0.004, 60]), reads=st.booleans())
    def stream(self, patience: float | None, reads: bool) -> None:
        self._begin("echo", 1, patience, streams=True, reads=reads)

    @rule(which=PLACES, messages=st.integers(1, 20))
    def read_on(self, which: int, messages: int) -> None:
        waiting = [each for each in self.calls if each.may_read and not each.ended]
        for _ in range(messages if waiting else 0):
            waiting[which % len(waiting)].may_read.release()
        self._rest()

    @rule(which=PLACES)
    def cancel(self, which: int) -> None:
        if there := [each for each in self.calls if not each.ended]:
            call = there[which % len(there)]
            call.cancelled = True
            self.tasks[call].cancel()
        self._rest()

    @rule(place=st.integers(0, WORKERS - 1), fails=st.sampled_from([False, False, True]), more=st.integers(0, 6))
    def let_run(self, place: int, fails: bool, more: int) -> None:
        for number in range(1 + more):
            held = self.gate.held
            if held:
                self.gate.release(held[min(place, len(held) - 1)], fails=fails and not number)
                self._rest()

    @rule()
    def let_time_pass(self) -> None:
        self._do(asyncio.sleep(0.005))
        self._rest()

    @rule(name=st.sampled_from(["tiny", "echo"]))
    def swap(self, name: str) -> None:
        before = self.models[name]
        self.models[name] = replace(before, version=before.version + 1)
        self.retired.append(weakref.ref(before))
        self.swaps.append(self.loop.create_task(self._retire(before)))
        del before
        self._rest()

    @precondition(lambda self: self.stopped is None and len(self.calls) > 5)
    @rule(grace=st.sampled_from([0.0, 60.0]))
    def stop(self, grace: float) -> None:
        self.stopped = self.loop.create_task(self.engine.stop(grace))
        self._do(asyncio.sleep(0))
        self.gate.open()
        for call in self.calls:
            for _ in range(100 if call.may_read else 0):
                call.may_read.release()
        self._do(asyncio.wait_for(asyncio.shield(self.stopped), _PATIENCE))
        self._do(asyncio.sleep(0))
        assert all(call.ended for call in self.calls)

    @invariant()
    def every_row_is_answered_once_and_with_its_own(self) -> None:
        for call in self.calls:
            assert all(times == 1 for times in call.finished.values()), "a row was answered twice"
            call.check_steps()
            if call.ended and call.error is None:
                call.check_answers()
            elif call.ended:
                self._check_error(call)

    @invariant()
    def nothing_is_built_for_a_call_that_has_ended(self) -> None:
        """An answer under way may still be built once, for nobody; nothing begins any more."""
        held = {run.one_pass for run in self.gate.held}
        for call in self.calls:
            if call.ended and call not in self.closed:
                running = (call.model == "tiny") in held
                self.closed[call] = call.built + (len(call.sources) + 1 if running else 0)
            elif call.ended:
                assert call.built <= self.closed[call]

    @invariant()
    def gauges_count_what_is_there(self) -> None:
        end = time.monotonic() + _PATIENCE
        while self._counted() != self._there():  # a worker takes rows out before it says so
            assert time.monotonic() < end, f"{self._counted()} are counted, {self._there()} are there"
            self._do(asyncio.sleep(0.001))

    def teardown(self) -> None:
        try:
            self.gate.open()
            for call in self.calls:
                for _ in range(100 if call.may_read else 0):
                    call.may_read.release()
            self._do(asyncio.wait_for(_all(self.tasks.values()), _PATIENCE))
            self.tasks.clear()
            self.every_row_is_answered_once_and_with_its_own()
            if self.stopped is None:
                for name in ("tiny", "echo"):
                    self._finish_swap(name)
                self._do(self.engine.stop(5.0))
            self.gauges_count_what_is_there()
            assert self._there()[1] == 0
            assert self.stopped or self.engine.activity().unended == self.engine.activity().waiting == 0
        finally:
            self.gate.open()
            if self.stopped is None:
                self._do(self.engine.stop(0.0))
            for task in self.swaps:
                task.cancel()
            self._do(_all(self.swaps))
            self.patch.undo()
            self.loop.close()

    def _finish_swap(self, name: str) -> None:
        """All that was retired is let go of, by the engine and by whoever it told."""
        self.swap(name)
        self._do(asyncio.wait_for(_all(self.swaps), _PATIENCE))
        self._rest()
        if any(each() for each in self.retired):
            gc.collect()  # an error that was raised and the frames that it came through hold each other
        assert not any(each() for each in self.retired), "a model that was unloaded is still there"

    def _begin(self, name: str, rows: int, patience: float | None, *, streams: bool, reads: bool = True) -> None:
        sources = tuple(_source(next(self.numbers)) for _ in range(rows))
        deadline = None if patience is None else time.monotonic() + patience
        permissions = None if reads else asyncio.Semaphore(0)
        call = ScriptedCall(name, sources, deadline, streams, permissions)
        made = [bundles.row(self.folders[name], ids=list(source)) for source in sources]
        self.calls.append(call)
        self.used[call] = self.models[name]
        task = self.loop.create_task(call.make(self.engine, self.models[name], made))
        task.add_done_callback(lambda _: self.used.pop(call))
        self.tasks[call] = task
        self._rest()

    async def _retire(self, model: Model) -> None:
        """Unload as the repository does: once no call uses it."""
        while model in self.used.values():
            await asyncio.sleep(0.001)
        await self.engine.forget(model)

    def _check_error(self, call: ScriptedCall) -> None:
        failed = self.gate.failed
        allowed = {
            asyncio.CancelledError: call.cancelled,
            DeadlineError: call.deadline is not None,
            QueueFullError: True,
            ModelUnavailableError: self.stopped is not None,
            # Rows that fail together run again apart, unless they were a stream's and told tokens already.
            InferenceError: failed[True, 1] if call.model == "tiny" else any(not each for each, _ in failed),
        }
        assert call.error is not None
        assert any(allowed[kind] for kind in call.error.__mro__ if kind in allowed), f"{call.error} for {call.sources}"

    def _rest(self) -> None:
        """Wait until workers hold a run or have nothing to take, and everybody was told.

        A worker that holds a run may have made others ready, which are looked at again when its turn is over.
        """
        begun = time.monotonic()
        while not self._rests(time.monotonic() - begun):
            assert time.monotonic() - begun < _PATIENCE, "workers leave something that is ready"
            self._do(asyncio.sleep(0.0003))

    def _rests(self, waited: float) -> bool:
        for _ in range(3):  # the loop's own turns
            self._do(asyncio.sleep(0))
        held, now = len(self.gate.held), self.engine.activity()
        ended = self.stopped is not None and self.stopped.done()
        taken = held == WORKERS or not now.is_ready or (held and waited > _LOOKS_AGAIN)
        later = self.engine.activity()  # an outcome may have come behind the first look
        return not later.holds_outcomes and (ended or (now.running == held and bool(taken)))

    def _counted(self) -> tuple[float, float]:
        return self._gauge("limelight_queue_depth"), self._gauge("limelight_inflight_requests")

    def _there(self) -> tuple[float, float]:
        """Rows that wait, and calls that have not ended."""
        return self.engine.activity().waiting, len(self.used)

    def _gauge(self, name: str) -> float:
        return sum(value for _, (value,) in self.metrics.snapshot()[name]["series"])

    def _do(self, work: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> Any:
        return self.loop.run_until_complete(work)


async def _all(tasks: Iterable[asyncio.Task[None]]) -> None:
    for each in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await each


def _source(number: int) -> tuple[int, ...]:
    """Token ids that no other number has, of several lengths."""
    return tuple(4 + int(digit) for digit in f"{number}{number % 7}{'1' * (number % 3)}5{number:03d}")


@pytest.fixture(scope="module")
def opened(folders: dict[str, BundleFolder]) -> Iterator[type[EngineMachine]]:
    """The machine over two real models: one that answers in a pass, and one that generates, three rows together."""
    provider = Provider("CPUExecutionProvider", WORKERS, WORKERS, cores=WORKERS)
    machine = type("Opened", (EngineMachine,), {})
    machine.folders = folders
    machine.loaded = {
        name: open_model(folders[name], provider, Settings(max_batch_rows=POOL_ROWS), Metrics())
        for name in ("tiny", "echo")
    }
    gc.freeze()  # what is there by now is not looked at again
    logging.disable(logging.ERROR)  # pytest would keep every failure, and with its traceback the model
    yield machine
    logging.disable(logging.NOTSET)
    gc.unfreeze()


def test_no_row_is_lost_doubled_mixed_or_answered_after_its_end(opened: type[EngineMachine]) -> None:
    run_state_machine_as_test(opened, settings=_SETTINGS)
