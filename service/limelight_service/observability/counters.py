"""Counters, gauges and histograms of one process, and snapshots of them, which are plain data.

Recording is on the path of every request: one look-up by the labels' values and one short lock. prometheus_client sees
snapshots only (`limelight_service.observability.exposition`), so that several processes can be joined in one page.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from time import time
from typing import Any, Generic, NotRequired, TypedDict, TypeVar


class Kind(StrEnum):
    """The type of a metric in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Join(StrEnum):
    """Combination of the values of several processes."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


Exemplar = tuple[str, float, float]
"""A traced observation: number of its trace, its value, and when it was made, in seconds since 1970."""


class FamilySnapshot(TypedDict):
    """The values of a metric at one moment.

    kind, join: of `Kind` and `Join`. bounds: upper bounds of a histogram's buckets, without infinity. series: label
    values and values; of a histogram the count of each bucket by itself (the last without a bound), then the sum.
    exemplars: of a histogram with traced observations: label values, place of the bucket, and the last one in it.
    """

    kind: str
    help: str
    labels: Sequence[str]
    bounds: Sequence[float]
    join: str
    series: Sequence[tuple[Sequence[str], Sequence[float]]]
    exemplars: NotRequired[Sequence[tuple[Sequence[str], int, Exemplar]]]


Snapshot = dict[str, FamilySnapshot]
"""All metrics of a process by name: dicts, lists, strings and floats, so that any codec carries it."""


class Number:
    """A counter or a gauge. Its methods are thread-safe; what one thread alone counts is added to `value` for less.

    lock: that of its registry.
    """

    __slots__ = ("_lock", "value")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.value = 0.0

    def add(self, amount: float = 1) -> None:
        """Add to the value."""
        with self._lock:
            self.value += amount

    def set(self, value: float) -> None:
        """Replace the value."""
        with self._lock:
            self.value = value

    def values(self) -> list[float]:
        """Read the value."""
        return [self.value]


class Distribution:
    """A histogram: observations at or below each bound, and their sum. Thread-safe.

    exemplars: the last traced observation of each bucket that has one, by its place.
    """

    __slots__ = ("_bounds", "_counts", "_lock", "_sum", "exemplars")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._lock = threading.Lock()
        self._bounds = bounds
        self._counts = [0.0] * (len(bounds) + 1)
        self._sum = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, trace: str = "") -> None:
        """Count an observation. trace: number of the trace that it belongs to; empty without one."""
        bucket = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += value
            if trace:
                self.exemplars[bucket] = (trace, value, time())

    def add(self, counts: Sequence[float], total: float) -> None:
        """Add many observations. counts: of each bucket with a bound, by itself. total: their sum."""
        with self._lock:
            for bucket, count in enumerate(counts):
                self._counts[bucket] += count
            self._sum += total

    def values(self) -> list[float]:
        """Read the count of each bucket by itself, then the sum."""
        with self._lock:
            return [*self._counts, self._sum]


C = TypeVar("C", bound=Number | Distribution)


@dataclass(eq=False)
class Family(Generic[C]):
    """A metric and its children, one for each set of label values in use."""

    name: str
    help: str
    kind: Kind
    labels: tuple[str, ...]
    make: Callable[[], C]
    bounds: tuple[float, ...] = ()
    join: Join = Join.SUM
    _children: dict[tuple[str, ...], C] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def child(self, *labels: str) -> C:
        """Get the child with these label values; a new one starts at zero."""
        found = self._children.get(labels)
        if found is None:
            with self._lock:
                found = self._children.setdefault(tuple(map(str, labels)), self.make())
        return found

    def zero(self) -> None:
        """Set every gauge to zero."""
        with self._lock:
            for child in self._children.values():
                assert isinstance(child, Number)
                child.value = 0.0

    def remove(self, **labels: str) -> None:
        """Remove every child with these label values; a family without these labels is left alone."""
        if not labels.keys() <= set(self.labels):
            return
        wanted = [(self.labels.index(name), value) for name, value in labels.items()]
        with self._lock:
            for each in [key for key in self._children if all(key[index] == value for index, value in wanted)]:
                del self._children[each]

    def snapshot(self) -> FamilySnapshot:
        """Read all children."""
        with self._lock:
            children = list(self._children.items())
        snapshot: FamilySnapshot = {
            "kind": self.kind.value,
            "help": self.help,
            "labels": list(self.labels),
            "bounds": list(self.bounds),
            "join": self.join.value,
            "series": [(list(labels), child.values()) for labels, child in children],
        }
        exemplars = [
            (list(labels), bucket, exemplar)
            for labels, child in children
            if isinstance(child, Distribution)
            for bucket, exemplar in list(child.exemplars.items())
        ]
        if exemplars:
            snapshot["exemplars"] = exemplars
        return snapshot


class Registry:
    """All metrics of a process."""

    def __init__(self) -> None:
        self._families: list[Family[Any]] = []
        self._lock = threading.Lock()  # of all numbers

    def counter(self, name: str, summary: str, labels: tuple[str, ...]) -> Family[Number]:
        """Declare a counter."""
        return self._add(Family(name, summary, Kind.COUNTER, labels, self._number))

    def gauge(self, name: str, summary: str, labels: tuple[str, ...], join: Join = Join.SUM) -> Family[Number]:
        """Declare a gauge."""
        return self._add(Family(name, summary, Kind.GAUGE, labels, self._number, join=join))

    def histogram(
        self, name: str, summary: str, labels: tuple[str, ...], bounds: Sequence[float]
    ) -> Family[Distribution]:
        """Declare a histogram; bounds: upper bounds of its buckets, rising."""
        upper = tuple(float(bound) for bound in bounds)
        return self._add(Family(name, summary, Kind.HISTOGRAM, labels, lambda: Distribution(upper), upper))

    def remove(self, **labels: str) -> None:
        """Remove every child of any metric with these label values."""
        for family in self._families:
            family.remove(**labels)

    def snapshot(self) -> Snapshot:
        """Read everything."""
        return {family.name: family.snapshot() for family in self._families}

    def _number(self) -> Number:
        return Number(self._lock)

    def _add(self, family: Family[C]) -> Family[C]:
        self._families.append(family)
        return family
