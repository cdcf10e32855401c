"""Models that answer in one pass: a batch of rows through a graph, and each row's part of what comes out."""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bundle.errors import BundleError
from bundle.maps import MapWeights, canonical, cut, nested_mask_name
from bundle.rows import Row, collate, tensor_descriptions
from bundle.v1 import bundle_pb2
from bundle.values import Array
from limelight.v1 import model_pb2
from service.engine.jobs import Happening, Job
from service.engine.noise import Noise
from service.engine.observer import Observer, Stage
from service.engine.sessions import Session
from service.engine.types import Answer, Timing


class Feeds:
    """Puts the inputs of one graph together: the rows' tensors and masks, and noise.

    Raises: BundleError where the graph takes an input that neither the description nor the noise inputs have.
    """

    def __init__(
        self, bundle: bundle_pb2.Bundle, graph: bundle_pb2.OnnxGraph, *, besides: frozenset[str] = frozenset()
    ) -> None:
        self._noise = Noise.of_graph(bundle, graph)
        wanted = set(graph.inputs) - besides
        self._descriptions = [
            each for each in tensor_descriptions(bundle.description.inputs) if {each.name, each.mask} & wanted
        ]
        names = {name for each in self._descriptions for name in (each.name, each.mask)}
        names |= {each.name for each in self._noise.descriptions}
        if missing := wanted - names:
            raise BundleError(f"the graph {graph.name} takes {sorted(missing)}, which nothing in the bundle describes")
        self._names = frozenset(wanted)

    def group(self, row: Row) -> Hashable:
        """Give what rows must have in common to share a batch: the optional tensors that they bring."""
        return tuple([each.name in row.tensors for each in self._descriptions])

    def batch(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Give every input of the graph."""
        return self.tensors(jobs) | self.noise(jobs) if self._noise.descriptions else self.tensors(jobs)

    def tensors(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Pad and stack what the rows bring; a row alone is not copied."""
        if len(jobs) == 1:
            tensors = jobs[0].row.tensors
            return {name: tensors[name][np.newaxis] for name in self._names if name in tensors}
        batch = collate([job.row for job in jobs], self._descriptions)
        return {name: array for name, array in batch.items() if name in self._names}

    def noise(self, jobs: Sequence[Job], step: int = 0) -> dict[str, Array]:
        """Draw the noise inputs, for one step of a generation."""
        if not self._noise.descriptions:
            return {}
        rows = [Row(self._noise.draw(job.row, job.call.seed, job.index, step=step), job.row.sizes) for job in jobs]
        return collate(rows, self._noise.descriptions)


@dataclass(frozen=True)
class BoundMap:
    """A map, and where a graph puts it out."""

    description: model_pb2.MapDescription
    output: str
    axes: tuple[int, ...]
    nested_mask: str

    def batch(self, array: Array) -> Array:
        """Bring the output to [batch, head, query, key] (+ feature)."""
        return canonical(array, self.axes)

    def row(self, array: Array, row: Row) -> MapWeights:
        """Cut one row's part [head, query, key] (+ feature) to the row's own sizes."""
        return cut(array, self.description, row.labels, row, self.nested_mask)


def bound_maps(bundle: bundle_pb2.Bundle, graph: str) -> dict[str, BoundMap]:
    """Give the maps that a graph puts out, by name, in the description's order."""
    bindings = {each.map: each for each in bundle.maps if each.graph == graph}
    return {
        each.name: BoundMap(
            each,
            bindings[each.name].output,
            tuple(bindings[each.name].axes),
            nested_mask_name(bundle.description, each),
        )
        for each in bundle.description.maps
        if each.name in bindings
    }


def cut_output(array: Array, dimensions: Sequence[model_pb2.Dimension], sizes: Mapping[str, int]) -> Array:
    """Cut one row's raw output to its own sizes: axes that vary have the size of the inputs' axis of that name."""
    return array[tuple(slice(None if each.size else sizes.get(each.name)) for each in dimensions)]


@dataclass(frozen=True)
class _Run:
    """One graph to run for a batch: what to fetch, and what that is."""

    session: Session
    feeds: Feeds
    outputs: tuple[model_pb2.OutputDescription, ...]
    maps: tuple[BoundMap, ...]
    fetched: tuple[str, ...]


class Forward:
    """A model that answers in one pass. Where its first graph lacks a map, the graph that has it runs too, or instead.

    Raises: BundleError where an output is in no graph.
    """

    def __init__(self, bundle: bundle_pb2.Bundle, sessions: Mapping[str, Session], observer: Observer) -> None:
        self._model = bundle.description.name
        self._observer = observer
        self._graphs = [
            (sessions[graph.name], Feeds(bundle, graph), bound_maps(bundle, graph.name)) for graph in bundle.graphs
        ]
        self._outputs = tuple(bundle.description.outputs)
        if missing := {each.name for each in self._outputs} - set(bundle.graphs[0].outputs):
            raise BundleError(f"the graph {bundle.graphs[0].name} does not put out {sorted(missing)}")
        # Bounded: which maps are asked for is up to callers.
        self._runs = lru_cache(maxsize=128)(self._choose)

    def group(self, row: Row, maps: frozenset[str]) -> Hashable:
        """Give what rows of one batch have in common: the graphs that run, and the optional tensors."""
        runs = self._runs(maps)
        return tuple([(run.session.name, run.feeds.group(row)) for run in runs])

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Happening]]:
        """Answer a batch, all rows at once."""
        started = time.monotonic_ns()
        maps = jobs[0].call.query.maps
        if len(jobs) > 1:
            maps = maps.union(*(job.call.query.maps for job in jobs))
        runs = self._runs(maps)
        batching = computing = 0
        fetched: list[list[Array]] = []
        for run in runs:
            before = time.monotonic_ns()
            feeds = run.feeds.batch(jobs)
            between = time.monotonic_ns()
            fetched.append(run.session.run(run.fetched, feeds))
            batching += between - before
            computing += time.monotonic_ns() - between
        self._observer.stage(self._model, Stage.BATCH, batching / 1e9)
        self._observer.stage(self._model, Stage.COMPUTE, computing / 1e9)
        graph = "+".join(run.session.name for run in runs)
        canonical_maps = [
            (bound, bound.batch(array))
            for run, arrays in zip(runs, fetched, strict=True)
            for bound, array in zip(run.maps, arrays[len(run.outputs) :], strict=True)
        ]
        yield [
            (
                job,
                Answer(
                    outputs={
                        each.name: cut_output(array[place], each.dimensions, job.row.sizes)
                        for run, arrays in zip(runs, fetched, strict=True)
                        for each, array in zip(run.outputs, arrays, strict=False)
                    },
                    maps={
                        bound.description.name: bound.row(array[place], job.row)
                        for bound, array in canonical_maps
                        if bound.description.name in job.call.query.maps
                    },
                    labels=job.row.labels,
                    graph=graph,
                    batch_rows=len(jobs),
                    timing=Timing(started - job.admitted, computing),
                ),
            )
            for place, job in enumerate(jobs)
        ]

    def _choose(self, maps: frozenset[str]) -> tuple[_Run, ...]:
        """Choose the graphs to run: the first that has everything, else the first one and those that have the rest."""
        names = {each.name for each in self._outputs}
        for session, feeds, bound in self._graphs:
            if maps <= set(bound) and names <= set(session.outputs):
                return (_make_run(session, feeds, self._outputs, bound, maps),)
        runs, rest = [], set(maps)
        for number, (session, feeds, bound) in enumerate(self._graphs):
            here = rest & set(bound)
            if here or number == 0:
                runs.append(_make_run(session, feeds, () if number else self._outputs, bound, here))
                rest -= here
        return tuple(runs)


def _make_run(
    session: Session,
    feeds: Feeds,
    outputs: tuple[model_pb2.OutputDescription, ...],
    bound: Mapping[str, BoundMap],
    maps: frozenset[str] | set[str],
) -> _Run:
    chosen = tuple(each for name, each in bound.items() if name in maps)
    return _Run(session, feeds, outputs, chosen, (*(each.name for each in outputs), *(each.output for each in chosen)))
