"""A model ready to answer: what it is, how its inputs are prepared, and what runs it."""

import math
import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from bundle.errors import BundleError
from bundle.maps import MapPart, ProjectedSize
from bundle.preprocess import Bounds, Preprocessor
from bundle.reader import BundleFolder
from bundle.rows import Labels, Row, bound_tensors, tensor_descriptions
from bundle.text import Detokenizer, read_tokenizer
from bundle.v1 import bundle_pb2
from limelight.v1 import model_pb2
from service.engine.chunks import Chunks, chunk_policy, chunk_shape
from service.engine.described import check_stated
from service.engine.forward import Forward
from service.engine.generation import Generating
from service.engine.jobs import AdmittedCall, Job, RowEvent
from service.engine.observer import Observer
from service.engine.plan import Policy
from service.engine.providers import Provider
from service.engine.sessions import Session, open_recorder, open_session
from service.engine.shapes import Shape, shape_of
from service.engine.types import GenerationSettings, MapKey, Query
from service.engine.watch import RunLimit
from service.settings import Settings

_SEED_BITS = 64


class Runner(Protocol):
    """Runs batches of one model; called from several lanes at once."""

    def group(self, row: Row, maps: frozenset[MapKey], parts: Mapping[MapKey, MapPart]) -> Hashable:
        """Give what rows of one batch must have in common. parts: what is enough of some of the maps."""

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Tell whether tokens are drawn at random for a row."""

    def uncounted(self) -> "Runner":
        """Give the same, telling no observer."""

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Answer a batch of one group; each list is told as soon as it is there. Raises InferenceError for all that
        is left.

        wide: it may use every core, for nothing else runs.
        """


class Pool(Protocol):
    """Rows of a generating model that take their steps together; they join and leave it between two steps.

    One lane at a time has it.
    """

    @property
    def rows(self) -> int:
        """How many rows are being generated."""

    @property
    def jobs(self) -> Sequence[Job]:
        """Give the rows that are being generated."""

    @property
    def pace(self) -> float:
        """Seconds that the latest step took, with a moment at most of what its rows waited for before it: a lane, and
        their streams.
        """

    def is_due(self, now: float) -> bool:
        """Tell whether it is time for a step."""

    @property
    def room(self) -> int:
        """How many more rows may join."""

    def join(self, jobs: Sequence[Job], wide: bool = False) -> list[RowEvent]:
        """Take in rows, of one group and of that of the rows here, and read what they bring; tells of rows that leave
        by it.
        """

    def step(self, wide: bool = False) -> list[RowEvent]:
        """Put out a token of every row; tells of tokens, of rows that ended, and of rows that nobody waits for."""


@dataclass(frozen=True)
class GraphStatus:
    """A graph as the runtime runs it: the provider asked for, and how many of its nodes run where."""

    name: str
    provider: str
    nodes: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Model:
    """One version of a model, loaded. Equal only to itself.

    provider: `CPUExecutionProvider` or `CUDAExecutionProvider`. noisy: whether it has inputs of noise.
    edge_dimensions: for each map that a graph gives as edges, the dimension that counts them; empty where none does.
    probed: the maps of which single rows can be computed.
    projected: for each map that tells what it is made of, how large that is.
    shape: from a row's sizes to its shape, for the plan.
    wide: whether it can also run on every core.
    pool: for a model whose rows take steps, makes a pool of them; None for one that answers in one pass.
    limits: of the runs of each graph.
    chunks: what computes its maps chunk by chunk, as if it were a model too; None in that one itself.
    record: records runs of the shapes that are planned, from any row; None where none are.
    shrink: gives back what the runtime has kept of its largest batches.
    """

    name: str
    version: int
    digest: str
    provider: str
    description: model_pb2.ModelDescription
    preprocessor: Preprocessor
    graphs: tuple[GraphStatus, ...]
    noisy: bool
    edge_dimensions: Mapping[str, str]
    probed: frozenset[str]
    projected: Mapping[str, ProjectedSize]
    policy: Policy
    shape: Callable[[Mapping[str, int]], Shape]
    runner: Runner
    wide: bool = False
    pool: Callable[[], Pool] | None = None
    limits: tuple[RunLimit, ...] = ()
    chunks: "Model | None" = None
    record: Callable[[Row], None] | None = None
    shrink: Callable[[], None] = lambda: None

    @property
    def generates(self) -> bool:
        """True where it puts out tokens one by one."""
        return self.pool is not None

    @property
    def overruns(self) -> int:
        """How many runs of one graph in a row were ended since they took too long."""
        return max((each.exceeded for each in self.limits), default=0)

    def put_in(self, row: Row) -> dict[str, Labels]:
        """Give the label sets of what goes into a generating model, as they are before anything is put out."""
        return self.runner.put_in(row) if isinstance(self.runner, Generating) else {}

    def seeded(self, query: Query) -> Query:
        """Settle the seeds of a query: None where a row draws nothing, and a fresh one where it samples without one.

        A row that draws noise without a seed gets the neutral value, which is no draw.
        """
        given = query.seeds or (None,) * len(query.rows)
        seeds = [self._seed(row, seed, query.generation) for row, seed in zip(query.rows, given, strict=True)]
        return replace(query, seeds=tuple(seeds))

    def jobs(self, call: AdmittedCall, tickets: Iterator[int], admitted: int) -> list[Job]:
        """Make a job of each row of a call whose seeds are settled; tickets: of the whole engine, rising."""
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


def open_model(
    folder: BundleFolder, provider: Provider, settings: Settings, observer: Observer, *, saved: Path | None = None
) -> Model:
    """Load the graphs and the preprocessing of a bundle that was read and checked.

    saved: a folder of the graphs as the runtime has packed them; where it is empty, they are put there.

    Raises: BundleError where it does not fit together; ProviderError where the provider is not given.
    """
    bundle, policy = folder.bundle, policy_for(folder.bundle, provider, settings)
    overran = partial(observer.overran, bundle.description.name)
    limits = {graph.name: RunLimit(settings.max_run_seconds, overran) for graph in bundle.graphs}
    sessions = {
        graph.name: open_session(folder, graph, provider, limits[graph.name], saved and saved / str(number))
        for number, graph in enumerate(bundle.graphs)
    }
    check_stated(bundle, {name: each.stated() for name, each in sessions.items()})
    description, runner = bundle.description, _runner(folder, sessions, observer, policy, provider)
    model = Model(
        name=description.name,
        version=description.version,
        digest=folder.digest,
        provider=provider.name,
        description=description,
        preprocessor=Preprocessor(folder, Bounds(settings.max_characters, settings.max_pixels)),
        graphs=tuple(GraphStatus(each.name, provider.name, each.nodes) for each in sessions.values()),
        noisy=bool(bundle.noise),
        edge_dimensions=_edge_dimensions(bundle),
        probed=frozenset(each.map for each in bundle.maps if each.HasField("probe")),
        projected=_projected(bundle, sessions),
        policy=policy,
        shape=shape_of(bound_tensors(description.inputs, bundle.tensors).values(), bundle.graphs[0].packed),
        runner=runner,
        wide=any(each.is_wide for each in sessions.values()),
        pool=runner.pool if isinstance(runner, Generating) else None,
        limits=tuple(limits.values()),
        shrink=partial(_shrink, tuple(sessions.values())),
        record=runner.record if isinstance(runner, Forward) and runner.records else None,
    )
    chunks = replace(
        model,
        noisy=False,
        policy=chunk_policy(provider.lanes),
        shape=chunk_shape,
        runner=Chunks(model.name, observer),
        wide=False,
        pool=None,
        limits=(),
        record=None,
        shrink=lambda: None,
    )
    return replace(model, chunks=chunks)


def policy_for(bundle: bundle_pb2.Bundle, provider: Provider, settings: Settings) -> Policy:
    """Choose how a model's rows are batched.

    On a CPU only rows of nearly one length share a batch: padding costs as much as real tokens, and a batch wins
    little. Generation is the exception, since every step is small: rows of any length share its steps. So is a graph
    that packs tokens: rows of different lengths share a batch up to where attention, which is padded, costs what the
    rest wins. On a GPU a batch costs hardly more than a row, and the session runs one batch at a time, so whatever
    waits goes together.
    """
    generates = bundle.HasField("generation")
    if provider.is_cuda:
        rows, tokens, padding = 64, 32_768, 0.5
    elif generates:
        rows, tokens, padding = 16, 4096, 0.5
    elif bundle.graphs[0].packed:
        rows, tokens, padding = 8, 384, 0.5
    else:
        rows, tokens, padding = 8, 2048, 0.05
    return Policy(
        max_rows=settings.max_batch_rows or rows,
        max_tokens=settings.max_batch_tokens or tokens,
        max_padding=padding,
        # Two pools would share a device's one stream, each step of them half as large.
        concurrent=1 if generates and provider.staged else provider.concurrent,
        spread=1 if provider.staged else provider.concurrent,
        staged=provider.staged,
    )


def _projected(bundle: bundle_pb2.Bundle, sessions: Mapping[str, Session]) -> dict[str, ProjectedSize]:
    """Tell how large what maps are made of is. Raises: BundleError where a graph does not state it."""
    found = {}
    for each in bundle.maps:
        if each.HasField("projections"):
            made_of, graph = each.projections, sessions[each.graph]
            shape = graph.gives(made_of.query_output)
            if len(shape) != 4 or (made_of.bias_output and len(graph.gives(made_of.bias_output)) != 4):
                raise BundleError(f"what the map {each.map} is made of has no axes [batch, head, place, size]")
            _, heads, _, size = shape
            if not isinstance(heads, int) or not isinstance(size, int):
                raise BundleError(f"the graph {each.graph} does not state the size of {made_of.query_output}")
            _, of_heads, of_queries, _ = graph.gives(made_of.bias_output) if made_of.bias_output else (1,) * 4
            bias_heads = 0 if of_queries == 1 else 1 if of_heads == 1 else heads
            found[each.map] = ProjectedSize(heads * size, made_of.bias_output, bias_heads)
    return found


def _shrink(sessions: Sequence[Session]) -> None:
    for each in sessions:
        each.shrink()


def _edge_dimensions(bundle: bundle_pb2.Bundle) -> dict[str, str]:
    """Find what counts the edges of a map: they are those of the graph that was read."""
    tensors = {each.name: each for each in tensor_descriptions(bundle.description.inputs)}
    sources = [
        step.read_graph.sources_tensor
        for each in bundle.preprocessing
        for step in each.steps
        if step.HasField("read_graph")
    ]
    counted = tensors[sources[0]].dimensions[0].name if len(sources) == 1 and sources[0] in tensors else ""
    return {
        binding.map: "" if bundle_pb2.AXIS_BATCH in binding.axes else counted
        for binding in bundle.maps
        if binding.query_index
    }


def _runner(
    folder: BundleFolder, sessions: Mapping[str, Session], observer: Observer, policy: Policy, provider: Provider
) -> Runner:
    bundle = folder.bundle
    if not bundle.HasField("generation"):
        recorder = partial(open_recorder, folder, bundle.graphs[0], provider) if provider.records else None
        return Forward(bundle, sessions, observer, recorder)
    detokenizer = Detokenizer(read_tokenizer(folder.file(bundle.generation.tokenizer)))
    return Generating(bundle, sessions, detokenizer, observer, rows=policy.max_rows)
