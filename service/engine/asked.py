"""What a batch asks of a model's maps: whole ones, whose gates open, rows of others, or what they are made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bundle.maps import BoundMap, MapPart, MapWeights, worth_probing
from bundle.rows import Row
from bundle.values import Array
from service.engine.jobs import Job
from service.engine.types import MapKey

_OPEN = np.array(True)

# Heads and queries, ascending.
Rows = tuple[Array, Array]


class ProbedMap:
    """A map of which a batch wants rows: every head and query that any of its rows wants."""

    def __init__(self, bound: BoundMap, rows: Mapping[int, Rows]) -> None:
        assert bound.probe is not None
        self.bound, self._rows = bound, rows
        self.output = bound.probe.output
        heads, queries = zip(*rows.values(), strict=True)
        self._held = _union(heads), _union(queries)
        self.feeds = {bound.probe.heads: self._held[0], bound.probe.queries: self._held[1]}

    def of_rows(self, outputs: Mapping[str, Array], jobs: Sequence[Job]) -> dict[int, MapWeights]:
        """Give each row what it wants, by its place in the batch."""
        return {
            place: self.bound.part(outputs, jobs[place].row, place, self._held, wanted)
            for place, wanted in self._rows.items()
        }


@dataclass(frozen=True)
class OfGraph:
    """What a batch asks of the maps of one graph."""

    whole: Sequence[BoundMap]
    probed: Sequence[ProbedMap]
    projected: Sequence[BoundMap]

    @property
    def outputs(self) -> Iterator[str]:
        """Name what is fetched for it."""
        for bound in self.whole:
            yield from bound.outputs
        for each in self.probed:
            yield each.output
        for bound in self.projected:
            assert bound.projections is not None
            yield from bound.projections.outputs

    def feeds(self) -> dict[str, Array]:
        """Give what is fed for it: nothing where the maps are plain outputs."""
        feeds: dict[str, Array] = {bound.gate: _OPEN for bound in self.whole if bound.gate}
        for each in self.probed:
            feeds |= each.feeds
        return feeds | {bound.projections.gate: _OPEN for bound in self.projected if bound.projections}


@dataclass(frozen=True)
class Asked:
    """What a batch asks for. projected: maps of which somebody wants only what they are made of.

    rows: of maps that are not asked for whole, by the places of the batch that want some.
    """

    whole: frozenset[MapKey]
    projected: frozenset[MapKey] = frozenset()
    rows: Mapping[MapKey, Mapping[int, Rows]] = field(default_factory=dict)

    def of(self, maps: Mapping[MapKey, BoundMap]) -> "OfGraph":
        """Give what is asked of one graph, by its maps."""
        return OfGraph(
            tuple([bound for key, bound in maps.items() if key in self.whole]),
            tuple([ProbedMap(bound, self.rows[key]) for key, bound in maps.items() if key in self.rows]),
            tuple([bound for key, bound in maps.items() if key in self.projected]),
        )


def asked_of(jobs: Sequence[Job], maps: Mapping[MapKey, BoundMap]) -> Asked:
    """Join what the rows of a batch ask for. maps: every map of the model, where the graphs put it out."""
    whole: set[MapKey] = set()
    projected: set[MapKey] = set()
    rows: dict[MapKey, dict[int, Rows]] = {}
    for place, job in enumerate(jobs):
        query = job.call.query
        parts = query.parts_of(job.index)
        if not parts:
            whole |= query.maps
            continue
        for key in query.maps:
            wanted = rows_of(maps[key], parts.get(key), job.row)
            if wanted is None:
                (projected if is_projected(maps[key], parts.get(key)) else whole).add(key)
            else:
                rows.setdefault(key, {})[place] = wanted
    return Asked(frozenset(whole), frozenset(projected), {key: each for key, each in rows.items() if key not in whole})


def is_projected(bound: BoundMap, part: MapPart | None) -> bool:
    """Tell whether what a map is made of is asked for, and can be had; otherwise it is computed whole."""
    return part is not None and part.projected and bound.projections is not None


def rows_of(bound: BoundMap, part: MapPart | None, row: Row) -> Rows | None:
    """Give the heads and queries to ask a map's probe for; None where it has none, or the whole map costs less."""
    if part is None or part.projected or bound.probe is None:
        return None
    heads, queries = bound.description.heads, row.labels[bound.description.query_labels].size
    wanted = (
        np.arange(heads) if part.heads is None else part.heads,
        np.arange(queries) if part.queries is None else part.queries,
    )
    return wanted if worth_probing(len(wanted[0]) * len(wanted[1]), heads * queries) else None


def _union(indices: Sequence[Array]) -> Array:
    first = indices[0]
    return first if len(indices) == 1 else np.unique(np.concatenate(indices))
