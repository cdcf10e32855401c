"""OpenAI's API: embeddings and models, by its own client, by langchain-openai, and field by field."""

import base64
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2
from limelight_bundle.wire import to_array
from tests.kit.processes import scrape
from tests.kit.serving import Running, attend, text
from tests.service.doors.calls import base, found_by
from tests.service.doors.calls import vectors as predicted
from tests.service.http.calls import call, connected, told

PATH = "/v1/embeddings"
WORDS = ("the", "cat", "sat", "on", "a", "mat", "🐈", "Ünïcode", "x" * 40)
TEXTS = ["the cat sat", "a dog 🐈 ran", "the mat"]
MAPS = {"selections": [{"names": ["*.self"], "layers": [0], "heads": [1]}]}


def embed(running: Running, given: Any, **fields: Any) -> Any:
    answer = call(running, PATH, {"model": "embedder", "input": given, **fields})
    assert answer.status == 200, answer.body
    return answer.json


def vectors(answer: Any) -> list[np.ndarray]:
    found = [each["embedding"] for each in answer["data"]]
    return [
        np.frombuffer(base64.b64decode(each), "<f4") if isinstance(each, str) else np.float32(each) for each in found
    ]


def refused(running: Running, body: Any, **options: Any) -> tuple[int, Any]:
    answer = call(running, PATH, body, **options)
    return answer.status, answer.json["error"]


def test_its_own_client_gets_everything(
    guarded: Running, doors: Running, keys: dict[str, str], client_python: Callable[[str], Path]
) -> None:
    found = found_by(client_python("openai"), "with_openai.py", f"{base(guarded)}/v1", keys["own"], keys["slow"])
    assert found["models"] == [["embedder", "model", "limelight"]] and found["one"][0] == "embedder"
    assert found["one"][1] > 1.7e9
    expected = predicted(doors, *TEXTS)
    for each in (found["vectors"], found["floats"], *found["asyncio"]):
        np.testing.assert_allclose(each, expected, atol=1e-6)
    np.testing.assert_allclose(np.float32(found["text"]), expected[:1], atol=1e-6)
    (ids,), (first, _) = found["ids"], found["several ids"]
    np.testing.assert_allclose(ids, predicted(doors, "the cat")[0], atol=1e-6)
    np.testing.assert_allclose(ids, first, atol=1e-6)
    for short, whole in zip(np.float32(found["short"]), expected, strict=True):
        np.testing.assert_allclose(short, whole[:8] / np.linalg.norm(whole[:8]), atol=1e-6)
    assert found["usage"]["prompt_tokens"] == found["usage"]["total_tokens"] > len(TEXTS)
    assert found["model"] == ["list", "embedder"] and found["extra"] in (None, {}) and found["many"] == 2048
    assert found["attention"] == embed(doors, TEXTS[0], attention=MAPS)["attention"]
    errors = found["errors"]
    assert errors["key"][:3] == ["AuthenticationError", "invalid_api_key", None]
    assert errors["model"][:2] == errors["other"][:2] == ["NotFoundError", "model_not_found"]
    assert "nobody" in errors["retrieve"] and "embedder" in errors["retrieve"]
    for name, param, said in (
        ("field", "top_k", "is no field here"),
        ("long", "input", "has more than 128 tokens; shorten it"),
        ("10,000", "input", "has 10000 entries; it takes 1 to 2048"),
        ("nothing", "input", "has 0 entries"),
    ):
        assert errors[name][0] == "BadRequestError" and errors[name][2] == param and said in errors[name][3]
        assert "truncate" not in errors[name][3]
    assert errors["quota"][:2] == ["RateLimitError", "rate_limit_exceeded"] and found["retried"] == len(TEXTS)


def test_langchain_gets_thousands_of_vectors_from_a_server_of_usual_limits(
    guarded: Running, doors: Running, keys: dict[str, str], client_python: Callable[[str], Path]
) -> None:
    found = found_by(client_python("langchain-openai"), "with_langchain_openai.py", f"{base(guarded)}/v1", keys["own"])
    texts = [f"the cat {'sat ' * (number % 5)}" for number in range(2048)]
    assert found["count"] == 2048
    for name, these in (("first", texts[:5]), ("asyncio", texts[:5]), ("last", texts[-5:])):
        np.testing.assert_allclose(found[name], predicted(doors, *these), atol=1e-5)
    np.testing.assert_allclose(found["query"], found["first"][1], atol=1e-5)


@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join), min_size=1, max_size=6))
def test_numbers_are_those_of_predict_to_the_bit(doors: Running, texts: Sequence[str]) -> None:
    """As numbers and as base64; of several texts, whose batches differ from call to call, to single precision."""
    for fields in ({}, {"encoding_format": "base64"}):
        np.testing.assert_array_equal(vectors(embed(doors, texts[0], **fields)), predicted(doors, texts[0]))
        np.testing.assert_allclose(vectors(embed(doors, texts, **fields)), predicted(doors, *texts), atol=1e-6)


def test_attention_and_explanations_ride_along_and_change_nothing_else(doors: Running) -> None:
    one, several = ({"model": "embedder", "input": each} for each in (TEXTS[0], TEXTS))
    asked = {"attention": MAPS}, {"explain": {"ways": ["WAY_ERASE"]}}
    plain = call(doors, PATH, one).body
    assert all(call(doors, PATH, {**one, **fields}).body.startswith(plain[:-1]) for fields in asked)
    attended, explained = (call(doors, PATH, {**several, **fields}) for fields in asked)
    assert all(
        each.json.keys() - {"attention", "explanations"} == json.loads(plain).keys() for each in (attended, explained)
    )
    body = {"instances": TEXTS, "attention": MAPS}
    results = call(doors, "/v1/models/embedder:attend", body).json["results"]
    expected = [{"labelSets": each["prediction"]["labelSets"], "maps": each["maps"]} for each in results]
    assert attended.json["attention"] == expected
    selection = attention_pb2.MapSelection(names=["*.self"], layers=[0], heads=[1])
    maps = doors.stub.Attend(attend("embedder", text(TEXTS[0]), selections=[selection])).results[0].maps
    weights = attended.json["attention"][0]["maps"][0]["weights"]["data"]
    np.testing.assert_array_equal(np.float32(weights), to_array(maps[0].weights, "weights"))
    request = service_pb2.ExplainRequest(instances=[text(each) for each in TEXTS], ways=["WAY_ERASE"])
    request.model.name = "embedder"
    for own, door in zip(doors.stub.Explain(request).explanations, explained.json["explanations"], strict=True):
        np.testing.assert_allclose(door["ways"][0]["values"], own.ways[0].values, atol=1e-6)
    both = {"model": "embedder", "input": "a", "attention": {}, "explain": {}}
    assert refused(doors, both)[1]["param"] == "explain"


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"input": None}, "input", "is missing"),
        ({"model": None}, "model", "is missing"),
        ({"model": 3}, "model", "takes a text"),
        ({"model": "embedder@9"}, None, "has no version 9"),
        ({"model": "embedder@x"}, "model", "whole number"),
        ({"model": "reranker"}, None, "those that do: embedder"),
        ({"input": 7}, "input", "is 7; it takes a text, token ids"),
        ({"input": {}}, "input", "an object"),
        ({"input": ["a", None]}, "input[1]", "null"),
        ({"input": ["a", ""]}, "input[1]", "is empty"),
        ({"input": [[]]}, "input[0]", "a list of token ids"),
        ({"input": [1, "a"]}, "input[0]", "is 1"),
        ({"input": [[1, -1]]}, "input[0]", "token ids"),
        ({"input": [2, 5, 10_000]}, "input", "has 10000 at [2]"),
        ({"input": ["a"] * 65 + ["the " * 200]}, "input[65]", "more than 128 tokens"),
        ({"encoding_format": "int8"}, "encoding_format", "float or base64"),
        ({"dimensions": 0}, "dimensions", "it takes 1"),
        ({"dimensions": True}, "dimensions", "whole number"),
        ({"dimensions": 33}, "dimensions", "the model gives 32"),
        ({"user": 1}, "user", "takes a text"),
        ({"truncate": True}, "truncate", "there are model, input"),
        ({"attention": {"selections": [{"names": ["nothing"]}]}}, "attention.selections[0].names[0]", "matches no map"),
        ({"attention": 1}, "attention", "an object"),
        ({"explain": {"instances": []}}, "explain.instances", "is no field here"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(doors: Running, fields: Any, param: str | None, said: str) -> None:
    status, error = refused(doors, {"model": "embedder", "input": "the cat", **fields})
    assert (status, error["param"], error["type"]) == (404 if "9" in said else 400, param, "invalid_request_error")
    assert said in error["message"] and "truncate" not in error["message"].replace("truncate is", "")
    np.testing.assert_array_equal(vectors(embed(doors, "the cat")), predicted(doors, "the cat"))


def test_errors_have_openais_form_at_its_paths_before_anything_is_read(guarded: Running, keys: dict[str, str]) -> None:
    def as_(name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {keys[name]}"}

    body = {"model": "embedder", "input": "the cat"}
    for options, status, code in (
        ({}, 401, "invalid_api_key"),
        ({"headers": as_("lists")}, 403, "forbidden"),
        ({"headers": {"origin": "https://elsewhere.example"}}, 403, "forbidden"),
        ({"verb": "GET"}, 405, None),
        ({"headers": as_("own") | {"content-type": "text/plain"}}, 415, "invalid_input"),
    ):
        found, error = refused(guarded, body, **options)
        assert (found, error["code"]) == (status, code) and error["message"]
    status, error = refused(guarded, b"{", headers=as_("own"))
    assert status == 400 and "is not JSON" in error["message"]
    status, error = refused(guarded, {**body, "attention": {}}, headers=as_("without"))
    assert status == 403 and "may not call Attend" in error["message"]
    assert call(guarded, PATH, body, headers=as_("own")).status == 200
    # What a token does not see is in no list.
    everything, own = (call(guarded, "/v1/models", headers=as_(each)).json for each in ("lists", "own"))
    assert [each["id"] for each in everything["data"]] == ["classifier", "embedder", "reranker", "writer"]
    assert [each["id"] for each in own["data"]] == ["embedder"] and len(own["models"]) == 1
    assert call(guarded, "/v1/models/classifier", headers=as_("own")).status == 404


def test_more_rows_than_a_call_may_have_are_one_request(doors: Running) -> None:
    """To the metrics, whatever its parts. An explanation has to fit one call."""

    def counts() -> tuple[float, float]:
        found = scrape(doors.server.metrics_port)
        handled = (
            'grpc_server_handled_total{grpc_code="OK",grpc_method="Embeddings",grpc_service="openai",grpc_type="http"}'
        )
        return found[handled], found['limelight_batch_rows_sum{model="embedder"}']

    embed(doors, "the cat")
    before = counts()
    assert len(embed(doors, ["the cat"] * 200)["data"]) == 200  # in parts of 64
    after = counts()
    assert (after[0] - before[0], after[1] - before[1]) == (1, 200)
    status, error = refused(doors, {"model": "embedder", "input": ["the cat"] * 65, "explain": {}})
    assert status in (400, 413) and error["param"] == "input"


def test_more_rows_than_a_call_may_have_are_counted_at_first(guarded: Running, keys: dict[str, str]) -> None:
    """Whoever has no rows left is refused before anything runs."""
    headers = {"authorization": f"Bearer {keys['slow']}"}
    many = {"model": "embedder", "input": ["the cat"] * 600}
    assert call(guarded, PATH, many, headers=headers).status == 200
    status, error = refused(guarded, many, headers=headers)
    assert (status, error["code"]) == (429, "rate_limit_exceeded") and "20 rows a second" in error["message"]
    late = {**headers, "authorization": f"Bearer {keys['own']}", "x-request-timeout": "0.001"}
    assert refused(guarded, {**many, "input": ["the " * 60] * 2048}, headers=late)[0] in (429, 504)


def test_many_callers_and_one_that_leaves_get_along(doors: Running) -> None:
    request = b'{"model": "embedder", "input": [%s]}' % b", ".join([b'"the cat sat on a mat"'] * 2000)
    head = b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += b"content-length: %d\r\n\r\n" % len(request)
    with ThreadPoolExecutor(8) as pool:
        for cut in (len(request) // 2, len(request)):
            with connected(doors) as connection:
                connection.sendall(head + request[:cut])
            found = list(pool.map(lambda given: vectors(embed(doors, given)), [TEXTS] * 16))
            for each in found:
                np.testing.assert_allclose(each, predicted(doors, *TEXTS), atol=1e-6)
    with connected(doors) as connection:  # a request in two halves
        connection.sendall(head + request[:1000])
        connection.sendall(request[1000:])
        connection.shutdown(1)
        assert b"HTTP/1.1 200 OK" in told(connection)
