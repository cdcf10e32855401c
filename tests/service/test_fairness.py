"""Overload, fairness and limits are the same by every door: what is too much is told alike, and when to come back."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pytest

from limelight.v1 import service_pb2_grpc
from limelight_service.engine.runtime.sessions import Session
from limelight_service.security.tokens import entry, new_token
from tests.kit import bundles
from tests.kit.processes import scrape
from tests.kit.serving import Refusal, Running, attend, eventually, free_port, predict, serving, text
from tests.service.every_door import DOORS, ask

ONE, LONG = predict("tiny", text("the cat")), text(" ".join(["cat"] * 30))
by_every_door = pytest.mark.parametrize("door", DOORS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of two models."""
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder)
    return folder


@contextmanager
def served(repository: Path, **settings: Any) -> Iterator[Running]:
    with serving(repository, http_port=free_port(), metrics_port=free_port(), **settings) as running:
        yield running


@contextmanager
def held(running: Running) -> Iterator[None]:
    """Keep the one worker of a server busy for the length of a block."""
    arrived, opened, run = threading.Event(), threading.Event(), Session.run

    def wait(self: Session, *arguments: Any, **options: Any) -> Any:
        arrived.set()
        assert opened.wait(60)
        return run(self, *arguments, **options)

    with patch.object(Session, "run", wait):
        busy = running.stub.Predict.future(ONE, timeout=60)
        assert arrived.wait(30)
        try:
            yield
        finally:
            opened.set()
        assert busy.result().predictions


def metric(running: Running, name: str) -> float:
    return scrape(running.server.metrics_port).get(name, 0)


def check_busy(told: Any, reason: str = "QUEUE_FULL") -> None:
    """A refusal of what is too much now says when to come back."""
    assert isinstance(told, Refusal) and (told.code, told.reason) == ("RESOURCE_EXHAUSTED", reason), told
    assert told.retry is not None and told.retry > 0


def test_a_full_queue_says_so_at_once_and_its_calls_wait_whichever_door_they_came_by(small: Path) -> None:
    depth, refused = 'limelight_queue_depth{model="tiny"}', 'limelight_rejected_total{reason="queue_full"}'
    limits = {"queue_rows": 2, "max_instances": 2, "lanes": 1, "max_batch_rows": 1}
    with served(small, **limits) as running, ThreadPoolExecutor(2) as threads:
        with held(running):
            waiting = [threads.submit(ask, running, door, ONE) for door in DOORS]
            assert eventually(lambda: metric(running, depth) == 2)
            for count, door in enumerate(DOORS, 1):  # while nothing can be answered
                check_busy(ask(running, door, ONE))
                assert metric(running, refused) == count
        assert all(each.result().predictions for each in waiting)
        for door in DOORS:
            assert ask(running, door, ONE).predictions


@by_every_door
def test_a_call_whose_deadline_passes_in_the_queue_is_never_computed(small: Path, door: str) -> None:
    computed = 'limelight_stage_duration_seconds_count{model="tiny",stage="compute"}'
    with served(small, lanes=1, max_batch_rows=1) as running:
        with held(running):
            assert ask_late(running, door).code == "DEADLINE_EXCEEDED"
            assert eventually(lambda: metric(running, 'limelight_queue_depth{model="tiny"}') == 0)
        assert ask(running, door, ONE).predictions
        assert metric(running, computed) == 2  # what held the worker, and the good one


def ask_late(running: Running, door: str) -> Any:
    """Ask with half a second; a client of gRPC ends such a call by itself, without details."""
    if door == "http":
        return ask(running, door, ONE, seconds=0.5)
    call = running.stub.Predict.future(ONE, timeout=0.5)
    return Refusal(call.code().name, call.details(), "", "", "", None)


def test_what_one_answer_and_all_together_may_hold_is_bounded(small: Path) -> None:
    with served(small, max_held_bytes=10_000) as running:
        for door in DOORS:
            told = ask(running, door, attend("tiny", text("cat"), LONG, top_k=1))
            assert (told.code, told.reason, told.retry) == ("RESOURCE_EXHAUSTED", "TOO_LARGE", None)
            assert "while it is computed; at most 10000 are allowed" in told.message
            assert ask(running, door, attend("tiny", text("cat"), top_k=1)).results
    with served(small, max_response_bytes=4096) as running:
        for door in DOORS:
            told = ask(running, door, attend("tiny", LONG, max_response_bytes=10**9))
            assert "at most 4096 are allowed" in told.message


def test_tokens_and_quotas_open_the_same_by_every_door(small: Path, tmp_path: Path) -> None:
    whole, narrow, slow = new_token(), new_token(), new_token()
    rights = {"methods": ["Predict"], "models": ["tiny"], "rows_in_flight": 2}
    lines = [entry("whole", whole, {}), entry("narrow", narrow, rights), entry("slow", slow, {"rows_per_second": 0.5})]
    (tmp_path / "tokens.toml").write_text("\n".join(lines))

    def tried(door: str, request: Any, *authorization: str) -> Any:
        return ask(running, door, request, [("authorization", each) for each in authorization])

    with served(small, tokens=str(tmp_path / "tokens.toml")) as running:
        several = predict("tiny", *[text("a")] * 3)
        for door in DOORS:
            for wrong in ((), ("Bearer limelight_wrong",), ("Basic bGltZTpsaWdodA==",)):
                assert tried(door, ONE, *wrong).code == "UNAUTHENTICATED"
            for token in (whole, narrow):
                assert tried(door, ONE, f"bearer {token}").predictions
            bearer = f"Bearer {narrow}"
            assert tried(door, attend("tiny", text("a")), bearer).code == "PERMISSION_DENIED"
            told = tried(door, predict("echo", text("a")), bearer)
            assert told.code == "NOT_FOUND" and told.message.endswith("there are: tiny")
            told = tried(door, several, bearer)
            assert (told.code, told.reason, told.field) == ("RESOURCE_EXHAUSTED", "TOO_LARGE", "instances")
        assert tried("grpc", several, f"Bearer {slow}").predictions  # what one door takes, no other has
        for door in DOORS:
            told = tried(door, ONE, f"Bearer {slow}")
            check_busy(told, "QUOTA")
            assert told.retry <= 6
        assert metric(running, 'limelight_rejected_total{reason="quota"}') == 2


@by_every_door
def test_a_stop_finishes_what_was_admitted(small: Path, door: str) -> None:
    opened, run = threading.Event(), Session.run

    def wait(self: Session, *arguments: Any, **options: Any) -> Any:
        assert opened.wait(60)
        return run(self, *arguments, **options)

    with ThreadPoolExecutor(1) as threads, ExitStack() as stack:
        with served(small, grace_seconds=60.0) as running:
            stack.enter_context(patch.object(Session, "run", wait))
            channel = stack.enter_context(grpc.insecure_channel(running.server.address))  # the server's own ends before
            caller = replace(running, channel=channel, stub=service_pb2_grpc.AttentionServiceStub(channel))
            admitted = threads.submit(ask, caller, door, ONE)
            assert eventually(lambda: metric(running, 'limelight_inflight_requests{model="tiny"}') == 1)
            threading.Timer(1.0, opened.set).start()
        assert admitted.result().predictions
