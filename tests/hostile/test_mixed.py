"""Rows of many callers beside the same rows alone: what is mixed up is found, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

import limelight
from benchmarks.encoder import export_encoder
from benchmarks.encoder_sizes import MODELS, TINY
from benchmarks.process import ServerProcess
from hostile.mixed import ASKED, Counts, ask, call, measure


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    export_encoder(folder, TINY, MODELS[TINY])
    return folder


def test_no_row_gets_the_answer_of_another(repository: Path) -> None:
    found = measure(repository, most=600, callers=3, different=60)
    assert found.rows >= 600 and found.mixed == 0
    assert found.told_apart > 0.99 and found.difference < 1e-5


def test_an_answer_of_another_row_is_found(repository: Path) -> None:
    rows = [np.array(ids) for ids in ([5, 6], [7, 8], [9, 10])]
    counts = Counts()
    with ServerProcess(repository) as server:
        with limelight.Client(server.target) as client:
            alone = {kind: ask(client, kind, rows) for kind in ASKED}
        turned = {kind: [*answers[1:], answers[0]] for kind, answers in alone.items()}
        call(server.target, rows, turned, counts, most=10)
    assert counts.mixed == counts.rows >= 10
