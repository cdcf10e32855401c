"""An engine in this process, as a frontend uses it."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from limelight_service.engine.engine import Answers
from limelight_service.engine.jobs import Delivered, Outcome
from limelight_service.hosting.host import EngineHost
from limelight_service.hosting.store import Status
from limelight_service.ipc.boundary import GenerationEvent, InferenceRequest, RowResult, StreamEvent, WaitEstimate
from limelight_service.ipc.client import ModelListener
from limelight_service.repository.catalogue import State
from limelight_service.repository.usage import Releases

T = TypeVar("T")


class LocalEngine:
    """An engine without a connection. For one event loop."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._rows: Counter[tuple[str, int]] = Counter()
        self._listener: ModelListener | None = None
        self._releases: Releases[tuple[str, int]] = Releases()

    def listen(self, listener: ModelListener) -> None:
        """As `EngineClient.listen`."""
        store = self._host.store
        self._listener = listener

        def changed(status: Status) -> None:
            served = None if status.model is None else status.model.served
            if status.state is State.FAILED:
                self._releases.expect((status.name, status.version))
            listener.model_changed(status.name, status.version, status.state, status.reason, served)

        def gone(name: str, version: int) -> None:
            self._releases.expect((name, version))
            listener.model_gone(name, version)

        store.on_status = changed
        store.on_gone = gone
        store.released = lambda name, version: self._releases.released((name, version))
        for status in store.catalogue.statuses():
            changed(status)

    def loaded(self) -> None:
        """Tell the listener that the models that a start waits for are there."""
        assert self._listener is not None
        self._listener.loaded()

    def wait(self, name: str, version: int) -> WaitEstimate:
        """As `EngineClient.wait`."""
        return self._host.wait(name, version)

    def under_way(self, name: str, version: int) -> int:
        """As `EngineClient.under_way`."""
        return self._rows[name, version]

    async def answer(self, request: InferenceRequest, make: Callable[[int, RowResult], T]) -> list[T]:
        """As `EngineClient.answer`."""
        results: Answers[T] = Answers(len(request.rows))
        key, count = (request.model, request.version), len(request.rows)
        submission = self._host.submit(request, make, results.receive)
        self._rows[key] += count
        try:
            return await results.all()
        finally:
            self._rows[key] -= count
            submission.close()

    async def generate(self, request: InferenceRequest) -> AsyncGenerator[GenerationEvent, None]:
        """As `EngineClient.generate`."""
        events: asyncio.Queue[Outcome] = asyncio.Queue()
        key = request.model, request.version
        submission = self._host.submit(
            request, lambda _, event: event, lambda _, outcome: events.put_nowait(outcome), by_token=True
        )
        self._rows[key] += 1
        try:
            yield submission.begun()
            while True:
                outcome = await events.get()
                if not isinstance(outcome, Delivered):
                    raise outcome
                yield outcome.value
                if outcome.last:
                    return
                submission.sent()
        finally:
            self._rows[key] -= 1
            submission.close()

    async def stream(self, request: InferenceRequest, chunk_bytes: int) -> AsyncGenerator[StreamEvent, None]:
        """As `EngineClient.stream`."""
        self._rows[request.model, request.version] += 1
        events = self._host.stream(request, chunk_bytes, lambda event: event)
        try:
            async for event in events:
                yield event
        finally:
            self._rows[request.model, request.version] -= 1
            await events.aclose()

    def release(self, name: str, version: int) -> None:
        """As `EngineClient.release`."""
        self._releases.release((name, version))
