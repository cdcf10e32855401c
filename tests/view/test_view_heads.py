"""Heads that the page's server keeps: what it streams is what the server answers, and windows of it are means."""

import json
import resource
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from limelight.view.heads import Head
from limelight.view.refusals import RefusedError
from limelight.view.server import PageServer
from tests.view.conftest import page_of
from tests.view.hostile import hostile, saying
from tests.view.test_view_server import JSON, ask, told

TEXT = {"instances": [{"inputs": {"text": {"text": "the cat sat on a mat the dog ran far"}}}]}
ONE_HEAD = {"selections": [{"names": ["encoder.1.self"], "heads": [1]}], "encoding": "ENCODING_UINT8"}


def kept(page: PageServer, attention: Any = ONE_HEAD, model: str = "/v1/models/tiny") -> tuple[int, bytes]:
    wanted = {"model": model, "request": {**TEXT, "attention": attention}}
    status, _, data = ask(page, "POST", "/heads", wanted, **JSON)
    return status, data


def window(page: PageServer, name: str, where: str) -> npt.NDArray[np.float32]:
    status, _, data = ask(page, "GET", f"/heads/{name}?{where}")
    assert status == 200, data
    return np.frombuffer(data, "<f4")


def test_a_kept_head_is_the_one_that_attend_answers(page: PageServer) -> None:
    status, data = kept(page)
    head = json.loads(data)
    assert status == 200
    whole = {**TEXT, "attention": {"selections": ONE_HEAD["selections"]}}
    _, _, answer = ask(page, "POST", "/v1/models/tiny:attend", whole, **JSON)
    weights = np.array(json.loads(answer)["results"][0]["maps"][0]["weights"]["data"])[0]
    rows, columns = weights.shape
    assert head["shape"] == [rows, columns] and head["largest"] == pytest.approx(weights.max(), rel=1e-6)
    every = window(page, head["name"], f"rows=0-{rows}&columns=0-{columns}&most={rows}x{columns}")
    np.testing.assert_allclose(every.reshape(weights.shape), weights, atol=head["largest"] / 500)
    mean = window(page, head["name"], f"rows=0-{rows}&columns=0-{columns}&most=1x{columns}")
    np.testing.assert_allclose(mean, weights.mean(axis=0), atol=head["largest"] / 500)
    assert json.loads(kept(page)[1])["name"] == head["name"]


def test_a_window_is_the_mean_of_its_rectangles() -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, 256, (23, 31), dtype=np.uint8)
    head = Head(values, random.random(23, dtype=np.float32))
    weights = values * head.scales[:, np.newaxis]
    found = head.window((3, 20), (1, 30), (5, 7))
    down, across = (first + np.arange(n + 1) * size // n for first, size, n in ((3, 17, 5), (1, 29, 7)))
    expected = [[weights[a:b, c:d].mean() for c, d in pairwise(across)] for a, b in pairwise(down)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(head.window((4, 5), (0, 31), (9, 99)), weights[4:5], rtol=1e-6)
    for wrong in (((0, 24), (0, 31)), ((5, 5), (0, 31)), ((0, 23), (30, 32))):
        with pytest.raises(RefusedError, match="no range"):
            head.window(*wrong, (5, 5))


def test_what_cannot_be_kept_is_told(page: PageServer) -> None:
    two = {"selections": [{"names": ["encoder.1.self"]}], "encoding": "ENCODING_UINT8"}
    for attention, model, status, why in (
        (two, "/v1/models/tiny", 400, "one head"),
        (ONE_HEAD, "/v1/models/nothing", 404, "nothing"),
        (ONE_HEAD, "/v1/models/../x", 400, "path of its model"),
        ({**ONE_HEAD, "pool": {"size": 2}}, "/v1/models/tiny", 400, "pool"),
    ):
        found, data = kept(page, attention, model)
        assert found == status and why in told(data)
    status, _, data = ask(page, "GET", f"/heads/{'0' * 64}?rows=0-1&columns=0-1&most=1x1")
    assert status == 404 and "choose it again" in told(data)


def test_kept_heads_are_for_the_page_alone(http: str) -> None:
    with page_of(http, host="0.0.0.0") as page:
        assert kept(page)[0] == 403
        assert ask(page, "GET", f"/heads/{'0' * 64}?rows=0-1&columns=0-1&most=1x1")[0] == 403


def test_a_stream_that_breaks_off_is_told() -> None:
    with hostile() as (address, _), page_of(address) as page:
        status, data = kept(page, model="/v1/models/bad")
        assert status >= 400 and told(data)


def event(name: str, **fields: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({name: fields}, separators=(',', ':'))}\n\n".encode()


def chunk(first: int, queries: int = 1, **fields: Any) -> bytes:
    weights = {"dataType": "DATA_TYPE_UINT8", "shape": [1, queries, 2], "data": [[[1, 2]] * queries]}
    scales = {"data": [[0.5] * queries]}
    return event("chunk", **{"firstQuery": first, "queries": queries, "weights": weights, "scales": scales, **fields})


START, END = event("start", maps=[{"shape": [1, 2, 2]}]), event("end")
STREAMS = {
    "a row is missing": [START, chunk(0), END],
    "a row twice": [START, chunk(0), chunk(0), END],
    "a row too many": [START, chunk(0, 3), END],
    "one row for two": [START, chunk(0, scales={"data": [[0.5] * 2]}), END],
    "no scales": [START, chunk(0, scales=None), END],
    "scales that are no numbers": [START, chunk(0, scales={"data": ["NaN"]}), END],
    "no chunk": [START, event("chunk"), END],
    "no shape": [event("start", maps=[{"shape": None}])],
    "a negative shape": [event("start", maps=[{"shape": [1, -2, -2]}])],
    "a shape that is no number": [event("start", maps=[{"shape": [1, "a", 2]}])],
    "no map": [event("start", maps=[])],
    "a list": [b"event: start\ndata: [1]\n\n"],
    "deep": [b"event: start\ndata: " + b"[" * 9999 + b"\n\n"],
    "an error of its own": [b'event: error\ndata: {"error": 1}\n\n'],
    "a line without an end": [b"data: ", *[bytes(2**20)] * 80],
}


def test_a_head_that_is_not_whole_or_has_no_room_is_refused() -> None:
    lies = list(STREAMS.values())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def answer(path: str) -> list[bytes]:
        name = path.removeprefix("/v1/models/").partition(":")[0]
        return [START, chunk(0), chunk(1), END] if name == "whole" else lies[int(name)]

    with saying(answer) as address, page_of(address) as page:
        for number, lie in enumerate(STREAMS):
            status, data = kept(page, model=f"/v1/models/{number}")
            assert status in (400, 502) and told(data), lie
        assert kept(page, model="/v1/models/whole")[0] == 200
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        try:
            status, data = kept(page, {}, model="/v1/models/whole")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert status == 507 and "large" in told(data)
