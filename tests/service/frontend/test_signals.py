"""Attention as a signal: what a server counts of the attention of some calls, and nothing unless told to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limelight
from limelight_bundle.attention_drift import ROWS, Reference
from limelight_bundle.attention_signals import BINS
from limelight_service.frontend.signals import Watched
from tests.kit import bundles
from tests.kit.bundles.parts import add_references
from tests.kit.processes import scrape
from tests.kit.serving import eventually, free_port, serving

MAPS = ("encoder.0.self", "encoder.1.self", "pool")
SENTENCE = {"text": "the cat sat"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    add_references(bundles.tiny(folder))
    bundles.tiny(folder, "bare")  # has no reference
    return folder


@contextmanager
def server(repository: Path, share: float, frontends: int = 0) -> Iterator[tuple[limelight.Client, Any]]:
    settings = {"attention_signals": share, "frontends": frontends, "metrics_port": free_port()}
    with serving(repository, **settings) as running, limelight.Client(running.server.address) as client:
        yield client, running.server


def looked_at(page: dict[str, float], model: str, name: str, signal: str) -> float:
    """Number of values of a signal that were counted."""
    series = f'limelight_attention_signal_count{{map="{name}",model="{model}",signal="{signal}"}}'
    return page.get(series, 0.0)


def call_until_looked_at(client: limelight.Client, port: int, model: str, values: int) -> dict[str, float]:
    page: dict[str, float] = {}

    def enough() -> bool:
        client.predict(model, SENTENCE)
        page.update(scrape(port))
        return looked_at(page, model, "pool", "largest") >= values

    assert eventually(enough)
    return page


@pytest.mark.parametrize("frontends", [0, 1])
def test_signals_of_sampled_calls_are_counted_for_each_head_and_query(repository: Path, frontends: int) -> None:
    with server(repository, 1.0, frontends) as (client, running):
        whole = client.attend("tiny", SENTENCE)
        each_row = {name: whole[name].weights.shape[0] * whole[name].weights.shape[1] for name in MAPS}
        page = call_until_looked_at(client, running.metrics_port, "tiny", 1)

        def complete() -> bool:
            """A row's maps are counted one after another; a page may come in between."""
            page.update(scrape(running.metrics_port))
            return len({looked_at(page, "tiny", name, "largest") / each_row[name] for name in MAPS}) == 1

        assert eventually(complete)
        rows = looked_at(page, "tiny", "pool", "largest")
        for name in MAPS:
            weights = whole[name].weights
            assert looked_at(page, "tiny", name, "largest") == rows * each_row[name]
            mean = page[f'limelight_attention_signal_sum{{map="{name}",model="tiny",signal="largest"}}']
            assert mean == pytest.approx(rows * weights.max(axis=2).sum(), rel=1e-4)
        assert looked_at(page, "tiny", "pool", "distance") == 0  # its query is no token


def test_a_drift_is_told_after_some_rows_where_the_bundle_has_a_reference(repository: Path) -> None:
    with server(repository, 1.0) as (client, running):
        page = call_until_looked_at(client, running.metrics_port, "tiny", 40)
        call_until_looked_at(client, running.metrics_port, "bare", 40)
    drifts = {name: value for name, value in page.items() if name.startswith("limelight_attention_drift{")}
    assert set(drifts) == {f'limelight_attention_drift{{map="{name}",model="tiny"}}' for name in MAPS}
    assert all(value > 0 for value in drifts.values())


def test_nothing_is_computed_unless_a_share_says_so(repository: Path) -> None:
    with server(repository, 0.0) as (client, running):
        for _ in range(5):
            client.predict("tiny", SENTENCE)
        page = scrape(running.metrics_port)
    assert page['limelight_stage_duration_seconds_count{model="tiny",stage="compute"}'] == 5
    assert not any(name.startswith("limelight_attention_signal") for name in page)


def test_a_version_that_is_looked_at_can_be_unloaded(repository: Path) -> None:
    settings = {"attention_signals": 1.0, "model_control": "explicit", "metrics_port": free_port()}
    with serving(repository, **settings) as running, limelight.Client(running.server.address) as client:
        port = running.server.metrics_port
        call_until_looked_at(client, port, "tiny", 1)
        client.unload_model("tiny")
        assert eventually(lambda: not any('model="tiny"' in name and "attention" in name for name in scrape(port)))
        client.load_model("tiny")
        call_until_looked_at(client, port, "tiny", 1)


def test_inputs_that_look_different_drift_and_old_ones_are_forgotten() -> None:
    reference = np.array([0, 0, 0, 0, 0, 0, 0, 0, 50, 50])
    watched = Watched({}, {("map", "entropy"): Reference(reference, np.full(len(ROWS), 0.1))})
    for _ in range(29):
        watched.add("map", {"entropy": np.linspace(0.85, 0.95, 10)})
    assert watched.drift("map") is None  # too few
    watched.add("map", {"entropy": np.linspace(0.85, 0.95, 10)})
    same = watched.drift("map")
    for _ in range(1000):
        watched.add("map", {"entropy": np.full(10, 0.15)})
    other = watched.drift("map")
    assert same is not None and other is not None and same < 1 < 10 < other
    for _ in range(2000):
        watched.add("map", {"entropy": np.linspace(0.85, 0.95, 10)})
    assert (watched.drift("map") or 2) < 1
    assert watched.drift("another") is None
    assert len(reference) == BINS
