"""Threads change sooner while time presses, and as before afterwards."""

import asyncio
import sys
import time
from collections.abc import Iterator

import pytest

from service.engine import turns
from service.engine.model import Model
from service.engine.turns import Turns
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
    monkeypatch.setattr(turns, "_HELD", 0.1)
    one = Turns()
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
    one = Turns()
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
