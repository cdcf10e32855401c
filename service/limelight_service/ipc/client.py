"""A frontend's client of an engine, in this process or in another: one protocol for both."""

from collections.abc import AsyncGenerator, Callable
from typing import Protocol, TypeVar

from limelight_service.ipc.boundary import (
    GenerationEvent,
    InferenceRequest,
    RowResult,
    ServedModel,
    StreamEvent,
    WaitEstimate,
)
from limelight_service.repository.catalogue import State

T = TypeVar("T")


def as_it_is(index: int, result: RowResult) -> RowResult:
    """Make nothing of a result (`EngineClient.answer`)."""
    return result


class ModelListener(Protocol):
    """Told of the models of an engine, on the event loop."""

    def model_changed(self, name: str, version: int, state: State, reason: str, served: ServedModel | None) -> None:
        """Take the state of a version. served: where it is ready."""

    def model_gone(self, name: str, version: int) -> None:
        """Take out a version that was unloaded; `EngineClient.release` is called once no call uses it."""

    def loaded(self) -> None:
        """All models that a start waits for are loaded or refused."""

    def engine_lost(self) -> None:
        """The engine is gone, and nothing of it answers until another takes its place."""

    def engine_silent(self, silent: bool) -> None:
        """The engine does not answer pings, or does again."""


class EngineClient(Protocol):
    """One engine. For one event loop.

    Failures are LimelightErrors: QueueFullError, DeadlineError, ModelUnavailableError, InferenceError, InputError.
    """

    def listen(self, listener: ModelListener) -> None:
        """Tell a listener of every model there is, and of every change."""

    def wait(self, name: str, version: int) -> WaitEstimate:
        """Estimate how long a row that arrives now takes."""

    def under_way(self, name: str, version: int) -> int:
        """Count the rows of a version that were handed to the engine here and have not ended."""

    async def answer(self, request: InferenceRequest, make: Callable[[int, RowResult], T]) -> list[T]:
        """Answer each row, in order. Cancelling the awaiting task withdraws the rows.

        Args:
            make: makes what is given back of row i's result; on the thread that computed it, where that is in this
                process, and on the event loop otherwise.

        Raises: what `make` raises, a LimelightError.
        """

    def generate(self, request: InferenceRequest) -> AsyncGenerator[GenerationEvent, None]:
        """Generate one row: `GenerationBegun`, tokens, and the whole result. Closing the generator withdraws it."""

    def stream(self, request: InferenceRequest, chunk_bytes: int) -> AsyncGenerator[StreamEvent, None]:
        """Stream the maps of one row. Closing the generator withdraws what is not computed."""

    def release(self, name: str, version: int) -> None:
        """Say that no call uses a version any more that was told to be gone."""
