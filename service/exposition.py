"""Counters, gauges and histograms, and the page of them that Prometheus reads (text format 0.0.4).

Children are kept by their labels' values; what is on the path of every request is one look-up and one short lock.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Any, Generic, TypeVar

_TURN = 1e-3  # seconds that a page is written for before other threads have theirs
Labels = tuple[str, ...]
Values = tuple[float, ...]
# What a process has counted: by name and labels; a histogram's values are its buckets' counts and their sum.
Snapshot = Mapping[str, Mapping[Labels, Values]]


class Kind(StrEnum):
    """What Prometheus calls a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Number:
    """A count or a level. Safe to use from several threads."""

    __slots__ = ("_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0.0

    def add(self, amount: float = 1) -> None:
        """Add to it."""
        with self._lock:
            self._value += amount

    def set(self, value: float) -> None:
        """Replace it."""
        with self._lock:
            self._value = value

    def values(self) -> Values:
        """Read it."""
        return (self._value,)


class Distribution:
    """How many observations fell at or below each bound, and their sum. Safe to use from several threads."""

    __slots__ = ("_bounds", "_counts", "_lock", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._lock = threading.Lock()
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)  # the last for what is above them all
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count an observation."""
        place = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[place] += 1
            self._sum += value

    def values(self) -> Values:
        """Read the counts, each bucket's own, and then the sum."""
        with self._lock:
            return (*self._counts, self._sum)


C = TypeVar("C", bound=Number | Distribution)


@dataclass(eq=False)
class Family(Generic[C]):
    """A metric and its children, one for each set of label values that was asked for.

    bounds: of a histogram. join: makes one value of those of several processes.
    """

    name: str
    summary: str
    kind: Kind
    labels: tuple[str, ...]
    make: Callable[[], C]
    bounds: tuple[float, ...] = ()
    join: Callable[[Iterable[float]], float] = sum
    _children: dict[Labels, C] = field(default_factory=dict)
    _written: dict[Labels, tuple[str, ...]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def child(self, *labels: str) -> C:
        """Get the child with these label values; it is made, at zero, where it is new."""
        found = self._children.get(labels)
        if found is None:
            with self._lock:
                found = self._children.setdefault(labels, self.make())
        return found

    def remove(self, **labels: str) -> None:
        """Remove every child that has these values of these labels; a family without them is left as it is."""
        if not labels.keys() <= set(self.labels):
            return
        wanted = [(self.labels.index(name), value) for name, value in labels.items()]
        with self._lock:
            for each in [key for key in self._children if all(key[place] == value for place, value in wanted)]:
                del self._children[each]

    def values(self) -> dict[Labels, Values]:
        """Read all children."""
        with self._lock:
            children = list(self._children.items())
        return {labels: child.values() for labels, child in children}

    def lines(self, values: Mapping[Labels, Values]) -> Iterator[str]:
        """Write the values, this process's or several processes' joined, as the page has them.

        Everything left of a number is written once and kept for as long as there is a value for it.
        """
        yield f"# HELP {self.name} {self.summary}\n# TYPE {self.name} {self.kind.value}\n"
        known = self._written
        self._written = {labels: known.get(labels) or self._before(labels) for labels in values}
        for labels, before in self._written.items():
            numbers = values[labels]
            if self.kind is Kind.HISTOGRAM:
                numbers = _cumulative(numbers)
            yield "".join([f"{start}{_number(number)}\n" for start, number in zip(before, numbers, strict=True)])

    def _before(self, labels: Labels) -> tuple[str, ...]:
        pairs = list(zip(self.labels, labels, strict=True))
        if self.kind is not Kind.HISTOGRAM:
            return (_series(self.name, pairs),)
        buckets = [_series(f"{self.name}_bucket", [*pairs, ("le", str(bound))]) for bound in (*self.bounds, "+Inf")]
        return (*buckets, _series(f"{self.name}_count", pairs), _series(f"{self.name}_sum", pairs))


class Registry:
    """All metrics of a process."""

    def __init__(self) -> None:
        self._families: list[Family[Any]] = []

    def counter(self, name: str, summary: str, labels: tuple[str, ...]) -> Family[Number]:
        """Declare a number that only rises."""
        return self._add(Family(name, summary, Kind.COUNTER, labels, Number))

    def gauge(
        self, name: str, summary: str, labels: tuple[str, ...], join: Callable[[Iterable[float]], float] = sum
    ) -> Family[Number]:
        """Declare a level; join: how those of several processes become one."""
        return self._add(Family(name, summary, Kind.GAUGE, labels, Number, join=join))

    def histogram(
        self, name: str, summary: str, labels: tuple[str, ...], bounds: Sequence[float]
    ) -> Family[Distribution]:
        """Declare a distribution; bounds: the buckets' upper ones, rising."""
        upper = tuple(float(bound) for bound in bounds)
        return self._add(Family(name, summary, Kind.HISTOGRAM, labels, lambda: Distribution(upper), upper))

    def remove(self, **labels: str) -> None:
        """Remove every child of any metric that has these values of these labels."""
        for family in self._families:
            family.remove(**labels)

    def snapshot(self) -> Snapshot:
        """Read everything; what is read can be sent to another process."""
        return {family.name: family.values() for family in self._families}

    def page(self, snapshot: Snapshot | None = None) -> bytes:
        """Write the page: of this process, or of what several have counted, joined."""
        found = self.snapshot() if snapshot is None else snapshot
        lines: list[str] = []
        turn = time.perf_counter()
        for family in self._families:
            for line in family.lines(found.get(family.name, {})):
                lines.append(line)
                if time.perf_counter() - turn > _TURN:
                    time.sleep(0)  # the interpreter's lock goes to whoever waits for it: calls do, a scrape does not
                    turn = time.perf_counter()
        return "".join(lines).encode()

    def joined(self, snapshots: Sequence[Snapshot], ended: Sequence[Snapshot] = ()) -> Snapshot:
        """Join what several processes have counted; of those that ended, only what adds up."""
        both = [*snapshots, *ended]
        return {
            family.name: _joined(family, [each[family.name] for each in (both if _adds_up(family) else snapshots)])
            for family in self._families
        }

    def _add(self, family: Family[C]) -> Family[C]:
        self._families.append(family)
        return family


def _adds_up(family: Family[Any]) -> bool:
    return family.kind is not Kind.GAUGE


def _joined(family: Family[Any], parts: Sequence[Mapping[Labels, Values]]) -> dict[Labels, Values]:
    found: dict[Labels, list[Values]] = {}
    for part in parts:
        for labels, values in part.items():
            found.setdefault(labels, []).append(values)
    join = family.join
    return {labels: tuple(map(join, zip(*values, strict=True))) for labels, values in found.items()}


def _cumulative(values: Values) -> Values:
    """Turn a histogram's values into what its lines say: counts up to each bound, of all, and the sum."""
    counts = tuple(accumulate(values[:-1]))
    return (*counts, counts[-1], values[-1])


def _series(name: str, pairs: Sequence[tuple[str, str]]) -> str:
    written = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(pairs))
    return f"{name}{{{written}}} " if pairs else f"{name} "


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == value // 1 else repr(value)
