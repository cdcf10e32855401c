"""An explanation counts as its rows do: in limits, quotas and deadlines; and other calls get between its batches."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pytest

from limelight.v1 import service_pb2 as pb
from limelight.v1 import values_pb2
from limelight_service.engine.runtime.sessions import Session
from limelight_service.open_inference import open_inference_pb2
from limelight_service.security.tokens import entry, new_token
from tests.kit import bundles
from tests.kit.processes import scrape
from tests.kit.serving import Running, eventually, free_port, predict, serving, text
from tests.service.every_door import DOORS, ask
from tests.service.open_inference.calls import unary

SHORT = "the cat"
ALONE = {"lanes": 1, "max_batch_rows": 1}  # each row runs by itself, one after the other


def explain(words: int, **fields: Any) -> pb.ExplainRequest:
    """Ask for the erasure of so many words, of which `words` + 1 rows are made."""
    fields = {"ways": [pb.WAY_ATTENTION, pb.WAY_ERASE]} | fields
    return pb.ExplainRequest(model=values_pb2.Model(name="tiny"), instances=[text(" ".join(["cat"] * words))], **fields)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder, max_tokens=512, max_characters=4000)
    return folder


@contextmanager
def served(repository: Path, **settings: Any) -> Iterator[Running]:
    with serving(repository, http_port=free_port(), metrics_port=free_port(), **settings) as running:
        yield running


class Runs:
    """Sees each run of a session, by the tokens of its rows, and holds up one until it is let go."""

    def __init__(self, held: int) -> None:
        self.tokens: list[int] = []
        self.arrived, self.opened = threading.Event(), threading.Event()
        self._held, self._run = held, Session.run

    def __enter__(self) -> "Runs":
        self._patch = patch.object(Session, "run", lambda *args, **options: self._wait(*args, **options))
        self._patch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.set()
        self._patch.__exit__(None, None, None)

    def _wait(self, session: Session, names: Any, feeds: Any, **options: Any) -> Any:
        self.tokens.append(feeds["ids"].shape[1])
        if len(self.tokens) == self._held:
            self.arrived.set()
            assert self.opened.wait(30)
        return self._run(session, names, feeds, **options)


def test_more_units_than_fit_are_refused_with_the_number_that_does(repository: Path) -> None:
    with served(repository, max_instances=8) as running:
        for door in DOORS:
            told = ask(running, door, explain(9))
            assert (told.code, told.reason, told.field) == ("RESOURCE_EXHAUSTED", "TOO_LARGE", "units")
            assert "one call may have 8 rows" in told.message and "7 units fit" in told.message
            assert "UNIT_KIND_SENTENCES" in told.message
            assert ask(running, door, explain(7)).explanations[0].rows == 8
            assert ask(running, door, explain(9, units={"kind": pb.UNIT_KIND_SENTENCES})).explanations[0].rows == 2
            assert "256 units fit" in ask(running, door, explain(257)).message
        several = explain(3)
        several.instances.extend([text(SHORT), text(SHORT)])
        assert "1 unit of each instance fit" in ask(running, "grpc", several).message


def test_quotas_count_every_row(repository: Path, tmp_path: Path) -> None:
    # A token for each door, as rows are in flight until the caller has its answer.
    narrow, slow = {door: new_token() for door in DOORS}, new_token()
    lines = [entry(f"narrow-{door}", token, {"rows_in_flight": 5}) for door, token in narrow.items()]
    lines.append(entry("slow", slow, {"rows_per_second": 0.5}))
    (tmp_path / "tokens.toml").write_text("\n".join(lines))
    with served(repository, tokens=str(tmp_path / "tokens.toml")) as running:

        def tried(door: str, request: Any, token: str) -> Any:
            return ask(running, door, request, [("authorization", f"Bearer {token}")])

        for door in DOORS:
            told = tried(door, explain(9), narrow[door])
            assert (told.reason, told.field) == ("TOO_LARGE", "units")
            assert "may have 5 rows in flight" in told.message and "4 units fit" in told.message
            assert tried(door, explain(4), narrow[door]).explanations[0].rows == 5
        assert tried("grpc", explain(4), slow).explanations
        rows = scrape(running.server.metrics_port)
        for door in DOORS:  # of those refused, the instances
            assert rows[f'limelight_token_rows_total{{token="narrow-{door}"}}'] == 6
        told = tried("http", predict("tiny", text(SHORT)), slow)
        assert told.reason == "QUOTA" and 7 < told.retry < 9.1  # of 5 rows and a bucket of 1, at 0.5 a second


def test_another_call_waits_for_one_batch_and_not_for_all_rows(repository: Path) -> None:
    with served(repository, **ALONE) as running, Runs(3) as runs:
        long = running.stub.Explain.future(explain(12), timeout=60)
        assert runs.arrived.wait(30)
        short = running.stub.Predict.future(predict("tiny", text(SHORT)), timeout=60)
        assert not eventually(short.done, 0.3)
        runs.opened.set()
        assert short.result().predictions and long.result().explanations[0].rows == 13
        # The run that was held up, at most one more that was handed over, and then the other call.
        assert runs.tokens.index(2) <= 4 and len(runs.tokens) == 14


@pytest.mark.parametrize("door", DOORS)
def test_a_late_explanation_stops_between_two_batches(repository: Path, door: str) -> None:
    with served(repository, **ALONE) as running, Runs(3) as runs:
        threading.Timer(1.0, runs.opened.set).start()
        if door == "grpc":  # whose client counts the time itself
            with pytest.raises(grpc.RpcError) as caught:
                running.stub.Explain(explain(12), timeout=0.6)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
        else:
            assert ask(running, door, explain(12), seconds=0.6).code == "DEADLINE_EXCEEDED"
        assert runs.opened.wait(30)
        assert ask(running, door, predict("tiny", text(SHORT))).predictions
        assert len(runs.tokens) <= 5


def test_a_cancelled_explanation_stops_between_two_batches(repository: Path) -> None:
    with served(repository, **ALONE) as running, Runs(3) as runs:
        call = running.stub.Explain.future(explain(12), timeout=60)
        assert runs.arrived.wait(30)
        call.cancel()
        with pytest.raises(grpc.FutureCancelledError):
            call.result()
        assert not eventually(lambda: len(runs.tokens) > 3, 0.3)
        runs.opened.set()
        assert running.stub.Predict(predict("tiny", text(SHORT))).predictions
        assert len(runs.tokens) <= 5


def statistics(running: Running) -> Any:
    request = open_inference_pb2.ModelStatisticsRequest(name="tiny")
    return unary(running.channel, "ModelStatistics", request, open_inference_pb2.ModelStatisticsResponse).model_stats


def test_every_row_is_counted_in_the_models_statistics(repository: Path) -> None:
    with served(repository) as running:
        assert ask(running, "grpc", explain(4)).explanations
        (found,) = statistics(running)
        assert (found.inference_count, found.inference_stats.success.count) == (5, 1)
        assert "units" in ask(running, "http", explain(300)).message
        (found,) = statistics(running)
        assert found.inference_stats.fail.count == 1
