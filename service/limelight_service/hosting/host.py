"""The engine's side of the boundary: requests come in, results go out, for frontends in this process or in others."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from limelight_bundle.descriptions import sequence_description
from limelight_service.engine.engine import Admission, Engine
from limelight_service.engine.jobs import AdmittedCall, Outcome
from limelight_service.engine.map_stream import MapStream
from limelight_service.engine.reduction import row_result, token_result
from limelight_service.errors import WrongModelError
from limelight_service.hosting.hosted import HostedModel
from limelight_service.hosting.store import ModelStore
from limelight_service.ipc.boundary import (
    ChunkResult,
    GenerationBegun,
    InferenceRequest,
    RowResult,
    Strategy,
    StreamBegun,
    TokenResult,
    WaitEstimate,
)

T = TypeVar("T")
Receive = Callable[[int, Outcome], None]


@dataclass
class Submission:
    """A call that was admitted. begun: of a generation, its first event."""

    call: AdmittedCall
    begun: GenerationBegun | None
    _admission: Admission
    _end: Callable[[], None]
    _is_open: bool = True

    def sent(self) -> None:
        """Count a token that was sent to the reader."""
        self._admission.sent()

    def close(self) -> None:
        """End the call; what has not ended of it is withdrawn."""
        if self._is_open:
            self._is_open = False
            self._admission.close()
            self._end()


class EngineHost:
    """Carries out requests with one engine and its models. For one event loop.

    `make` functions run on worker threads, as soon as a result is there, and decide the value that is told of it.
    """

    def __init__(self, engine: Engine, store: ModelStore) -> None:
        self.engine = engine
        self.store = store

    def wait(self, name: str, version: int) -> WaitEstimate:
        """Estimate how long a row that arrives now takes."""
        status = self.store.catalogue.get(name, version)
        return WaitEstimate() if status is None or status.model is None else self.engine.wait(status.model.model)

    def waits(self) -> dict[str, WaitEstimate]:
        """Estimate it for every version for which a row would have to wait, by `name/version`."""
        return {f"{model.name}/{model.version}": each for model, each in self.engine.waits().items()}

    def answer(self, request: InferenceRequest, make: Callable[[int, RowResult], Any], receive: Receive) -> Submission:
        """Answer each row; `receive` gets an outcome for each, on the event loop.

        Raises: ModelUnavailableError, QueueFullError, DeadlineError.
        """
        hosted = self.store.begin(request.model, request.version)
        try:
            plan, growing = hosted.plan(request.attention), hosted.growing_labels

            def finish(index: int, answer: Any) -> Any:
                result = row_result(answer, request.rows[index], plan, outputs=request.outputs, growing=growing)
                return make(index, result)

            call = AdmittedCall(hosted.model.seeded(hosted.query(request, plan)), receive, finish)
            return self._admitted(hosted, call, None)
        except BaseException:
            self.store.end(hosted)
            raise

    def generate(
        self, request: InferenceRequest, make: Callable[[TokenResult | RowResult], Any], receive: Receive
    ) -> Submission:
        """Generate one row; `receive` gets an outcome for each token, and one for the whole answer.

        Beam search tells no tokens. Raises: as `answer`; WrongModelError for a model that does not generate.
        """
        hosted = self.store.begin(request.model, request.version)
        try:
            model, row = hosted.model, request.rows[0]
            if not model.generates:
                raise WrongModelError(f"{model.name} does not generate; Predict and Attend answer for it")
            plan, growing = hosted.plan(request.attention), hosted.growing_labels
            beams = request.generation.strategy is Strategy.BEAM
            told = "" if beams else sequence_description(model.description).label_set

            def tell(step: Any) -> Any:
                return make(token_result(step, row.labels, plan))

            def finish(_: int, answer: Any) -> Any:
                result = row_result(answer, row, plan, outputs=request.outputs, growing=growing, left_out=told)
                return make(result)

            query = model.seeded(hosted.query(request, plan))
            call = AdmittedCall(query, receive, finish, None if beams else tell)
            begun = GenerationBegun(query.seeds[0], tuple(model.input_labels(row).values()))
            return self._admitted(hosted, call, begun)
        except BaseException:
            self.store.end(hosted)
            raise

    async def stream(
        self, request: InferenceRequest, chunk_bytes: int, make: Callable[[StreamBegun | ChunkResult], T]
    ) -> AsyncGenerator[T, None]:
        """Stream the maps of one row: its prediction first, then chunks, a few of them ahead of the reader.

        Raises: as `answer`; InputError where the answer lacks an index that was asked for.
        """
        hosted = self.store.begin(request.model, request.version)
        try:
            plan = hosted.plan(request.attention)
            assert plan is not None
            stream = MapStream(request, 0, plan, chunk_bytes)
            query = hosted.query(request, plan, streamed=True)
            (begun,) = await self.engine.answer(hosted.model, query, lambda _, answer: make(stream.begin(answer)))
            yield begun
            async with aclosing(self.engine.chunks(hosted.model, stream.chunks(make), request.deadline)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self.store.end(hosted)

    def _admitted(self, hosted: HostedModel, call: AdmittedCall, begun: GenerationBegun | None) -> Submission:
        admission = self.engine.admit(hosted.model, call)
        return Submission(call, begun, admission, lambda: self.store.end(hosted))
