"""On a device one batch computes while the next is put together and the last one's answers are made."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from limelight_bundle.reader import BundleFolder
from limelight_service.engine.engine import Engine
from limelight_service.engine.jobs import Job
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.forward import Feeds
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.types import Query
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.kit import bundles
from tests.service.engine.test_engine import answered, on_loop

DEVICE = Provider("CPUExecutionProvider", 2, 2, staged=True, device=("cpu", 0))


class Slow:
    """Holds every run on the device until it is let go, and tells what happened in which order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Semaphore(0)
        self.happened: list[str] = []
        self._changed = threading.Condition()
        self._computing = threading.Semaphore(1)
        run, batch = onnxruntime.InferenceSession.run_with_iobinding, Feeds.batch

        def held(session: Any, binding: Any, options: Any = None) -> None:
            assert self._computing.acquire(blocking=False), "two runs of one session at a time"
            self.tell("computes")
            assert self.gate.acquire(timeout=20)
            run(session, binding, options)
            self._computing.release()

        def told(feeds: Feeds, jobs: Sequence[Job]) -> dict[str, np.ndarray]:
            self.tell(f"put together: {[len(job.row.tensors['ids']) for job in jobs]}")
            return batch(feeds, jobs)

        monkeypatch.setattr(onnxruntime.InferenceSession, "run_with_iobinding", held)
        monkeypatch.setattr(Feeds, "batch", told)

    def tell(self, what: str) -> None:
        with self._changed:
            self.happened.append(what)
            self._changed.notify_all()

    async def until(self, *happened: str) -> None:
        """Wait until exactly so much has happened since the last time."""

        def wait() -> None:
            with self._changed:
                self._changed.wait_for(lambda: len(self.happened) >= len(happened), 10)
                assert self.happened == list(happened)
                self.happened.clear()

        await asyncio.to_thread(wait)


@on_loop
async def test_the_stages_of_batches_overlap_and_keep_their_order(
    folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_model(folders["tiny"], DEVICE, Settings(), NullObserver())
    narrow = replace(model, policy=replace(model.policy, max_rows=1))
    rows = [bundles.row(folders["tiny"], ids=[3] * length) for length in (1, 2, 3, 4)]
    slow = Slow(monkeypatch)
    engine = Engine(Settings(), DEVICE)
    await engine.start()
    try:
        first = asyncio.ensure_future(answered(engine, narrow, Query((rows[0],))))
        await slow.until("put together: [1]", "computes")
        others = []
        for row in rows[1:]:
            others.append(asyncio.ensure_future(answered(engine, narrow, Query((row,)))))
            await asyncio.sleep(0)
        await slow.until("put together: [2]")  # while the first one computes
        slow.gate.release()
        (answer,) = await first  # its answer is made while the second one computes
        expected = bundles.tiny_answer(np.array([3]))
        np.testing.assert_allclose(answer.outputs["logits"], expected.outputs["logits"], rtol=1e-4, atol=1e-5)
        assert not any(each.done() for each in others)
        slow.gate.release(3)
        for length, (answer,) in zip((2, 3, 4), await asyncio.gather(*others), strict=True):
            expected = bundles.tiny_answer(np.array([3] * length))
            np.testing.assert_allclose(answer.outputs["logits"], expected.outputs["logits"], rtol=1e-4, atol=1e-5)
        together = [each for each in slow.happened if each != "computes"]
        assert together == ["put together: [3]", "put together: [4]"]
        assert slow.happened.count("computes") == 3
    finally:
        slow.gate.release(10)
        await engine.stop(5.0)
