"""The engine's side of the boundary: requests come in, results go out, for frontends in this process or in others."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from limelight_bundle.descriptions import sequence_description
from limelight_bundle.generation import read_steps, steps_to_come
from limelight_bundle.rows import Labels
from limelight_service.engine.engine import Engine
from limelight_service.engine.jobs import AdmittedCall, Outcome
from limelight_service.engine.map_stream import MapStream
from limelight_service.engine.model import Model
from limelight_service.engine.reduction import row_result, token_result
from limelight_service.engine.types import Answer, Step
from limelight_service.errors import WrongModelError
from limelight_service.hosting.store import ModelStore
from limelight_service.ipc.boundary import (
    ChunkResult,
    GenerationBegun,
    InferenceRequest,
    Strategy,
    StreamBegun,
    WaitEstimate,
)

T = TypeVar("T")
Receive = Callable[[int, Outcome], None]


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

    def submit(
        self, request: InferenceRequest, make: Callable[[int, Any], Any], receive: Receive, *, by_token: bool = False
    ) -> "Submission":
        """Answer each row of a call, or generate its one row token by token.

        Args:
            make: makes, on the worker, what is delivered of row i: of its `RowResult`, and of each `TokenResult`.
            receive: gets an outcome for each of those, on the event loop.
            by_token: tokens are delivered one by one, and the maps that they brought are not in the whole result. Beam
                search tells no tokens.

        Raises: ModelUnavailableError, QueueFullError, DeadlineError; WrongModelError for tokens of a model that does
            not generate.
        """
        hosted = self.store.begin(request.model, request.version)
        try:
            model, plan, growing = hosted.model, hosted.plan(request.attention), hosted.growing_labels
            if by_token and not model.generates:
                raise WrongModelError(f"{model.name} does not generate; Predict and Attend answer for it")
            tells = by_token and request.generation.strategy is not Strategy.BEAM
            told = sequence_description(model.description).label_set if tells else ""

            def finish(index: int, answer: Answer) -> Any:
                result = row_result(
                    answer,
                    request.rows[index],
                    plan,
                    outputs=request.outputs,
                    hidden=request.hidden,
                    read=model.read_tokens,
                    growing=growing,
                    left_out=told,
                )
                return make(index, result)

            labels = request.rows[0].labels
            if tells and plan is not None and plan.key_groups:
                labels = {**labels, **_labels_to_come(model, request, told)}

            def tell(step: Step) -> Any:
                return make(0, token_result(step, labels, plan))

            query = model.seeded(hosted.query(request, plan))
            call = AdmittedCall(query, receive, finish, tell if tells else None, partial(self.store.end, hosted))
            self.engine.submit(model, call)
            return Submission(self.engine, model, call)
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


def _labels_to_come(model: Model, request: InferenceRequest, told: str) -> dict[str, Labels]:
    """Label what grows with each token of a row, for as many steps as there may be. told: the output steps."""
    found = {told: steps_to_come(told, request.steps)} if told else {}
    for name, before in model.input_labels(request.rows[0]).items():
        found[name] = read_steps(name, before, steps_to_come(before.inputs[-1], request.steps))
    return found


@dataclass(frozen=True, slots=True)
class Submission:
    """A call that an engine has admitted, until it is closed."""

    _engine: Engine
    _model: Model
    call: AdmittedCall

    def begun(self) -> GenerationBegun:
        """Give the first event of a generation."""
        query = self.call.query
        return GenerationBegun(query.seeds[0], tuple(self._model.input_labels(query.rows[0]).values()))

    def sent(self) -> None:
        """Count a token that was sent to the reader."""
        self._engine.sent(self.call)

    def close(self) -> None:
        """End the call; what has not ended of it is withdrawn."""
        self._engine.end(self._model, self.call)
