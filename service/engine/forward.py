"""Models that answer in one pass: a batch of rows through a graph, and each row's part of what comes out."""

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from bundle.errors import BundleError
from bundle.maps import BoundMap, MapPart, MapWeights, Projected, bound_maps
from bundle.rows import Row, bound_tensors, collate, cut_outputs, joined_dimensions
from bundle.v1 import bundle_pb2
from bundle.values import Array
from limelight.v1 import model_pb2
from service.engine.asked import asked_of, is_projected, rows_of
from service.engine.finite import Finite, not_finite
from service.engine.jobs import Job, RowEvent
from service.engine.noise import Noise
from service.engine.observer import Observed, Observer, Stage
from service.engine.recorded import Bucket, Recorder, bucket_of, buckets, lengths_up_to
from service.engine.sessions import Session
from service.engine.types import Answer, GenerationSettings, MapKey, Timing

# A gate that opens for one row of a batch opens for all. While attention is computed whole in any case, that costs the
# others next to nothing; from about here on, it is fused for those who do not ask.
_GATES_SHARED_BELOW = 256


class Feeds:
    """Puts the inputs of one graph together: the rows' tensors, what comes with them in a batch, and noise.

    Raises: BundleError where the graph takes an input that neither the description nor the noise inputs have.
    """

    def __init__(
        self, bundle: bundle_pb2.Bundle, graph: bundle_pb2.OnnxGraph, *, besides: frozenset[str] = frozenset()
    ) -> None:
        self._noise = Noise.of_graph(bundle, graph)
        wanted = set(graph.inputs) - besides
        bound = bound_tensors(bundle.description.inputs, bundle.tensors)
        self._tensors = [each for each in bound.values() if {each.name, *each.derived} & wanted]
        names = {name for each in self._tensors for name in (each.name, *each.derived)}
        names |= {each.name for each in self._noise.tensors}
        if missing := wanted - names:
            raise BundleError(f"the graph {graph.name} takes {sorted(missing)}, which nothing in the bundle describes")
        self._names = frozenset(wanted)
        self._stacked = not any(each.joined for each in self._tensors)

    def group(self, row: Row) -> Hashable:
        """Give what rows must have in common to share a batch: the optional tensors that they bring."""
        return tuple([each.name in row.tensors for each in self._tensors])

    def batch(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Give every input of the graph."""
        return self.tensors(jobs) | self.noise(jobs) if self._noise.tensors else self.tensors(jobs)

    def tensors(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Put together what the rows bring; a row alone is not copied."""
        if len(jobs) == 1 and self._stacked:
            tensors = jobs[0].row.tensors
            return {name: tensors[name][np.newaxis] for name in self._names if name in tensors}
        batch = collate([job.row for job in jobs], self._tensors)
        return {name: array for name, array in batch.items() if name in self._names}

    @property
    def varying(self) -> Mapping[str, int] | None:
        """The axes that vary, and the most entries of each (0 for no limit), where a batch can be padded along them to
        any size; None where it cannot be padded.
        """
        axes: dict[str, int] = {}
        for each in self._tensors:
            own = {one.name: one.maximum for one in each.description.dimensions if not one.size}
            if each.joined or (own and not each.mask):
                return None
            axes |= own
        return None if self._noise.tensors else axes

    def fitted(self, rows: Sequence[Row], bucket: Bucket) -> dict[str, Array]:
        """Put rows together as a batch of a fixed shape: the first row stands for those that are missing, and what is
        longer is cut. Only where `varying` has one axis at most.
        """
        batch: dict[str, Array] = {}
        for each in self._tensors:
            shape = [bucket.rows, *(dimension.size or bucket.length for dimension in each.description.dimensions)]
            for name, pad in ((each.name, each.pad_value), (each.mask, 0.0)):
                if name in self._names and name in rows[0].tensors:
                    batch[name] = np.full(shape, pad, rows[0].tensors[name].dtype)
                    for place, filled in enumerate(batch[name]):
                        array = rows[place if place < len(rows) else 0].tensors[name]
                        inside = tuple(slice(min(sizes)) for sizes in zip(array.shape, filled.shape, strict=True))
                        filled[inside] = array[inside]
        return batch

    def noise(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Draw the noise inputs."""
        if not self._noise.tensors:
            return {}
        rows = [Row(self._noise.draw(job.row, job.seed), job.row.sizes) for job in jobs]
        return collate(rows, self._noise.tensors)


def maps_of_rows(bound: BoundMap, outputs: Mapping[str, Array], jobs: Sequence[Job]) -> dict[int, MapWeights]:
    """Give a map of each row that wants it, by the row's place in the batch."""
    key = (bound.description.name, bound.quantity)
    wanting = [place for place, job in enumerate(jobs) if key in job.call.query.maps]
    if len(wanting) < len(jobs) and not any(bound.joined):
        found = bound.rows(outputs, [jobs[place].row for place in wanting], wanting)
        return dict(zip(wanting, found, strict=True))
    found = bound.rows(outputs, [job.row for job in jobs])  # what is joined is taken apart as a whole
    return {place: found[place] for place in wanting}


@dataclass(frozen=True)
class _Run:
    """One graph to run for a batch: what to fetch, and what that is."""

    session: Session
    feeds: Feeds
    outputs: tuple[model_pb2.OutputDescription, ...]
    maps: Mapping[MapKey, BoundMap]


class Forward(Observed):
    """A model that answers in one pass. Where its first graph lacks a map, the graph that has it runs too, or instead.

    recorder: opens what records runs of the first graph, with these outputs, where that is wanted and can be.
    Raises: BundleError where an output is in no graph.
    """

    def __init__(
        self,
        bundle: bundle_pb2.Bundle,
        sessions: Mapping[str, Session],
        observer: Observer,
        recorder: Callable[[Sequence[str]], Recorder | None] | None = None,
    ) -> None:
        self._model = bundle.description.name
        self._observer = observer
        self._finite = Finite(bundle)
        tensors = bound_tensors(bundle.description.inputs, bundle.tensors)
        graphs = tuple(
            (sessions[graph.name], Feeds(bundle, graph), bound_maps(bundle, graph.name, tensors))
            for graph in bundle.graphs
        )
        self._joined = joined_dimensions(tensors.values())
        self._outputs = tuple(bundle.description.outputs)
        if missing := {each.name for each in self._outputs} - set(bundle.graphs[0].outputs):
            raise BundleError(f"the graph {bundle.graphs[0].name} does not put out {sorted(missing)}")
        varying = graphs[0][1].varying
        # What a graph packs has another size for other masks, which no recording has.
        recordable = varying is not None and len(varying) <= 1 and not bundle.graphs[0].packed
        self._recorder = recorder([each.name for each in self._outputs]) if recorder and recordable else None
        self._varying, longest = next(iter(varying.items()), ("", 0)) if varying else ("", 0)
        self._lengths = lengths_up_to(longest) if varying else (0,)
        # Bounded: which maps are asked for is up to callers. A cache of a method would be a cycle, and keep the weights
        # of a model that is unloaded until the next collection.
        self._runs = lru_cache(maxsize=128)(partial(_choose, graphs, self._outputs))

    def group(self, row: Row, maps: frozenset[MapKey], parts: Mapping[MapKey, MapPart]) -> Hashable:
        """Give what rows of one batch have in common: the graphs that run, the optional tensors, and for long rows the
        whole maps and what others are made of.
        """
        runs = self._runs(maps)
        found = [(run.session.name, run.feeds.group(row)) for run in runs]
        if max(row.sizes.values(), default=0) < _GATES_SHARED_BELOW:
            return tuple(found)
        bound = {key: each for run in runs for key, each in run.maps.items() if each.gate}
        whole = [key for key in bound if rows_of(bound[key], parts.get(key), row) is None]
        return tuple(found), frozenset([(key, is_projected(bound[key], parts.get(key))) for key in whole])

    @property
    def records(self) -> bool:
        """True where runs can be recorded."""
        return self._recorder is not None

    def record(self, row: Row) -> None:
        """Record runs of every shape that is planned. row: any one of the model."""
        (run,) = self._runs(frozenset())
        if self._recorder is not None:
            for bucket in buckets(self._lengths):
                self._recorder.record(bucket, run.feeds.fitted([row], bucket))

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Nothing is generated."""
        return False

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Answer a batch, all rows at once."""
        started = time.monotonic_ns()
        maps = jobs[0].call.query.maps
        if len(jobs) > 1:
            maps = maps.union(*(job.call.query.maps for job in jobs))
        runs = self._runs(maps)
        asked = asked_of(jobs, {key: bound for run in runs for key, bound in run.maps.items()})
        batching = computing = 0
        found: list[dict[MapKey, MapWeights]] = [{} for _ in jobs]
        made_of: list[dict[MapKey, Projected]] = [{} for _ in jobs]
        rows = [job.row for job in jobs]
        outputs: dict[str, list[Array]] = {}
        for run in runs:
            before = time.monotonic_ns()
            maps_asked = asked.of(run.maps, jobs if run.session.cuts else ())
            names = tuple(dict.fromkeys([*(each.name for each in run.outputs), *maps_asked.outputs]))
            bucket = None if maps or wide else self._bucket(rows)
            feeds = run.feeds.fitted(rows, bucket) if bucket else run.feeds.batch(jobs) | maps_asked.feeds()
            between = time.monotonic_ns()
            values = self._recorder.play(bucket, feeds) if self._recorder and bucket else None
            values = values or run.session.run(names, feeds, wide=wide, cuts=maps_asked.cuts)
            fetched = dict(zip(names, values, strict=True))
            batching += between - before
            computing += time.monotonic_ns() - between
            for each in run.outputs:
                outputs[each.name] = cut_outputs(fetched[each.name], each.dimensions, rows, self._joined)
            for bound in maps_asked.whole:
                for place, weights in maps_of_rows(bound, fetched, jobs).items():
                    found[place][bound.description.name, bound.quantity] = weights
            for cut in maps_asked.cut:
                for place, weights in cut.of_rows(fetched).items():
                    found[place][cut.bound.description.name, cut.bound.quantity] = weights
            for probed in maps_asked.probed:
                for place, weights in probed.of_rows(fetched, jobs).items():
                    found[place][probed.bound.description.name, probed.bound.quantity] = weights
            for bound in maps_asked.projected:
                key = bound.description.name, bound.quantity
                for place, job in enumerate(jobs):
                    if is_projected(bound, job.call.query.parts_of(job.index).get(key)):
                        made_of[place][key] = bound.projected(fetched, job.row, place)
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
                timing=Timing(started - job.admitted, computing),
                seed=job.seed,
                projected=made_of[place],
            )
            for place, job in enumerate(jobs)
        ]
        del found, made_of, outputs
        problems = [self._finite.problem(each.outputs, each.maps) for each in answers]
        yield [(job, each) for job, each, what in zip(jobs, answers, problems, strict=True) if not what]
        del answers
        for job, what in zip(jobs, problems, strict=True):
            if what and len(jobs) > 1:  # where a row's numbers met another's, that one alone is to blame
                yield from self.run([job], wide)
            elif what:
                self._observer.not_finite(self._model)
                yield [(job, not_finite(what, job.index, len(job.call.query.rows)))]

    def _bucket(self, rows: Sequence[Row]) -> Bucket | None:
        """Give the recorded shape that a batch which asks for no map fits into, where there is one."""
        if self._recorder is None:
            return None
        length = max(row.sizes[self._varying] for row in rows) if self._varying else 0
        bucket = bucket_of(len(rows), length, self._lengths)
        return bucket if bucket in self._recorder.recorded else None


def _choose(
    graphs: Sequence[tuple[Session, Feeds, Mapping[MapKey, BoundMap]]],
    outputs: tuple[model_pb2.OutputDescription, ...],
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
