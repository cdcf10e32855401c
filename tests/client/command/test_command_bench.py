"""`limelight bench`: what it sends and counts."""

import json
import re
from typing import Any

import pytest

from tests.client.command.people import Run
from tests.client.server import Server


def test_bench_counts_what_it_sends(run: Run, server: Server):
    measured = json.loads(
        run("bench", "scribe", "--requests", "40", "--warmup", "3", "--concurrency", "5", "--json")[1]
    )
    assert (measured["requests"], measured["errors"], measured["concurrency"], measured["method"]) == (
        40,
        0,
        5,
        "predict",
    )
    assert len(server.servicer.requests) == 1 + 3 + 40
    latency = measured["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"] < 20_000
    assert measured["requests_per_second"] == pytest.approx(40 / measured["seconds"])


def test_bench_runs_for_its_time_with_attention_and_rows(run: Run, server: Server):
    status, output, _ = run("bench", "scribe", "some text", "--seconds", "0.3", "--method", "attend", "--rows", "2")
    assert status == 0
    assert re.match(r"attend scribe, 4 callers, 0\.[3-9] s\n[\d.]+ requests/s of 2 rows \([\d.]+ rows/s\)", output)
    assert "p99" in output
    assert re.search(r"^OK \d+ \(no retries\)$", output, re.M)
    assert len(server.servicer.requests[-1].instances) == 2


def test_bench_ends_with_an_error_where_requests_fail(run: Run, server: Server, monkeypatch: pytest.MonkeyPatch):
    server.servicer.unavailable = 0
    check, seen = server.servicer.check, []

    def fail_late(asked: Any, context: Any) -> None:
        seen.append(asked)
        if len(seen) > 5:
            server.servicer.unavailable = 1
        check(asked, context)

    monkeypatch.setattr(server.servicer, "check", fail_late)
    status, output, errors = run("bench", "scribe", "-n", "10", "--warmup", "1", "-c", "1", "--json")
    measured = json.loads(output)
    assert (status, measured["requests"], measured["errors"]) == (1, 10, 7)
    assert (measured["codes"], measured["attempts"]) == ({"OK": 3, "UNAVAILABLE": 7}, 1)
    assert errors == "limelight: 7 of 10 requests failed; the first: UNAVAILABLE: starting\n"
