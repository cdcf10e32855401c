"""Models that answer in one pass: a batch of rows through a graph, and each row's part of what comes out."""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from limelight_bundle.descriptions import OutputDescription
from limelight_bundle.errors import BundleError, InputError
from limelight_bundle.interventions import INTERVENED_GRAPH, bound_interventions, intervened_bindings
from limelight_bundle.maps import BoundMap, MapPart, MapWeights, Projected, bound_maps
from limelight_bundle.rows import Row, bound_tensors, cut_outputs, joined_dimensions
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.jobs import Job, RowEvent
from limelight_service.engine.runtime.feeds import Feeds
from limelight_service.engine.runtime.finite import Finite, not_finite
from limelight_service.engine.runtime.hidden import GraphHidden
from limelight_service.engine.runtime.intervened import Interventions
from limelight_service.engine.runtime.map_requests import batch_requests, is_projected, rows_of
from limelight_service.engine.runtime.sessions import Session
from limelight_service.engine.types import Answer, GenerationSettings, MapKey, Timing
from limelight_service.observability.observer import Observed, Observer, Stage

# A gate that opens for one row of a batch opens for all. While attention is computed whole in any case, that costs the
# others next to nothing; from about here on, it is fused for those who do not ask.
_GATES_SHARED_BELOW = 256


@dataclass(frozen=True)
class _Run:
    """One graph to run for a batch, with the outputs and maps to fetch."""

    session: Session
    feeds: Feeds
    outputs: tuple[OutputDescription, ...]
    maps: Mapping[MapKey, BoundMap]


class Forward(Observed):
    """A model that answers in one pass, by its first graph, and by others for maps that the first one lacks."""

    def __init__(
        self,
        bundle: bundle_pb2.Bundle,
        sessions: Mapping[str, Session],
        observer: Observer,
    ) -> None:
        """Bind the graphs of a bundle. Raises: BundleError where an output is in no graph."""
        self._model = bundle.description.name
        self._observer = observer
        self._finite = Finite(bundle)
        tensors = bound_tensors(bundle.description.inputs, bundle.tensors)
        graphs = tuple(
            (sessions[graph.name], Feeds(bundle, graph), bound_maps(bundle, graph.name, tensors))
            for graph in bundle.graphs
            if graph.name != INTERVENED_GRAPH
        )
        self._interventions = Interventions(bound_interventions(bundle).values())
        self._joined = joined_dimensions(tensors.values())
        self._outputs = tuple(bundle.description.outputs)
        if missing := {each.name for each in self._outputs} - set(bundle.graphs[0].outputs):
            raise BundleError(f"the graph {bundle.graphs[0].name} has no output {sorted(missing)}")
        self._hidden = GraphHidden(bundle, bundle.graphs[0].name)
        # Bounded: callers choose the maps. A cache of a method would be a cycle, and keep the weights
        # of a model that is unloaded until the next collection.
        self._runs = lru_cache(maxsize=128)(partial(_choose, graphs, self._outputs))
        if self._interventions:
            graph = next(each for each in bundle.graphs if each.name == INTERVENED_GRAPH)
            whole = bound_maps(intervened_bindings(bundle), graph.name, tensors)
            intervened = ((sessions[graph.name], Feeds(bundle, graph), whole),)
            self._intervened_runs = lru_cache(maxsize=128)(partial(_choose, intervened, self._outputs))

    def group(self, row: Row, maps: frozenset[MapKey], parts: Mapping[MapKey, MapPart]) -> Hashable:
        """Give the key that the rows of one batch share.

        The graphs that run, the optional tensors, and for long rows the maps that are whole or projected.
        """
        if self._interventions.are_in(row):
            (run,) = self._intervened_runs(maps)
            return run.session.name, run.feeds.group(row)
        runs = self._runs(maps)
        found = [(run.session.name, run.feeds.group(row)) for run in runs]
        if max(row.sizes.values(), default=0) < _GATES_SHARED_BELOW:
            return tuple(found)
        bound = {key: each for run in runs for key, each in run.maps.items() if each.gate}
        whole = [key for key in bound if rows_of(bound[key], parts.get(key), row) is None]
        return tuple(found), frozenset([(key, is_projected(bound[key], parts.get(key))) for key in whole])

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Nothing is generated."""
        return False

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Answer a batch, all rows at once."""
        started = time.monotonic_ns()
        maps = jobs[0].call.query.maps
        if len(jobs) > 1:
            maps = maps.union(*(job.call.query.maps for job in jobs))
        changed = self._interventions.are_in(jobs[0].row)
        runs = self._intervened_runs(maps) if changed else self._runs(maps)
        requests = batch_requests(jobs, {key: bound for run in runs for key, bound in run.maps.items()})
        refused: Sequence[InputError | None] = ()
        batching = computing = 0
        found: list[dict[MapKey, MapWeights]] = [{} for _ in jobs]
        projected: list[dict[MapKey, Projected]] = [{} for _ in jobs]
        rows = [job.row for job in jobs]
        outputs: dict[str, list[Array]] = {}
        hidden = self._hidden.wanted(jobs)
        for run in runs:
            before = time.monotonic_ns()
            map_requests = requests.of_graph(run.maps, jobs if run.session.cuts else ())
            own = [*run.outputs, *hidden] if run is runs[0] else run.outputs
            names = tuple(dict.fromkeys([*(each.name for each in own), *map_requests.outputs]))
            feeds = run.feeds.batch(jobs) | map_requests.feeds()
            if hidden and run is runs[0]:
                feeds |= self._hidden.feeds(hidden)
            if changed:
                changes = self._interventions.feeds(rows)
                feeds |= changes
                names += self._interventions.checked(changes)
            between = time.monotonic_ns()
            values = run.session.run(names, feeds, wide=wide, cuts=map_requests.cuts)
            fetched = dict(zip(names, values, strict=True))
            if changed:
                refused = [self._interventions.problem(fetched, *each) for each in enumerate(jobs)]
            batching += between - before
            computing += time.monotonic_ns() - between
            for each in own:
                outputs[each.name] = cut_outputs(fetched[each.name], each.dimensions, rows, self._joined)
            for place, weights in enumerate(map_requests.weights(fetched, jobs)):
                found[place] |= weights
            for place, projections in enumerate(map_requests.projections(fetched, jobs)):
                projected[place] |= projections
        self._observer.stage(self._model, Stage.BATCH, batching / 1e9)
        self._observer.stage(self._model, Stage.COMPUTE, computing / 1e9)
        graph = "+".join(run.session.name for run in runs)
        answers = [
            Answer(
                outputs={name: parts[place] for name, parts in outputs.items()},
                maps=found[place],
                labels=job.row.labels,
                graph=graph,
                batch_rows=len(jobs),
                timing=Timing(started - job.admitted, computing, job.admitted),
                seed=job.seed,
                projected=projected[place],
            )
            for place, job in enumerate(jobs)
        ]
        del found, projected, outputs
        if any(refused):
            yield [(job, each) for job, each in zip(jobs, refused, strict=True) if each is not None]
            answered = [place for place, each in enumerate(refused) if each is None]
            jobs, answers = [jobs[place] for place in answered], [answers[place] for place in answered]
        problems = [self._finite.problem(each.outputs, each.maps) for each in answers]
        yield [(job, each) for job, each, problem in zip(jobs, answers, problems, strict=True) if not problem]
        del answers
        for job, problem in zip(jobs, problems, strict=True):
            if problem and len(jobs) > 1:  # where a row's numbers met another's, that one alone is to blame
                yield from self.run([job], wide)
            elif problem:
                self._observer.not_finite(self._model)
                yield [(job, not_finite(problem, job.index, len(job.call.query.rows)))]


def _choose(
    graphs: Sequence[tuple[Session, Feeds, Mapping[MapKey, BoundMap]]],
    outputs: tuple[OutputDescription, ...],
    maps: frozenset[MapKey],
) -> tuple[_Run, ...]:
    """Choose the graphs to run: the first that has everything, else the first one and those that have the rest."""
    names = {each.name for each in outputs}
    for session, feeds, bound in graphs:
        if maps <= set(bound) and names <= set(session.outputs):
            return (_Run(session, feeds, outputs, {key: bound[key] for key in bound if key in maps}),)
    runs, rest = [], set(maps)
    for number, (session, feeds, bound) in enumerate(graphs):
        here = rest & set(bound)
        if here or number == 0:
            chosen = {key: bound[key] for key in bound if key in here}
            runs.append(_Run(session, feeds, () if number else outputs, chosen))
            rest -= here
    return tuple(runs)
