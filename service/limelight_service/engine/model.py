"""A model ready to answer: its description, how its rows are batched, and the code that runs them."""

import math
import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from limelight_bundle.descriptions import ModelDescription
from limelight_bundle.maps import MapPart, ProjectedSize
from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Array
from limelight_service.engine.jobs import AdmittedCall, Job, RowEvent
from limelight_service.engine.policy import Policy
from limelight_service.engine.shapes import Shape
from limelight_service.engine.types import GenerationSettings, MapKey, Query
from limelight_service.engine.watch import RunLimit
from limelight_service.ipc.boundary import GraphStatus, Reading

_SEED_BITS = 64
# Seconds for which rows of a continuous batch wait for the readers of others.
PATIENCE = 0.02


def no_labels(row: Row) -> dict[str, Labels]:
    """Give the label sets of input steps of a model that does not generate."""
    return {}


class Runner(Protocol):
    """Runs batches of one model; called from several workers at once."""

    def group(self, row: Row, maps: frozenset[MapKey], parts: Mapping[MapKey, MapPart]) -> Hashable:
        """Give the key that the rows of one batch share. parts: the needed parts of some of the maps."""

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Tell whether tokens are drawn at random for a row."""

    def uncounted(self) -> "Runner":
        """Give the same runner without an observer."""

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Run a batch of one group, and give the events of rows as soon as they are there.

        Args:
            wide: use every core, for nothing else runs.

        Raises:
            InferenceError: all rows without an event have failed.
        """


class StepRunner(Protocol):
    """Runs the decode steps of rows that share them; rows join and leave between two steps.

    One worker at a time has it.
    """

    @property
    def rows(self) -> int:
        """Number of rows that generate."""

    @property
    def jobs(self) -> Sequence[Job]:
        """Give the rows that generate."""

    @property
    def pace(self) -> float:
        """Seconds of the latest step, and of the waiting for a worker and for readers before it, at most `PATIENCE`."""

    def is_due(self, now: float) -> bool:
        """Tell whether it is time for a step."""

    @property
    def room(self) -> int:
        """Number of further rows that may join."""

    def join(self, jobs: Sequence[Job], wide: bool = False) -> list[RowEvent]:
        """Take in rows of the group of the rows here, and prefill them. Returns events of rows that leave by it."""

    def step(self, wide: bool = False) -> list[RowEvent]:
        """Generate a token of every row. Returns tokens, answers, and errors of rows that nobody waits for."""


@dataclass
class FirstRun:
    """Measured before callers wait, for the first wait estimates. Not known where 0.

    place: seconds of a worker for each place of a batch, or of rows that join. step: of a decode step of one row.
    """

    place: float = 0.0
    step: float = 0.0


@dataclass(frozen=True, eq=False)
class Model:
    """One version of a model, loaded. Equal only to itself.

    Attributes:
        provider: `CPUExecutionProvider` or `CUDAExecutionProvider`.
        noisy: the model has inputs of noise.
        edge_dimensions: for each map that a graph gives as edges, the dimension that counts them; empty where none
            does.
        probed: maps of which single rows can be computed.
        projected: for each map whose projections can be fetched, their size.
        shape: from a row's sizes to its shape, for the scheduler.
        wide: the model can also run on every core.
        continuous_batch: makes an empty one, for a model that generates; None for one that answers in one pass.
        input_labels: label sets of a row's input steps before anything is generated, by name.
        limits: of the runs of each graph.
        chunks: computes the model's maps chunk by chunk, scheduled as a model of its own; None in that one itself.
        read_tokens: reads so many tokens from each vector of hidden states; None where the bundle has no lens.
        shrink: gives back memory that the runtime has kept of its largest batches.
        first_run: what a sample took, once the model is warmed up.
    """

    name: str
    version: int
    digest: str
    provider: str
    description: ModelDescription
    graphs: tuple[GraphStatus, ...]
    noisy: bool
    edge_dimensions: Mapping[str, str]
    probed: frozenset[str]
    projected: Mapping[str, ProjectedSize]
    policy: Policy
    shape: Callable[[Mapping[str, int]], Shape]
    runner: Runner
    wide: bool = False
    continuous_batch: Callable[[], StepRunner] | None = None
    input_labels: Callable[[Row], dict[str, Labels]] = no_labels
    limits: tuple[RunLimit, ...] = ()
    chunks: "Model | None" = None
    read_tokens: Callable[[Mapping[str, Array], int], tuple[Reading, ...]] | None = None
    shrink: Callable[[], None] = lambda: None
    first_run: FirstRun = field(default_factory=FirstRun)

    @property
    def generates(self) -> bool:
        """True where it generates tokens one by one."""
        return self.continuous_batch is not None

    @property
    def overruns(self) -> int:
        """Number of consecutive runs of one graph that were ended for taking too long."""
        return max((each.exceeded for each in self.limits), default=0)

    def seeded(self, query: Query) -> Query:
        """Settle the seeds of a query: None where a row draws nothing, and a fresh one where it samples without one.

        Noise without a seed has its neutral value, which is no draw.
        """
        given = query.seeds or (None,) * len(query.rows)
        seeds = tuple([self._seed(row, seed, query.generation) for row, seed in zip(query.rows, given, strict=True)])
        return query if seeds == query.seeds else replace(query, seeds=seeds)

    def jobs(self, call: AdmittedCall, tickets: Iterator[int], admitted: int) -> list[Job]:
        """Make a job of each row of a call whose seeds are settled. tickets: of the whole engine, rising."""
        query, shape, group = call.query, self.shape, self.runner.group
        deadline = math.inf if query.deadline is None else query.deadline
        jobs = []
        for index, (row, seed) in enumerate(zip(query.rows, query.seeds, strict=True)):
            grouped = group(row, query.maps, query.parts_of(index))
            jobs.append(Job(next(tickets), call, index, row, seed, shape(row.sizes), grouped, deadline, admitted))
        return jobs

    def _seed(self, row: Row, given: int | None, generation: GenerationSettings) -> int | None:
        samples = self.runner.samples(row, generation)
        if given is None:
            return secrets.randbits(_SEED_BITS) if samples else None
        return given if samples or self.noisy else None
