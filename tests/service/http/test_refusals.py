"""Whatever is wrong with an HTTP request gets one precise error, and the next request is answered."""

import json
import socket
from typing import Any

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limelight_service.codecs.json.reading import MOST_VALUES
from tests.kit.serving import Running, text
from tests.kit.serving import predict as predict_request
from tests.service.http.calls import call, connected, texts, told

PREDICT = "/v1/models/tiny:predict"
GOOD = texts("the cat")


def check_answers(running: Running) -> None:
    assert call(running, PREDICT, GOOD).status == 200


def tensor(**fields: Any) -> dict[str, Any]:
    return {"instances": [{"inputs": {"ids": {"tensor": fields}}}]}


INFER = "v2/models/tiny/infer"
NAMES = st.sampled_from(
    "instances instance inputs text ids tensor data dataType shape attention selections names heads queries topK "
    "generation strategy stop seed outputs name datatype parameters id limelight_heads pool size".split()
)
IDS = 'instances[0].inputs["ids"].tensor'
NESTED: Any = json.loads("[" * 900 + "]" * 900)
INT64, FLOAT32 = "DATA_TYPE_INT64", "DATA_TYPE_FLOAT32"


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (b"", "", "the request is not JSON: Input is a zero-length, empty document"),
        (b'{"instances": [', "", "the request is not JSON: unexpected end of data: line 1 column 16"),
        (b'{"truncate": NaN}', "", "the request is not JSON: "),
        (b'{"outputs": ["\xff"]}', "", "the request is not JSON: "),
        (b'{"outputs": ["\\ud800"]}', "", "the request is not JSON: "),
        (b'{"max_classes": 1e999}', "", "the request is not JSON: number is infinity"),
        (b"[" * 5000 + b"]" * 5000, "", "the request is not JSON: depth limit exceeded"),
        (b'{"instances":' * 500 + b"1" + b"}" * 500, "instances", "is an object; it takes a list"),
        (b"[]", "", "is a list; it takes an object of model, instances"),
        (b"null", "", "is null; it takes an object of model, instances"),
        ({"instance": []}, "instance", "is no field here; there are model, instances, truncate, outputs"),
        ({"model": {"name": "tiny"}, **GOOD}, "model", "is stated by the path; leave it out of the request"),
        ({"instances": {}}, "instances", "is an object; it takes a list"),
        ({"instances": [None]}, "instances[0]", "is null; it takes an object of inputs, seed, interventions"),
        ({"instances": [{"inputs": []}]}, "instances[0].inputs", "is a list; it takes an object"),
        ({"instances": [5]}, 'instances[0].inputs["text"].text', "is 5; it takes a text"),
        (
            {"instances": [{"inputs": {"text": {"txt": "the cat"}}}]},
            'instances[0].inputs["text"].txt',
            "is no field here; there are text, document, pair",
        ),
        (
            {"instances": [{"txet": "a"}]},
            'instances[0].inputs["txet"]',
            "is not an input of the model; the model takes 'text'",
        ),
        (texts("a") | {"truncate": "yes"}, "truncate", 'is "yes"; it takes true or false'),
        (texts(5), 'instances[0].inputs["text"].text', "is 5; it takes a text"),  # type: ignore[arg-type]
        (
            {"instances": [{"inputs": {"text": {"text": "a", "image": "YQ=="}}}]},
            'instances[0].inputs["text"]',
            "has text and image; set one",
        ),
        (GOOD | {"maxClasses": 1, "max_classes": 1}, "", "has max_classes twice; set one"),
        (GOOD | {"max_classes": 1.5}, "max_classes", "is 1.5; it takes a whole number"),
        (GOOD | {"max_classes": 2**40}, "max_classes", "is 1099511627776; it takes -2147483648 to 2147483647"),
        (GOOD | {"max_classes": 10**400}, "", "number is infinity"),
        (GOOD | {"max_classes": True}, "max_classes", "is true; it takes a whole number"),
        ({"instances": [{"seed": -1}]}, "instances[0].seed", "is -1; it takes 0 to 18446744073709551615"),
        (GOOD | {"generation": {"strategy": "FAST"}}, "generation.strategy", 'is "FAST"; it takes one of STRATEGY_'),
        (GOOD | {"generation": {"strategy": 99}}, "generation.strategy", "is 99; it takes one of STRATEGY_"),
        (GOOD | {"generation": {"temperature": 1e300}}, "generation.temperature", "which is beyond single precision"),
        (GOOD | {"generation": {"temperature": "hot"}}, "generation.temperature", 'is "hot"; it takes a number'),
        ({"instances": [{"inputs": {"text": {"image": "?!"}}}]}, 'instances[0].inputs["text"].image', "is not base64"),
        (tensor(data=[1]), f"{IDS}.data_type", "is null; it takes one of DATA_TYPE_"),
        (tensor(dataType=INT64, data=[1, "a"]), f"{IDS}.data", 'has "a" as element 1; it takes whole numbers'),
        (tensor(dataType=INT64, data=[1, 2.5]), f"{IDS}.data", "has 2.5 as element 1; it takes whole numbers"),
        (tensor(dataType=INT64, data=[2**70]), f"{IDS}.data", "as element 0; it takes -9223372036854775808 to"),
        (tensor(dataType="DATA_TYPE_UINT8", data=[256]), f"{IDS}.data", "has 256 as element 0; it takes 0 to 255"),
        (tensor(dataType="DATA_TYPE_BOOL", data=[1]), f"{IDS}.data", "has 1 as element 0; it takes true and false"),
        (tensor(dataType=FLOAT32, data=[1e39]), f"{IDS}.data", "has 1e+39 as element 0, which is beyond float32"),
        (tensor(dataType=FLOAT32, data=["inf"]), f"{IDS}.data", 'has "inf" as element 0; it takes numbers, "NaN"'),
        (tensor(dataType=INT64, data=[[1, 2], [3]]), f"{IDS}.data[1]", "has 1 element; the first of its axis has 2"),
        (tensor(dataType=INT64, data=[[[1], 2]]), f"{IDS}.data[0][1]", "is 2; the first of its axis has 1"),
        (tensor(dataType=INT64, data=[[1]], shape=[2]), f"{IDS}.shape", "is [2]; data has [1, 1]"),
        (tensor(dataType=INT64, data=[[1]], shape=["1", "2"]), f"{IDS}.shape", "is [1, 2]; data has [1, 1]"),
        (tensor(dataType=INT64, data=[[1]], shape=NESTED), f"{IDS}.shape[0]", "is a list; it takes a whole number"),
        (tensor(dataType=INT64, data=NESTED), f"{IDS}.data", "has more than 9 axes"),
        (tensor(dataType=INT64, data=[1, 2], shape=[3]), f"{IDS}.data", "has 16 bytes; INT64 of shape [3] needs 24"),
        (
            {"instances": [{"inputs": {"nothing": {"text": "a"}}}]},
            'instances[0].inputs["nothing"]',
            "is not an input of the model; the model takes 'text' (text)",
        ),
    ],
)
def test_a_request_that_cannot_be_read_is_told_where_and_why(
    running: Running, body: Any, field: str, message: str
) -> None:
    answer = call(running, PREDICT, json.dumps(body).encode() if not isinstance(body, bytes) else body)
    assert (answer.status, answer.error["code"], answer.error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert answer.field == field and message in answer.error["message"]
    check_answers(running)


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["v1/models/tiny:predict", "v1/models/tiny:attend", "v1/models/echo:generate", INFER]),
    body=st.dictionaries(NAMES, _ANY, max_size=4),
)
def test_any_json_gets_an_answer_or_a_reason(running: Running, method: str, body: Any) -> None:
    answer = call(running, f"/{method}", body)
    assert answer.status in (200, 400, 404, 413), answer.body
    assert answer.status == 200 or answer.json["error"]


def test_a_version_of_the_path_is_a_whole_number(running: Running) -> None:
    assert call(running, "/v1/models/tiny/versions/7:predict", GOOD).status == 404
    for version in ("0", "01", "-1", "x", "99999999999"):
        answer = call(running, f"/v1/models/tiny/versions/{version}:predict", GOOD)
        assert answer.status == 400 and answer.field == "version"


def test_what_is_no_path_method_or_media_type_is_said(running: Running) -> None:
    answer = call(running, "/v2x")
    assert (answer.status, answer.error["status"]) == (404, "NOT_FOUND") and "/openapi.json" in answer.error["message"]
    assert call(running, "/v1/models/").status == call(running, "//v1/models").status == 404
    answer = call(running, PREDICT)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.error["message"] == "the path takes POST"
    assert call(running, "/v1/models", b"{}").status == 405
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"):
        answer = call(running, PREDICT, GOOD, headers={"content-type": media_type})
        assert answer.status == 415 and answer.field == "content-type"
    answer = call(running, PREDICT, GOOD, headers={"content-encoding": "gzip"})
    assert answer.status == 415 and answer.field == "content-encoding"
    answer = call(running, PREDICT, GOOD, headers={"content-encoding": "identity, x-gzip"})
    assert answer.status == 415 and answer.field == "content-encoding"
    for headers in ({"content-type": "Application/JSON; charset=utf-8"}, {"content-encoding": "Identity,"}):
        assert call(running, PREDICT, GOOD, headers=headers).status == 200


def test_what_is_too_large_is_refused_whether_its_size_is_stated_or_not(running: Running) -> None:
    most = running.server.settings.max_request_bytes
    answer = call(running, PREDICT, b" " * (most + 1))
    assert (answer.status, answer.error["status"]) == (413, "RESOURCE_EXHAUSTED")
    assert answer.error["message"] == f"the request has {most + 1} bytes or more; at most {most} are allowed"
    with connected(running) as connection:
        head = f"POST {PREDICT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
        connection.sendall(f"{head}\r\n".encode())
        for _ in range(most // 2**16 + 1):
            connection.sendall(b"10000\r\n" + b" " * 2**16 + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    with connected(running) as connection:  # nothing of a body that waits to be asked for is sent
        connection.sendall(f"{head.replace('transfer-encoding: chunked', f'content-length: {most + 1}')}".encode())
        connection.sendall(b"expect: 100-continue\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    answer = call(running, PREDICT, b"[" + b"1," * MOST_VALUES + b"1]")
    assert answer.status == 413 and f"at most {MOST_VALUES} are allowed in JSON" in answer.error["message"]
    check_answers(running)


def test_a_deadline_ends_a_call(running: Running) -> None:
    answer = call(running, PREDICT, GOOD, headers={"x-request-timeout": "0.000001"})
    assert (answer.status, answer.error["status"]) == (504, "DEADLINE_EXCEEDED")
    for wrong in ("soon", "0", "-1", "nan", "1e9", ""):
        answer = call(running, PREDICT, GOOD, headers={"x-request-timeout": wrong})
        assert answer.status == 400 and answer.field == "x-request-timeout"
    assert call(running, PREDICT, GOOD, headers={"x-request-timeout": "30"}).status == 200


def test_a_stream_that_fails_says_so_in_its_last_event(running: Running) -> None:
    """A fault before the first event has a status of its own; a later one has an event."""
    body = texts("the cat", attention={"selections": [{"names": ["encoder.0.self"], "heads": [9]}]})
    answer = call(running, "/v1/models/tiny:attendStream", body)
    assert answer.status == 400 and answer.headers["content-type"] == "application/json"
    with connected(running) as connection:
        body = texts(*["the cat"] * 60, attention={})
        data = json.dumps(body).encode()
        path = "/v1/models/tiny:attendStream"
        connection.sendall(_head(len(data), path, "x-request-timeout: 0.05\r\nconnection: close\r\n") + data)
        whole = told(connection).decode()
    if "event: start" in whole:  # on a slow machine nothing is there in time
        assert 'event: error\ndata: {"error":{"code":504,"status":"DEADLINE_EXCEEDED"' in whole or (
            whole.count("event: end") == 60
        )
    else:
        assert whole.startswith("HTTP/1.1 504 ")


@pytest.mark.parametrize("sent", ["head", "body", "all"])
def test_a_caller_who_leaves_ends_the_call(running: Running, sent: str) -> None:
    data = json.dumps({"instance": GOOD["instances"][0]}).encode()
    whole = _head(len(data), "/v1/models/echo:generate") + data
    for _ in range(5):
        with connected(running) as connection:
            connection.sendall(whole[: {"head": 20, "body": -5, "all": len(whole)}[sent]])
            if sent == "all":
                connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    check_answers(running)
    running.stub.Predict(predict_request("tiny", text("the cat")))


def test_what_is_no_http_is_refused(running: Running) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\x01", b"GET /", b"GET / HTTP/1.1\r\na", b"GET /\xff HTTP/1.1\r\nhost: x"):
        with connected(running) as connection:
            connection.sendall(sent + b"\r\n\r\n")
            assert told(connection).startswith(b"HTTP/1.1 400 ")
    with connected(running) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 8_000)  # and no end
        assert told(connection).startswith(b"HTTP/1.1 400 ")
    check_answers(running)


DATA = json.dumps(GOOD).encode()
SINGLE = (
    "authorization content-encoding content-type inference-header-content-length origin sec-fetch-site traceparent "
    "x-request-id x-request-timeout"
).split()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(DATA), DATA)


@pytest.mark.parametrize(
    ("line", "more", "status", "message"),
    [
        ("HTTP/1.1", "content-length: 9\r\ntransfer-encoding: chunked", 400, "is set beside content-length"),
        ("HTTP/1.0", "transfer-encoding: chunked", 400, "transfer-encoding is none of HTTP/1.0"),
        ("HTTP/2.0", "transfer-encoding: chunked", 505, "the request is HTTP/2.0; this port speaks HTTP/1.1"),
        ("HTTP/0.9", "transfer-encoding: chunked", 505, "the request is HTTP/0.9; this port speaks HTTP/1.1"),
        ("HTTP/1.1", "a:\r\n" * 260 + "transfer-encoding: chunked", 431, "headers; at most 256 are allowed"),
        *(("HTTP/1.1", f"{each}: 1\r\n{each}: 1\r\ntransfer-encoding: chunked", 400, f"{each} is") for each in SINGLE),
    ],
)
def test_what_a_proxy_may_read_in_another_way_is_refused(
    running: Running, line: str, more: str, status: int, message: str
) -> None:
    """And what comes behind it is no request: nobody knows where it begins."""
    for path in (PREDICT, f"/{INFER}"):
        with connected(running) as connection:
            connection.sendall(f"POST {path} {line}\r\nhost: x\r\n{more}\r\n\r\n".encode() + CHUNKED)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            head, _, body = told(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status) and b"connection: close" in head.lower()
        error = json.loads(body)["error"]
        assert message in (error if path != PREDICT else error["message"])


def test_a_target_may_be_a_whole_url(running: Running) -> None:
    """Its host counts, and not that of the header."""
    for target, host, status in (
        ("http://localhost:1/healthz", "evil.example", b"200"),
        ("HTTP://localhost?a", "x", b"307"),
        ("http://evil.example/healthz", "localhost", b"403"),
        ("http://me@localhost/healthz", "x", b"404"),
    ):
        with connected(running) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            assert told(connection)[9:12] == status


def test_a_body_in_crumbs_is_refused_and_not_parsed_on(running: Running) -> None:
    head = _head(0).replace(b"content-length: 0", b"transfer-encoding: chunked")
    for path, status in ((PREDICT, b"400"), ("/nothing", b"404")):
        with connected(running) as connection:
            connection.sendall(head.replace(PREDICT.encode(), path.encode()) + b"1\r\n \r\n" * 50_000)
            connection.sendall(b"zz is no size of a chunk")
            whole = told(connection)
        assert whole[9:12] == status and b"connection: close" in whole.lower() and whole.count(b"HTTP/1.1 ") == 1
    assert b"next to nothing; send fewer and larger chunks" not in whole
    with connected(running) as connection:
        connection.sendall(head + b"".join(b"1\r\n%c\r\n" % each for each in DATA) + b"0\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("tail", [b"1;" + b"a" * 100_000, b"0\r\n" + b"a: b\r\n" * 20_000])
def test_what_stands_around_chunks_is_bounded(running: Running, tail: bytes) -> None:
    with connected(running) as connection:
        connection.sendall(_head(0).replace(b"content-length: 0", b"transfer-encoding: chunked") + tail)
        assert told(connection).startswith(b"HTTP/1.1 400 ")


def test_others_are_answered_between_the_slices_of_a_body(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of 256 KiB in chunks of a byte is 40,000 of them; what is parsed at a time is counted."""
    if running.server.settings.frontends:
        pytest.skip("the server is in another process")
    parsed: list[int] = []
    receive = h11.Connection.receive_data

    def counted(self: h11.Connection, data: bytes) -> None:
        parsed.append(len(data))
        receive(self, data)

    monkeypatch.setattr(h11.Connection, "receive_data", counted)
    with connected(running) as connection:
        connection.sendall(_head(0).replace(b"content-length: 0", b"transfer-encoding: chunked"))
        connection.sendall(b"1\r\n \r\n" * 8_000)
        connection.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(DATA), DATA))
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    # A read may end anywhere, and leave less than a slice.
    assert max(parsed) <= 1024 and sorted(parsed)[len(parsed) // 2] == 256 and sum(parsed) > 48_000


def test_callers_who_send_no_more_are_answered(running: Running) -> None:
    """As those of `nc -N`, also where several requests are on the way."""
    stream = json.dumps({"instance": GOOD["instances"][0]}).encode()
    for sent, answers in (
        (_head(len(DATA)) + DATA, 1),
        ((_head(len(DATA)) + DATA) * 3, 3),
        (_head(len(stream), "/v1/models/echo:generate") + stream, 1),
    ):
        with connected(running) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            whole = told(connection)
        assert whole.count(b"HTTP/1.1 200 ") == answers and b"HTTP/1.1 100" not in whole
    assert b"event: end" in whole


def test_a_connection_serves_one_request_after_the_other(running: Running) -> None:
    """Also after one that was refused before its body was read."""
    data = json.dumps(GOOD).encode()
    refused = _head(len(data)).replace(b"application/json", b"text/plain") + data
    with connected(running) as connection:
        connection.sendall(refused + _head(len(data)) + data)
        connection.sendall(_head(len(data), PREDICT, "connection: close\r\n") + data)
        whole = told(connection)
    statuses = [part[:3] for part in whole.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"415", b"200", b"200"]


def _head(length: int, path: str = PREDICT, more: str = "") -> bytes:
    lines = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
    return f"{lines}{more}\r\n".encode()
