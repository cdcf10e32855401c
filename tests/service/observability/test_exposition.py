"""The metrics that a scraper finds are those that prometheus_client's own counters would have."""

import re
from collections.abc import Sequence

import prometheus_client as official
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from limelight_service.observability.counters import Registry, Snapshot
from limelight_service.observability.exposition import SnapshotCollector, without_gauges

BOUNDS = (0.001, 0.5, 1.0, 2.5, 1000.0)
Event = tuple[str, str, float]

# Values that floats hold exactly, so that a sum does not depend on its order.
values = st.integers(-(2**20), 2**20).map(lambda number: number / 1024)
events = st.lists(st.tuples(st.text(max_size=4), st.sampled_from(["a", "b"]), values), max_size=20)
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(page: bytes) -> Samples:
    """Read a page as Prometheus does."""
    families = text_string_to_metric_families(page.decode())
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples
    }


def ours(told: Sequence[Event]) -> Registry:
    """Our metrics of these events."""
    registry, labels = Registry(), ("first", "second")
    count = registry.counter("count_total", "Counts.", labels)
    level = registry.gauge("level", "Levels.", labels)
    seconds = registry.histogram("seconds", "Times.", labels, BOUNDS)
    for first, second, value in told:
        count.child(first, second).add(abs(value))
        level.child(first, second).set(value)
        seconds.child(first, second).observe(value)
    return registry


def page(*snapshots: Snapshot) -> bytes:
    return official.generate_latest(SnapshotCollector(lambda: snapshots))


def theirs(told: Sequence[Event]) -> official.CollectorRegistry:
    registry, labels = official.CollectorRegistry(), ("first", "second")
    count = official.Counter("count_total", "Counts.", labels, registry=registry)
    level = official.Gauge("level", "Levels.", labels, registry=registry)
    seconds = official.Histogram("seconds", "Times.", labels, buckets=BOUNDS, registry=registry)
    for first, second, value in told:
        count.labels(first, second).inc(abs(value))
        level.labels(first, second).set(value)
        seconds.labels(first, second).observe(value)
    return registry


def of_client(registry: official.CollectorRegistry) -> Samples:
    """Exposition of prometheus_client, without the times at which metrics were made."""
    found = samples(official.generate_latest(registry))
    return {key: value for key, value in found.items() if not key[0].endswith("_created")}


@given(events)
def test_a_page_is_the_one_of_the_official_client(told: list[Event]) -> None:
    assert samples(page(ours(told).snapshot())) == of_client(theirs(told))


@given(events, events, events)
def test_processes_together_count_what_one_would_have(one: list[Event], other: list[Event], ended: list[Event]) -> None:
    *running, gone = (ours(each).snapshot() for each in (one, other, ended))
    together = samples(page(*running, without_gauges(gone)))
    alone = of_client(theirs([*one, *other, *ended]))
    adds_up = {key: value for key, value in together.items() if key[0] != "level"}
    assert adds_up == {key: value for key, value in alone.items() if key[0] != "level"}
    # A level is that of the processes that are there.
    last = [{(first, second): value for first, second, value in told} for told in (one, other)]
    keys = last[0].keys() | last[1].keys()
    levels = {
        (("first", first), ("second", second)): sum(each.get((first, second), 0) for each in last)
        for first, second in keys
    }
    assert {key[1]: value for key, value in together.items() if key[0] == "level"} == levels


def test_of_several_traced_observations_in_a_bucket_the_last_is_told() -> None:
    def seen(value: float, trace: str) -> Snapshot:
        registry = Registry()
        registry.histogram("seconds", "Times.", ("place",), BOUNDS).child("here").observe(value, trace)
        return registry.snapshot()

    snapshots = [seen(0.2, "1" * 32), seen(0.3, "2" * 32), without_gauges(seen(0.4, "3" * 32))]
    written = openmetrics.generate_latest(SnapshotCollector(lambda: snapshots)).decode()
    told = re.findall(r'^seconds_bucket\{le="([0-9.]+)".*\} \S+ # \{trace_id="(\d+)"\} (\S+)', written, re.MULTILINE)
    assert told == [("0.5", "3" * 32, "0.4")]
    assert "trace_id" not in page(*snapshots).decode()


@given(events)
def test_what_is_removed_is_as_if_it_had_never_been(told: list[Event]) -> None:
    registry = ours(told)
    registry.remove(second="a")
    registry.remove(third="a")  # a label that no metric has
    kept = [each for each in told if each[1] != "a"]
    assert samples(page(registry.snapshot())) == samples(page(ours(kept).snapshot()))
