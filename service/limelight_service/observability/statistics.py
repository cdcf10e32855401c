"""Counts of calls by version of a model, as the Open Inference Protocol tells them (`ModelStatistics`).

They are no part of the metrics page: batches by their size are a series for every size that occurs. Processes count for
themselves and are joined as metrics are (`limelight_service.observability.exposition.joined`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from limelight_service.observability.counters import Join, Number, Registry, Snapshot


class Part(StrEnum):
    """A part of a call: the number of calls with it (`calls`), and their total nanoseconds, are counted.

    Of the response cache, it is the number of rows.
    """

    SUCCESS = "success"
    FAIL = "fail"
    QUEUE = "queue"
    PREPROCESS = "preprocess"
    COMPUTE = "compute"
    ENCODE = "encode"
    CACHE_HIT = "cache_hit"
    CACHE_MISS = "cache_miss"


_TIMED = (Part.SUCCESS, Part.QUEUE, Part.PREPROCESS, Part.COMPUTE, Part.ENCODE)


@dataclass(frozen=True)
class CallTimes:
    """A call that was answered, in nanoseconds.

    total: from its begin to its end. queue, compute: of the row that took longest. rows: for each row that an engine
    answered, how many shared its batch, it among them, and the time that the batch computed.
    """

    total: int
    queue: int
    preprocess: int
    compute: int
    encode: int
    rows: Sequence[tuple[int, int]]


@dataclass
class VersionStatistics:
    """The counts of one version.

    calls, nanoseconds: by `Part`. rows, computing: rows by the size of their batches, and the nanoseconds that those
    batches computed, each batch once. last: when the last call ended, in milliseconds since 1970.
    """

    calls: dict[str, int] = field(default_factory=dict)
    nanoseconds: dict[str, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    computing: dict[int, int] = field(default_factory=dict)
    last: int = 0

    def batches(self, size: int) -> int:
        """Count the batches of a size: of one that is under way, or whose other rows were cancelled, a part counts."""
        return -(-self.rows[size] // size)


class Statistics:
    """Counts by name and version of a model. Counted on one event loop, read from any thread."""

    def __init__(self) -> None:
        self._registry = own = Registry()
        version = ("model", "version")
        self._calls = own.counter("calls", "Calls.", (*version, "part"))
        self._nanoseconds = own.counter("nanoseconds", "Their time.", (*version, "part"))
        self._rows = own.counter("rows", "Rows by the size of their batch.", (*version, "size"))
        self._computing = own.counter("computing", "Time of batches by their size.", (*version, "size"))
        self._parts: dict[tuple[str, int], tuple[Number, ...]] = {}  # of calls that are answered, looked up once
        self._sizes: dict[tuple[str, int, int], tuple[Number, Number]] = {}
        self._last = own.gauge("last", "When the last call ended.", version, Join.MAX)

    def answered(self, model: str, version: int, times: CallTimes) -> None:
        """A call was answered."""
        parts = self._parts.get((model, version))
        if parts is None:
            key = model, str(version)
            parts = self._parts[model, version] = (
                self._calls.child(*key, Part.SUCCESS),
                *(self._nanoseconds.child(*key, part) for part in _TIMED),
                self._last.child(*key),
            )
        calls, total, queue, preprocess, compute, encode, last = parts
        calls.value += 1
        total.value += times.total
        queue.value += times.queue
        preprocess.value += times.preprocess
        compute.value += times.compute
        encode.value += times.encode
        for size, computing in times.rows:
            rows, share = self._sizes.get((model, version, size)) or self._of_size(model, version, size)
            rows.value += 1
            share.value += computing / size  # each row brings its part of the batch
        last.value = time.time() * 1000

    def failed(self, model: str, version: int, nanoseconds: int) -> None:
        """A call got an error."""
        self._calls.child(model, str(version), Part.FAIL).add()
        self._nanoseconds.child(model, str(version), Part.FAIL).add(nanoseconds)

    def cache_asked(self, model: str, version: int, hits: int, misses: int, *, looking: int, keeping: int) -> None:
        """As `Metrics.cache_asked`."""
        share = looking // (hits + misses)
        for part, rows, more in ((Part.CACHE_HIT, hits, 0), (Part.CACHE_MISS, misses, keeping)):
            self._calls.child(model, str(version), part).add(rows)
            self._nanoseconds.child(model, str(version), part).add(share * rows + more)

    def gone(self, model: str, version: int) -> None:
        """A version is no longer there."""
        self._parts.pop((model, version), None)
        for key in [each for each in self._sizes if each[:2] == (model, version)]:
            del self._sizes[key]
        self._registry.remove(model=model, version=str(version))

    def snapshot(self) -> Snapshot:
        """Read everything, as plain data."""
        return self._registry.snapshot()

    def _of_size(self, model: str, version: int, size: int) -> tuple[Number, Number]:
        key = model, str(version), str(size)
        found = self._sizes[model, version, size] = self._rows.child(*key), self._computing.child(*key)
        return found


def by_version(snapshot: Snapshot) -> dict[tuple[str, int], VersionStatistics]:
    """Read the counts of every version from a snapshot."""
    found: dict[tuple[str, int], VersionStatistics] = {}
    for name, family in snapshot.items():
        for (model, version, *rest), (value,) in family["series"]:
            of = found.setdefault((model, int(version)), VersionStatistics())
            match name:
                case "calls":
                    of.calls[rest[0]] = round(value)
                case "nanoseconds":
                    of.nanoseconds[rest[0]] = round(value)
                case "rows":
                    of.rows[int(rest[0])] = round(value)
                case "computing":
                    of.computing[int(rest[0])] = round(value)
                case "last":
                    of.last = round(value)
    return found
