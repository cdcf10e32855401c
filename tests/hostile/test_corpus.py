"""Findings of a fuzzer, sent again: each is refused in words, and the next good call is answered."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from benchmarks.process import healthy
from hostile.fuzz.findings import read, send
from tests.kit import bundles
from tests.kit.serving import Running, predict, serving, text

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OK,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with the small models."""
    repository = tmp_path_factory.mktemp("repository")
    for make in bundles.ALL:
        make(repository)
    with serving(repository) as running:
        yield running


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_what_was_found_is_answered_and_what_follows_too(server: Running, file: Path) -> None:
    method, message = read(file)
    assert send(server.channel, method, message) in _REFUSALS
    assert server.stub.Predict(predict("tiny", text("the cat sat"))).predictions
    assert healthy(server.channel)


def test_there_is_something_to_send() -> None:
    assert CORPUS
