"""Snapshots of several processes, joined and handed to prometheus_client."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from service.observability.counters import FamilySnapshot, Join, Kind, Snapshot

_JOINS: dict[str, Callable[[Iterable[float]], float]] = {Join.SUM: sum, Join.MIN: min, Join.MAX: max}


class SnapshotCollector(Collector):
    """The metrics of all processes of a server, for prometheus_client. snapshots: asks for them at each scrape."""

    def __init__(self, snapshots: Callable[[], Sequence[Snapshot]]) -> None:
        self._snapshots = snapshots

    def collect(self) -> Iterator[Metric]:
        """Yield the joined metrics."""
        for name, family in joined(self._snapshots()).items():
            yield _metric(name, family)


def joined(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Join snapshots of several processes: counters and histograms are summed, gauges joined as each declares."""
    found: dict[str, list[FamilySnapshot]] = {}
    for snapshot in snapshots:
        for name, family in snapshot.items():
            found.setdefault(name, []).append(family)
    return {name: {**families[0], "series": _joined_series(families)} for name, families in found.items()}


def without_gauges(snapshot: Snapshot) -> Snapshot:
    """Keep of a process that has ended its counters and histograms, which would fall otherwise."""
    return {name: family for name, family in snapshot.items() if family["kind"] != Kind.GAUGE}


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
        for labels, (*counts, total) in family["series"]:
            histogram.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
        return histogram
    make = CounterMetricFamily if family["kind"] == Kind.COUNTER else GaugeMetricFamily
    numbers = make(name, family["help"], labels=family["labels"])
    for labels, (value,) in family["series"]:
        numbers.add_metric(labels, value)
    return numbers
