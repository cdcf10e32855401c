"""Cycles are collected on the event loop and on no other thread, and all of them are."""

import asyncio
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

import grpc
import pytest

from limelight_service.admission.memory import Held
from limelight_service.frontend.call import Call
from limelight_service.platform import collector
from limelight_service.platform.collector import collected_between_turns
from tests.kit import bundles
from tests.kit.serving import attend, eventually, generate, predict, serving, text

UP_TO_311 = pytest.mark.skipif(not collector.NEEDED, reason="from Python 3.12 on Python's own collector is used")
_HANDLING = tuple(f"{os.sep}service{os.sep}{room}{os.sep}" for room in ("frontend", "codecs"))


@pytest.fixture
def collecting() -> Iterator[set[str]]:
    """Names of the threads that have collected."""
    names: set[str] = set()

    def note(*_: object) -> None:
        names.add(threading.current_thread().name)

    gc.callbacks.append(note)
    yield names
    gc.callbacks.remove(note)


@UP_TO_311
def test_other_threads_do_not_collect(collecting: set[str]) -> None:
    async def test() -> None:
        async with collected_between_turns():
            collecting.clear()
            for _ in range(6000):
                await asyncio.to_thread(lambda: [Cycle() for _ in range(10000)])
                if collecting:
                    break
                await asyncio.sleep(0.01)

    asyncio.run(test())
    assert collecting == {threading.main_thread().name}


@UP_TO_311
def test_a_server_collects_on_its_event_loop(tmp_path: Path, collecting: set[str]) -> None:
    bundles.tiny(tmp_path)
    with serving(tmp_path) as running:
        collecting.clear()
        kept = []
        for _ in range(3000):
            # Prepared by a thread, and framed by a lane, which make objects of their own.
            kept.append(running.stub.Attend(attend("tiny", *[text("the cat " * 12)] * 8)))
            if collecting:
                break
        assert collecting == {"server"}


def test_nothing_of_ours_in_a_call_waits_to_be_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles.tiny(tmp_path)
    bundles.echo(tmp_path)
    good, bad = predict("tiny", text("the cat sat")), predict("nobody", text("the cat sat"))
    many = [text("the cat " * 12)] * 32  # prepared elsewhere than on the loop
    stream = generate("echo", text("the cat"))
    with serving(tmp_path) as running:
        stub = running.stub

        def whole() -> list[partial[object]]:
            """Calls that take a while."""
            chunks = partial(stub.AttendStream, attend("tiny", many[0]))
            return [partial(stub.Predict, predict("tiny", *many)), lambda **late: list(chunks(**late))]

        taken = []
        for call in whole():
            call()
            before = time.monotonic()
            call()
            taken.append(time.monotonic() - before)
        gc.collect()
        monkeypatch.setattr(gc, "collect", lambda *_: 0)
        for _ in range(3):
            assert stub.Predict(good).predictions
            assert stub.Attend(attend("tiny", text("the cat sat"))).results
            assert len(list(stub.Generate(stream))) > 2
            refused = [partial(stub.Predict, bad), partial(stub.Predict, predict("tiny", *many, text("")))]
            for call, seconds in zip(whole(), taken, strict=True):
                refused += [partial(call, timeout=seconds * part / 8) for part in range(1, 8)]
            for each in refused:
                with suppress(grpc.RpcError):
                    each()
            stub.Generate(stream).cancel()
        assert eventually(lambda: not waiting())
        assert sum(type(each).__name__ == "_ServicerContext" for each in gc.get_objects()) >= 12  # in gRPC's own cycles


def waiting() -> list[object]:
    """Objects of calls: their own, and the frames that their failures were raised in."""
    return [
        each
        for each in gc.get_objects()
        if type(each) in (Call, Held)
        or (type(each) is FrameType and any(room in each.f_code.co_filename for room in _HANDLING))
    ]


def test_what_other_threads_are_making_can_be_made() -> None:
    made, failed = 0, []

    def make(until: float) -> None:
        nonlocal made
        while time.monotonic() < until:
            try:
                tuple(each for each in range(60))
            except SystemError as error:  # a list has the tuple as well
                failed.append(error)
            made += 1

    between = sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        sys.setswitchinterval(1e-6)
        making = threading.Thread(target=make, args=(time.monotonic() + 1,))
        making.start()
        while making.is_alive():
            gc.collect(0)
            gc.collect(1)
            collector.count_lasting()
    finally:
        sys.setswitchinterval(between)
        gc.enable()
        gc.unfreeze()
    assert made and not failed


@UP_TO_311
@pytest.mark.parametrize("generation", [0, 1, 2])
def test_cycles_go_whatever_generation_they_came_to(generation: int) -> None:
    async def test() -> None:
        async with collected_between_turns():
            assert not gc.isenabled()
            cycle = Cycle()
            for _ in range(generation):
                gc.collect(generation - 1)  # what lives through it is a generation older
            gone = threading.Event()
            weakref.finalize(cycle, gone.set)
            del cycle
            for _ in range(6000):
                kept = [[] for _ in range(1000)]  # type: ignore[var-annotated]  # makes a collection due
                await asyncio.sleep(0.01)
                del kept
                if gone.is_set():
                    break
            assert gone.is_set()
        assert gc.isenabled()

    asyncio.run(test())


class Cycle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self
