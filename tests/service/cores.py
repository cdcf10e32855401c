"""A frontend's core over an engine that computes at once, on the calling thread and in one batch."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TypeVar

from limelight_bundle.preprocess import Bounds
from limelight_service.admission.memory import MemoryBudget
from limelight_service.engine.reduction import row_result
from limelight_service.frontend.core import Core
from limelight_service.frontend.models import Model, Models
from limelight_service.hosting.hosted import HostedModel
from limelight_service.ipc.boundary import GenerationEvent, InferenceRequest, RowResult, StreamEvent, WaitEstimate
from limelight_service.ipc.client import ModelListener
from limelight_service.observability.counters import Snapshot
from limelight_service.observability.metrics import Metrics
from limelight_service.repository.catalogue import State, VersionStatus
from limelight_service.security.quotas import Quotas
from limelight_service.settings import Settings
from tests.service.engine.conftest import run_together

T = TypeVar("T")


class DirectEngine:
    """An `EngineClient` of loaded models, for `answer` alone."""

    def __init__(self, hosted: Mapping[str, HostedModel]) -> None:
        self._hosted = hosted

    def listen(self, listener: ModelListener) -> None:
        """As `EngineClient.listen`: nothing ever changes."""

    def wait(self, name: str, version: int) -> WaitEstimate:
        """As `EngineClient.wait`."""
        return WaitEstimate()

    def under_way(self, name: str, version: int) -> int:
        """As `EngineClient.under_way`."""
        return 0

    async def answer(self, request: InferenceRequest, make: Callable[[int, RowResult], T]) -> list[T]:
        """As `EngineClient.answer`."""
        hosted = self._hosted[request.model]
        plan, growing = hosted.plan(request.attention), hosted.growing_labels
        answers = run_together(hosted.model, hosted.query(request, plan))
        return [
            make(place, row_result(answer, request.rows[place], plan, outputs=request.outputs, growing=growing))
            for place, answer in enumerate(answers)
        ]

    def generate(self, request: InferenceRequest) -> AsyncGenerator[GenerationEvent, None]:
        """As `EngineClient.generate`."""
        raise NotImplementedError

    def stream(self, request: InferenceRequest, chunk_bytes: int) -> AsyncGenerator[StreamEvent, None]:
        """As `EngineClient.stream`."""
        raise NotImplementedError

    def release(self, name: str, version: int) -> None:
        """As `EngineClient.release`."""


class NoOthers:
    """A server that has no other process, and whose models stay."""

    async def change_models(self, action: str, name: str, version: int) -> int:
        raise AssertionError("nothing asks for this")

    async def statistics(self) -> Snapshot:
        raise AssertionError("nothing asks for this")


def core_over(hosted: Mapping[str, HostedModel], models: Mapping[str, Model]) -> Core:
    """Put a core together over models that are loaded."""
    settings, metrics = Settings(cores=1), Metrics()
    memory = MemoryBudget(2**40, "maps and answers", metrics, workers=1)
    engine = DirectEngine(hosted)
    known = Models([], Bounds())
    for name, model in models.items():
        model.engines = [engine]
        known.catalogue.keep(VersionStatus(name, 1, State.READY, model=model))
    return Core(settings, known, metrics, memory, Quotas(metrics), whole=NoOthers())
