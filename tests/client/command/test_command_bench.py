"""`limelight bench`: what it sends, counts, writes and draws."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.cli.bench.lengths import COUNT, Lengths, read_lengths, texts
from limelight.cli.bench.load import Load, Recorder, Reply
from limelight.cli.bench.load import run as run_load
from limelight.cli.bench.plots import round_ticks
from limelight.cli.bench.ramp import find_knee
from limelight.cli.bench.report import p99_of_all
from tests.client.command.people import HEARS_CTRL_C, Run, in_terminal
from tests.kit.forwarder import Forwarder


def reported(run: Run, *arguments: object) -> dict[str, Any]:
    """The report that a run writes to standard output."""
    status, output, errors = run("bench", *arguments, "--json", "-")
    assert status == 0, errors
    document: dict[str, Any] = json.loads(output)
    return document


def test_bench_counts_what_it_sends(run: Run, server: Forwarder) -> None:
    report = reported(run, "tiny", "--requests", "40", "--warmup", "3", "--callers", "5")
    outcome, setup = report["outcome"], report["setup"]
    assert (setup["loop"], setup["callers"], setup["connections"], setup["method"]) == ("closed", 5, 5, "Predict")
    assert (outcome["requests"], outcome["errors"], outcome["codes"]) == (40, 0, {"OK": 40})
    assert len(server.requests) == 1 + 3 + 40
    latency = outcome["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"] < 20_000
    assert outcome["requests_per_second"] == pytest.approx(40 / outcome["seconds"])
    assert sum(each["answers"] for each in outcome["intervals"]) == 40


def test_bench_runs_for_its_time_with_attention_and_rows(run: Run, server: Forwarder) -> None:
    status, output, _ = run("bench", "tiny", "some text", "--seconds", "0.3", "--map", "*", "--rows", "2")
    assert status == 0
    assert re.match(r"Attend tiny, 4 callers, 0\.[3-9] s\n[\d.]+ requests/s of 2 rows \([\d.]+ rows/s\)", output)
    assert "p99" in output
    assert re.search(r"^OK \d+ \(no retries\)$", output, re.M)
    assert len(server.requests[-1].instances) == 2


def test_bench_ends_with_an_error_where_requests_fail(run: Run, server: Forwarder) -> None:
    server.fail(grpc.StatusCode.UNAVAILABLE, "starting", after=5, times=1000)
    status, output, errors = run("bench", "tiny", "-n", "10", "--warmup", "1", "-c", "1", "--json", "-")
    report = json.loads(output)
    assert (status, report["outcome"]["requests"], report["outcome"]["errors"]) == (1, 10, 7)
    assert (report["outcome"]["codes"], report["setup"]["attempts"]) == ({"OK": 3, "UNAVAILABLE": 7}, 1)
    assert errors == "limelight: 7 of 10 requests failed; the first: UNAVAILABLE: starting\n"


def test_the_inputs_of_a_file_are_sent_in_turn(run: Run, server: Forwarder, tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text('"one"\n\n{"text": "two words"}\n{"text": "@not a file"}\n')
    report = reported(run, "tiny", "--inputs", file, "-n", "6", "-c", "1", "--warmup", "0")
    sent = [each.instances[0].inputs["text"].text for each in server.requests[1:]]
    assert sent == ["one", "two words", "@not a file"] * 2 and report["setup"]["inputs"] == 3


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "inputs.jsonl:1 is not JSON"),
        ("3", "inputs.jsonl:1 is neither"),
        ('{"picture": "x"}', "inputs.jsonl:1: model 'tiny' has no input 'picture'"),
        ("", "has no lines"),
    ],
)
def test_a_bad_line_is_named(run: Run, tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text(line)
    status, output, errors = run("bench", "tiny", "--inputs", file)
    assert status and not output and problem in errors


def test_lengths_are_drawn(run: Run, server: Forwarder) -> None:
    arguments = ("tiny", "a b c d e f g", "--lengths", "2:5", "-n", "40", "-c", "1", "--warmup", "0")
    assert reported(run, *arguments)["setup"]["inputs"] == COUNT
    sent = [each.instances[0].inputs["text"].text for each in server.requests[1:]]
    assert {len(each.split()) for each in sent} == {2, 3, 4, 5}
    server.requests.clear()
    reported(run, *arguments)
    assert [each.instances[0].inputs["text"].text for each in server.requests[1:]] == sent  # the same seed


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 1000))
def test_lengths_keep_their_distribution(first: int, more: int, seed: int) -> None:
    for text, shortest, longest in ((str(first), first, first), (f"{first}:{first + more}", first, first + more)):
        drawn: Iterator[str] = texts("some words", read_lengths(text), seed)
        assert shortest <= len(next(drawn).split()) <= longest
    drawn = texts("word", Lengths("log-normal", first, 0.0), seed)
    assert len(next(drawn).split()) == first


@pytest.mark.parametrize("text", ["0", "5:2", "a", "8~", "-1", "1:200000", "1:2:3"])
def test_lengths_that_are_none_are_refused(run: Run, text: str) -> None:
    status, _, errors = run("bench", "tiny", f"--lengths={text}")
    assert status == 2 and "--lengths takes words as N, MIN:MAX or MEDIAN~SIGMA" in errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("--ramp",),
        ("--p99", "10"),
        ("--callers", "2", "--rate", "3"),
        ("-n", "4", "--seconds", "1"),
        ("--inputs", "x.jsonl", "--example", "0"),
        ("--head", "0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, server: Forwarder, arguments: tuple[str, ...]) -> None:
    assert run("bench", "tiny", *arguments)[0] == 2
    assert not server.requests


def measured(capacity: float, load: Load) -> Recorder:
    """A run against a server that answers one call after the other, `capacity` a second."""

    async def measure() -> Recorder:
        turn, record = asyncio.Lock(), Recorder()

        async def send(number: int) -> Reply:
            async with turn:
                await asyncio.sleep(1 / capacity)
            return Reply("OK", 10)

        await run_load(send, load, record)
        return record

    return asyncio.run(measure())


def test_an_open_loop_counts_the_wait_of_calls_that_were_due() -> None:
    """Four times the capacity: 40 calls in 0.2 s take 0.8 s, so that the last waits 0.6 s. One caller never waits."""
    record = measured(50, Load(rate=200, number=40))
    assert max(record.latencies) > 0.4 and len(record.ends) == 40
    alone = measured(50, Load(callers=1, number=10))
    assert np.median(alone.latencies) < max(record.latencies) / 2


def test_arrivals_of_an_open_loop_are_a_poisson_process() -> None:
    """The gaps of 400 arrivals have the mean and the deviation of an exponential distribution, within five errors."""
    due: list[float] = []

    async def send(number: int) -> Reply:
        return Reply("OK")

    async def measure() -> None:
        record = Recorder()
        await run_load(send, Load(rate=800, number=400), record)
        due.extend(end - latency for end, latency in zip(record.ends, record.latencies, strict=True))

    asyncio.run(measure())
    gaps = np.diff(sorted(due)) * 800
    assert abs(gaps.mean() - 1) < 5 / 20 and abs(gaps.std() - 1) < 0.4


@given(st.floats(1, 1000), st.floats(0.05, 100), st.floats(20, 80))
def test_the_knee_is_just_below_the_rate_at_which_the_bound_is_broken(
    capacity: float, factor: float, bound: float
) -> None:
    """Latency of a queue whose only time is 10 ms / (1 - load): the bound is kept up to a rate that is known."""
    rate_at_bound = capacity * (1 - 10 / bound)

    async def at(rate: float) -> Recorder:
        latency = 0.01 / (1 - rate / capacity) if rate < capacity else 1e9
        return Recorder(ends=[1.0] * 100, latencies=[latency] * 100, codes=["OK"] * 100, seconds=1.0)

    found, record = asyncio.run(find_knee(at, rate_at_bound * factor, bound))
    if factor < 60:  # six halvings reach a rate that is low enough
        assert found.knee <= rate_at_bound * 1.0001 < found.knee * 1.1001
        assert p99_of_all(record) <= bound * 1.001
    clear = [step for step in found.steps if abs(step.rate / rate_at_bound - 1) > 1e-4]
    assert all(step.met == (step.rate < rate_at_bound) for step in clear)


def test_failed_calls_break_any_bound() -> None:
    record = Recorder(ends=[1.0] * 100, latencies=[0.001] * 100, codes=["OK"] * 99 + ["UNAVAILABLE"])
    assert p99_of_all(record) == pytest.approx(1.0)
    record.codes[0] = "UNAVAILABLE"
    assert p99_of_all(record) == float("inf")


class Outside(HTMLParser):
    """Collects what a page would load, and its plots."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [tag for name, _ in attrs if name in ("src", "href")]
        self.loaded += [tag] * (tag in ("script", "link", "iframe"))


def test_a_ramp_is_written_drawn_and_compared(run: Run, tmp_path: Path) -> None:
    files = tmp_path / "a.json", tmp_path / "a.html"
    status, output, errors = run(
        "bench", "tiny", "<b>", "--ramp", "--p99", "40", "--rate", "200", "--seconds", "0.2", "--warmup", "1",
        "--json", files[0], "--html", files[1],
    )  # fmt: skip
    assert status == 0, errors
    report = json.loads(files[0].read_text())
    assert report["ramp"]["steps"] and f"{report['ramp']['knee']:.1f}" in output
    page = files[1].read_text()
    parser = Outside()
    parser.feed(page)
    assert not parser.loaded and "url(" not in page and "@import" not in page
    plots = re.findall(r"<svg.*?</svg>", page)
    titles = [ElementTree.fromstring(each).attrib["aria-label"] for each in plots]
    assert len(titles) == 4 and titles[0].startswith("Latency by rate")
    status, output, _ = run("bench", "compare", files[0], files[0])
    assert status == 0 and "differs" not in output
    assert re.search(r"^knee, calls/s .*\+0\.0 %$", output, re.M) or not report["ramp"]["knee"]


def test_what_is_no_report_is_not_compared(run: Run, tmp_path: Path) -> None:
    for name, text in (("a.json", "{}"), ("b.json", '{"format": 99}')):
        (tmp_path / name).write_text(text)
    status, _, errors = run("bench", "compare", tmp_path / "a.json", tmp_path / "a.json")
    assert status == 1 and "is not a report" in errors
    assert "format 99 is not the 1" in run("bench", "compare", tmp_path / "b.json", tmp_path / "a.json")[2]


@given(st.floats(1e-6, 1e9))
def test_ticks_are_round_and_reach_the_largest_value(largest: float) -> None:
    places = [place for place, _ in round_ticks(largest)]
    assert places[0] == 0 and places[-2] < largest <= places[-1] * (1 + 1e-6) and 3 <= len(places) <= 8


def test_ctrl_c_ends_a_run_with_what_was_measured(server: Forwarder, tmp_path: Path) -> None:
    options = ("bench", "tiny", "--seconds", "60", "--json", str(tmp_path / "a.json"))
    command = [sys.executable, "-c", HEARS_CTRL_C, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while len(server.requests) < 30 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "requests/s" in output
    outcome = json.loads((tmp_path / "a.json").read_text())["outcome"]
    assert outcome["interrupted"] and outcome["requests"] >= 10 and not outcome["errors"]


def test_a_terminal_sees_progress(server: Forwarder) -> None:
    seen = in_terminal("bench", "tiny", "--seconds", "0.8")
    assert re.search(r"tiny: \d+ s, [\d.]+ answers/s, \d+ under way, p50", seen)
