"""While time presses threads change sooner and each lane has a core of its own; afterwards all is as before."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from service.engine import pressure
from service.engine.model import Model
from service.engine.pressure import Pressure
from service.errors import QueueFullError
from tests.service.engine.test_engine import on_loop, running

_USUAL = 0.003


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """The interpreter of the tests, with turns that are told apart from any other's."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_USUAL)
    yield
    sys.setswitchinterval(before)


def is_short() -> bool:
    return sys.getswitchinterval() < _USUAL / 2


async def until_usual() -> float:
    """Wait for turns to be as they were, and tell how long that took."""
    began = time.monotonic()
    while is_short():
        assert time.monotonic() < began + 20
        await asyncio.sleep(0.005)
    assert sys.getswitchinterval() == pytest.approx(_USUAL)
    return time.monotonic() - began


@on_loop
async def test_turns_are_short_until_it_has_not_pressed_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "_HELD", 0.1)
    one = Pressure(())
    assert not is_short()
    for _ in range(2):
        one.press()
        assert is_short()
        await asyncio.sleep(0.06)
        one.press()
        assert await until_usual() >= 0.09
    one.press()
    one.close()
    assert not is_short()


@on_loop
async def test_what_was_said_of_turns_meanwhile_stays() -> None:
    one = Pressure(())
    one.press()
    sys.setswitchinterval(0.002)
    one.close()
    assert sys.getswitchinterval() == pytest.approx(0.002)


@on_loop
async def test_time_presses_where_an_answer_takes_much_of_what_its_caller_has_left(
    fake: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(1) as engine:
        monkeypatch.setattr(engine._lanes._queue, "expected_seconds", lambda *of: 1.0)
        engine.check(fake, 1, 0, None, 0.0)  # a caller who has any time
        engine.check(fake, 1, 0, time.monotonic() + 60, 0.0)
        assert not is_short()
        engine.check(fake, 1, 0, time.monotonic() + 4, 0.0)
        assert is_short()
    assert not is_short()  # with the engine it is over


@on_loop
async def test_refused_calls_press(fake: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(1) as engine:
        monkeypatch.setattr(engine._lanes._queue, "expected_seconds", lambda *of: 1.0)
        with pytest.raises(QueueFullError):
            engine.check(fake, 1, 0, time.monotonic() + 0.5, 0.0)
        assert is_short()


@contextmanager
def threads(count: int) -> Iterator[list[threading.Thread]]:
    """Some that do nothing."""
    over = threading.Event()
    found = [threading.Thread(target=over.wait) for _ in range(count)]
    for each in found:
        each.start()
    yield found
    over.set()
    for each in found:
        each.join()


def cores_of(lanes: list[threading.Thread]) -> list[set[int]]:
    return [os.sched_getaffinity(each.native_id or 0) for each in lanes]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not say which core a thread has")
@on_loop
async def test_each_lane_has_a_core_of_its_own_while_time_presses_where_they_are_as_many() -> None:
    cores = os.sched_getaffinity(0)
    for count in (len(cores), len(cores) + 1):
        with threads(count) as lanes:
            one = Pressure(lanes)
            one.press()
            apart = [{core} for core in sorted(cores)] if count == len(cores) else [cores] * count
            assert cores_of(lanes) == apart
            assert os.sched_getaffinity(0) == cores  # the event loop's are its own
            one.close()
            assert cores_of(lanes) == [cores] * count


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not say which core a thread has")
@on_loop
async def test_a_lane_that_has_ended_is_no_reason_to_fail() -> None:
    with threads(len(os.sched_getaffinity(0))) as lanes:
        one = Pressure(lanes)
    one.press()
    one.close()
