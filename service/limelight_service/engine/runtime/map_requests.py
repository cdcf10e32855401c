"""The map requests of a batch: whole maps, whose gates open, rows of others, or their projections."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from limelight_bundle.maps import BoundMap, MapPart, MapWeights, Projected, worth_probing
from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_service.engine.jobs import Job
from limelight_service.engine.runtime.placement import Cut
from limelight_service.engine.types import MapKey

_OPEN = np.array(True)
_ALL = MapPart()

# Heads and queries, ascending.
HeadsAndQueries = tuple[Array, Array]


class ProbedMap:
    """A map of which a batch needs some heads and queries: all that any of its rows needs."""

    def __init__(self, bound: BoundMap, rows: Mapping[int, HeadsAndQueries]) -> None:
        assert bound.probe is not None
        self.bound, self._rows = bound, rows
        self.output = bound.probe.output
        heads, queries = zip(*rows.values(), strict=True)
        self._held = _union(heads), _union(queries)
        self.feeds = {bound.probe.heads: self._held[0], bound.probe.queries: self._held[1]}

    def of_rows(self, outputs: Mapping[str, Array], jobs: Sequence[Job]) -> dict[int, MapWeights]:
        """Give each row its part of the map, by the row's place in the batch."""
        return {
            place: self.bound.part(outputs, jobs[place].row, place, self._held, wanted)
            for place, wanted in self._rows.items()
        }


class CutMap:
    """A map that is computed whole for a batch, and cut before it is brought back.

    It is cut to the rows that request it, every head and query that any of them needs, and the keys of the longest.
    """

    def __init__(self, bound: BoundMap, jobs: Sequence[Job]) -> None:
        self.bound, self.output = bound, bound.output
        key = (bound.description.name, bound.quantity)
        parts = {
            place: job.call.query.parts_of(job.index).get(key, _ALL)
            for place, job in enumerate(jobs)
            if key in job.call.query.maps
        }
        self._rows = {place: wanted_of(bound, part, jobs[place].row) for place, part in parts.items()}
        self._sizes = {place: jobs[place].row.labels[bound.description.key_labels].size for place in parts}
        heads, queries = (_union(each) for each in zip(*self._rows.values(), strict=True))
        self._held = heads, queries
        half = all(part.half for part in parts.values())
        self.cut = Cut(np.array(list(parts)), heads, queries, np.arange(max(self._sizes.values())), half)

    def of_rows(self, outputs: Mapping[str, Array]) -> dict[int, MapWeights]:
        """Give each row its part of the map, by the row's place in the batch."""
        found = {}
        for number, (place, wanted) in enumerate(self._rows.items()):
            weights = outputs[self.bound.output][number, :, :, : self._sizes[place]]
            found[place] = self.bound.of_held(weights, self._held, wanted)
        return found


@dataclass(frozen=True)
class GraphMapRequests:
    """The map requests of a batch to one graph."""

    whole: Sequence[BoundMap]
    probed: Sequence[ProbedMap]
    projected: Sequence[BoundMap]
    cut: Sequence[CutMap] = ()

    @property
    def outputs(self) -> Iterator[str]:
        """The outputs that are fetched for them."""
        for bound in self.whole:
            yield from bound.outputs
        yield from (each.output for each in self.probed)
        for bound in self.projected:
            assert bound.projections is not None
            yield from bound.projections.outputs
        yield from (each.output for each in self.cut)

    @property
    def cuts(self) -> dict[str, Cut]:
        """The needed parts of some outputs."""
        return {each.output: each.cut for each in self.cut}

    def feeds(self) -> dict[str, Array]:
        """Give the inputs that open gates and choose rows: none where the maps are plain outputs."""
        opened = (*self.whole, *(each.bound for each in self.cut))
        feeds: dict[str, Array] = {bound.gate: _OPEN for bound in opened if bound.gate}
        for each in self.probed:
            feeds |= each.feeds
        return feeds | {bound.projections.gate: _OPEN for bound in self.projected if bound.projections}

    def weights(self, outputs: Mapping[str, Array], jobs: Sequence[Job]) -> list[dict[MapKey, MapWeights]]:
        """Give each row of the batch the maps that it requests, as far as they are weights."""
        found: list[dict[MapKey, MapWeights]] = [{} for _ in jobs]
        of_rows = [(bound, _whole_maps(bound, outputs, jobs)) for bound in self.whole]
        of_rows += [(each.bound, each.of_rows(outputs)) for each in self.cut]
        of_rows += [(each.bound, each.of_rows(outputs, jobs)) for each in self.probed]
        for bound, maps in of_rows:
            for place, each in maps.items():
                found[place][bound.description.name, bound.quantity] = each
        return found

    def projections(self, outputs: Mapping[str, Array], jobs: Sequence[Job]) -> list[dict[MapKey, Projected]]:
        """Give each row of the batch the projections of the maps that it requests by them."""
        found: list[dict[MapKey, Projected]] = [{} for _ in jobs]
        for bound in self.projected:
            key = bound.description.name, bound.quantity
            for place, job in enumerate(jobs):
                if is_projected(bound, job.call.query.parts_of(job.index).get(key)):
                    found[place][key] = bound.projected(outputs, job.row, place)
        return found


@dataclass(frozen=True)
class MapRequests:
    """The map requests of a batch.

    Attributes:
        whole: maps that are computed whole.
        projected: maps of which only the projections are needed by some row.
        rows: heads and queries of maps that are not needed whole, by the row's place in the batch.
    """

    whole: frozenset[MapKey]
    projected: frozenset[MapKey] = frozenset()
    rows: Mapping[MapKey, Mapping[int, HeadsAndQueries]] = field(default_factory=dict)

    def of_graph(self, maps: Mapping[MapKey, BoundMap], cutting: Sequence[Job] = ()) -> GraphMapRequests:
        """Give the requests to one graph, by its maps.

        Args:
            cutting: the batch, where whole maps are cut before they are brought back.
        """
        cut = [key for key, bound in maps.items() if cutting and key in self.whole and bound.is_rectangle]
        return GraphMapRequests(
            tuple([bound for key, bound in maps.items() if key in self.whole and key not in cut]),
            tuple([ProbedMap(bound, self.rows[key]) for key, bound in maps.items() if key in self.rows]),
            tuple([bound for key, bound in maps.items() if key in self.projected]),
            tuple([CutMap(maps[key], cutting) for key in cut]),
        )


def batch_requests(jobs: Sequence[Job], maps: Mapping[MapKey, BoundMap]) -> MapRequests:
    """Join the map requests of the rows of a batch.

    Args:
        maps: those that the graphs put out; requests of others are left out.
    """
    whole: set[MapKey] = set()
    projected: set[MapKey] = set()
    rows: dict[MapKey, dict[int, HeadsAndQueries]] = {}
    for place, job in enumerate(jobs):
        query = job.call.query
        parts = query.parts_of(job.index)
        if not parts:
            whole |= query.maps & maps.keys()
            continue
        for key in query.maps & maps.keys():
            wanted = rows_of(maps[key], parts.get(key), job.row)
            if wanted is None:
                (projected if is_projected(maps[key], parts.get(key)) else whole).add(key)
            else:
                rows.setdefault(key, {})[place] = wanted
    return MapRequests(
        frozenset(whole), frozenset(projected), {key: each for key, each in rows.items() if key not in whole}
    )


def is_projected(bound: BoundMap, part: MapPart | None) -> bool:
    """Tell whether the projections of a map are requested and can be fetched; otherwise the map is computed whole."""
    return part is not None and part.projected and bound.projections is not None


def rows_of(bound: BoundMap, part: MapPart | None, row: Row) -> HeadsAndQueries | None:
    """Give the heads and queries for a map's probe; None where there is no probe, or the whole map costs less."""
    if part is None or part.projected or bound.probe is None:
        return None
    wanted = wanted_of(bound, part, row)
    rows = bound.description.heads * row.labels[bound.description.query_labels].size
    return wanted if worth_probing(len(wanted[0]) * len(wanted[1]), rows) else None


def wanted_of(bound: BoundMap, part: MapPart, row: Row) -> HeadsAndQueries:
    """Give the heads and queries of a map that a row needs."""
    heads, queries = bound.description.heads, row.labels[bound.description.query_labels].size
    return (
        np.arange(heads) if part.heads is None else part.heads,
        np.arange(queries) if part.queries is None else part.queries,
    )


def _whole_maps(bound: BoundMap, outputs: Mapping[str, Array], jobs: Sequence[Job]) -> dict[int, MapWeights]:
    """Give a map of each row that requests it, by the row's place in the batch."""
    key = (bound.description.name, bound.quantity)
    wanting = [place for place, job in enumerate(jobs) if key in job.call.query.maps]
    if len(wanting) < len(jobs) and not any(bound.joined):
        found = bound.rows(outputs, [jobs[place].row for place in wanting], wanting)
        return dict(zip(wanting, found, strict=True))
    found = bound.rows(outputs, [job.row for job in jobs])  # joined rows are taken apart as a whole
    return {place: found[place] for place in wanting}


def _union(indices: Sequence[Array]) -> Array:
    first = indices[0]
    return first if len(indices) == 1 else np.unique(np.concatenate(indices))
