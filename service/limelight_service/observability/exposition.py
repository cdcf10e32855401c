"""Snapshots of several processes, joined and handed to prometheus_client."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as OfficialExemplar

from limelight_service.observability.counters import Exemplar, FamilySnapshot, Join, Kind, Snapshot
from limelight_service.observability.saturation import Saturation

_JOINS: dict[str, Callable[[Iterable[float]], float]] = {Join.SUM: sum, Join.MIN: min, Join.MAX: max}


class SnapshotCollector(Collector):
    """The metrics of all processes of a server, for prometheus_client. snapshots: asks for them at each scrape."""

    def __init__(self, snapshots: Callable[[], Sequence[Snapshot]]) -> None:
        self._snapshots = snapshots
        self._saturation = Saturation()

    def collect(self) -> Iterator[Metric]:
        """Yield the joined metrics."""
        for name, family in self._saturation.settle(joined(self._snapshots())).items():
            yield _metric(name, family)

    def look(self) -> None:
        """Read the counts where nobody has done so for a while, so that the next reading has a late one beside it."""
        if self._saturation.is_due:
            self._saturation.settle(joined(self._snapshots()))


def joined(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Join snapshots of several processes: counters and histograms are summed, gauges joined as each declares."""
    found: dict[str, list[FamilySnapshot]] = {}
    for snapshot in snapshots:
        for name, family in snapshot.items():
            found.setdefault(name, []).append(family)
    return {name: _joined_family(families) for name, families in found.items()}


def without_gauges(snapshot: Snapshot) -> Snapshot:
    """Keep of a process that has ended its counters and histograms, which would fall otherwise."""
    return {name: family for name, family in snapshot.items() if family["kind"] != Kind.GAUGE}


def _joined_family(families: Sequence[FamilySnapshot]) -> FamilySnapshot:
    family: FamilySnapshot = {**families[0], "series": _joined_series(families)}
    if exemplars := [each for one in families for each in one.get("exemplars", ())]:
        family["exemplars"] = exemplars
    return family


def _joined_series(families: Sequence[FamilySnapshot]) -> Sequence[tuple[Sequence[str], Sequence[float]]]:
    if len(families) == 1:
        return families[0]["series"]
    join = _JOINS[families[0]["join"]]
    found: dict[tuple[str, ...], list[Sequence[float]]] = {}
    for family in families:
        for labels, values in family["series"]:
            found.setdefault(tuple(labels), []).append(values)
    return [(list(labels), list(map(join, zip(*values, strict=True)))) for labels, values in found.items()]


def _metric(name: str, family: FamilySnapshot) -> Metric:
    if family["kind"] == Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, family["help"], labels=family["labels"])
        bounds = [*(str(float(bound)) for bound in family["bounds"]), "+Inf"]
        exemplars = _exemplars(family)
        for labels, (*counts, total) in family["series"]:
            buckets: list[tuple[str, float] | tuple[str, float, OfficialExemplar]] = []
            for place, (bound, count) in enumerate(zip(bounds, accumulate(counts), strict=True)):
                exemplar = exemplars.get((tuple(labels), place))
                buckets.append((bound, count) if exemplar is None else (bound, count, exemplar))
            histogram.add_metric(labels, buckets, total)
        return histogram
    make = CounterMetricFamily if family["kind"] == Kind.COUNTER else GaugeMetricFamily
    numbers = make(name, family["help"], labels=family["labels"])
    for labels, (value,) in family["series"]:
        numbers.add_metric(labels, value)
    return numbers


def _exemplars(family: FamilySnapshot) -> dict[tuple[tuple[str, ...], int], OfficialExemplar]:
    """Give the last exemplar of each bucket, by label values and place; the text format leaves them out."""
    found: dict[tuple[tuple[str, ...], int], Exemplar] = {}
    for labels, bucket, (trace, value, moment) in family.get("exemplars", ()):
        key = tuple(labels), bucket
        if key not in found or found[key][2] < moment:
            found[key] = (trace, value, moment)
    return {key: OfficialExemplar({"trace_id": trace}, value, moment) for key, (trace, value, moment) in found.items()}
