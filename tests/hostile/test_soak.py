"""The soak: its server swaps models without a failed call, its arithmetic, and its page."""

import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from hostile import page
from hostile.soak.attacks import ATTACKS
from hostile.soak.record import Round, Soak, bad
from hostile.soak.rounds import soaked_server
from limelight.v1 import service_pb2
from tests.kit import bundles
from tests.kit.serving import Running, predict, serving, text

ROUND = Round(
    life=1,
    seconds=30.0,
    calls=3000,
    failures=0,
    good={"the same": 200, "not asked again": 1000, "busy": 3},
    attacks={"half_open": 2},
    swaps=7,
    memory=100.0,
    descriptors=20,
    threads=17,
    left=0,
    health_p50=1.0,
    health_p99=9.0,
    health_worst=40.0,
    others=0.1,
)


@pytest.mark.parametrize("frontends", ["0", "2"])
def test_models_are_swapped_on_a_signal_and_no_call_fails(
    tmp_path: Path, frontends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMELIGHT_FRONTENDS", frontends)
    for version in (1, 2):
        bundles.tiny(tmp_path / "repository", version=version)
    with (
        soaked_server(tmp_path / "repository", tmp_path / "log") as (server, _),
        grpc.insecure_channel(server.target) as channel,
    ):
        call = channel.unary_unary("/limelight.v1.AttentionService/Predict")
        request = predict("tiny", text("the cat sat")).SerializeToString()
        answered: list[int] = []
        end = time.monotonic() + 600
        while len(set(answered)) < 2 or (answered[-1] == 2 and answered[-50:].count(2) < 50):
            answer = service_pb2.PredictResponse.FromString(call(request, timeout=30))
            answered.append(answer.predictions[0].provenance.model.version)
            if len(answered) == 20:
                server.signal(signal.SIGUSR1)
            assert time.monotonic() < end, "nothing was swapped"
    assert set(answered) == {1, 2}
    assert server.status == 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    repository = tmp_path_factory.mktemp("repository")
    bundles.tiny(repository)
    bundles.paper(repository)
    with serving(repository) as server:
        yield server


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_is_made_and_a_good_call_beside_it_is_answered(running: Running, attack) -> None:  # type: ignore[no-untyped-def]
    attack(running.server.address, 0.2, random.Random(1))
    assert running.stub.Predict(predict("tiny", text("the cat sat"))).predictions


def test_growth_is_of_the_longest_life_once_it_is_warm() -> None:
    lives = [replace(ROUND, memory=each) for each in (50, 90, 99, 100, 100, 101, 102, 104, 105, 105, 105)]
    found = Soak("here", "c0ffee", [*lives, replace(ROUND, life=2, memory=500)])
    growth = page.growth(found)
    assert growth is not None
    assert growth.since == 3 * ROUND.calls
    assert growth.share == pytest.approx(105 / 99.5 - 1)
    assert page.growth(Soak("here", "c0ffee", lives[:5])) is None


def test_what_was_not_answered_as_it_should_is_counted() -> None:
    assert bad(ROUND) == 0
    assert bad(replace(ROUND, good={"the same": 1, "mixed": 2, "INTERNAL": 1})) == 3


def test_a_soak_is_read_back_and_written_as_a_page(tmp_path: Path) -> None:
    found = Soak("here", "c0ffee", [replace(ROUND, memory=100.0 + each) for each in range(12)], [0])
    found.save(tmp_path / "soak.json.xz")
    assert Soak.load(tmp_path / "soak.json.xz") == found
    said = page.page(tmp_path)
    assert "6 minutes on here, at commit c0ffee." in said
    assert "| good calls failed or mixed | 0 | 0 | met |" in said
    assert said.count("| 1 | 100 |") == 12
