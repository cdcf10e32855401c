"""The document at /openapi.json is valid, and requests and answers are as it says."""

import base64
import hashlib
import json
import re
from collections import Counter
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tests.kit.serving import Running
from tests.service.http.calls import call, events, texts

MAPS = {"selections": [{"names": ["encoder.0.self"]}], "encoding": "ENCODING_UINT8", "topK": 2}


@pytest.fixture(scope="module")
def document(running: Running) -> Any:
    return call(running, "/openapi.json").json


def check(document: Any, schema: str, value: Any) -> None:
    whole = {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}
    Draft202012Validator(whole).validate(value)


@cache
def validated(document: str) -> None:
    """Validate a document once: it is the same in both topologies, and that takes seconds."""
    validate(json.loads(document))


def test_it_is_valid(document: Any) -> None:
    validated(json.dumps(document))
    assert document["openapi"] == "3.1.0" and "securitySchemes" not in document["components"]


def test_every_path_of_it_is_one_of_the_server(running: Running, document: Any) -> None:
    for path, verbs in document["paths"].items():
        real = path.replace("{name}", "tiny").replace("{version}", "1")
        for verb in verbs:
            answer = call(running, real, b"{}" if verb == "post" else None)
            assert answer.status in (200, 400), (path, answer.body)
        assert call(running, real, verb="DELETE").status == 405
    operations = [each for verbs in document["paths"].values() for each in verbs.values() if "tags" in each]
    assert len(operations) == len({each["operationId"] for each in operations})
    assert Counter(each["tags"][0] for each in operations) == {
        "limelight.v1.AttentionService": 2 * 7 + 1,
        "inference.GRPCInferenceService": 17,
        "openai": 3,
        "tei": 2 * 10,
        "cohere": 4,
        "vllm": 4,
    }


@pytest.mark.parametrize(
    ("path", "name", "body"),
    [
        ("/v1/models", "ListModels", None),
        *((f"/v1/models/{model}", "GetModel", None) for model in ("tiny", "echo", "web", "picture", "paper")),
        ("/v1/models/tiny:predict", "Predict", texts("the cat")),
        ("/v1/models/echo:predict", "Predict", texts("the cat", generation={"strategy": "STRATEGY_BEAM"})),
        ("/v1/models/tiny:attend", "Attend", texts("the cat", "a dog", attention=MAPS)),
        ("/v1/models/tiny:attend", "Attend", texts("the cat", attention={})),
        ("/v1/models/tiny:predict", "Predict", {"instances": ["the cat", {"text": "a dog", "seed": 3}]}),
        ("/v1/models/paper:predict", "Predict", {"instances": [{"text": ["the cat", "a dog"]}]}),
        ("/v1/models/tiny:explain", "Explain", texts("the cat sat")),
        ("/v1/models/paper:explain", "Explain", {"instances": [["the cat", "a dog"]], "ways": ["WAY_ERASE"]}),
    ],
)
def test_requests_and_answers_are_as_it_says(running: Running, document: Any, path: str, name: str, body: Any) -> None:
    answer = call(running, path, body)
    assert answer.status == 200
    check(document, f"{name}Response", answer.json)
    if body is not None:
        check(document, f"{name}Request", body)


def test_events_and_errors_are_as_it_says(running: Running, document: Any) -> None:
    request = {"instance": texts("the cat")["instances"][0], "attention": {}}
    for _, event in events(call(running, "/v1/models/echo:generate", request)):
        check(document, "GenerateResponse", event)
    for _, event in events(call(running, "/v1/models/tiny:attendStream", texts("the cat", attention={}))):
        check(document, "AttendStreamResponse", event)
    check(document, "Error", call(running, "/v1/models/tiny:predict", {}).json)
    infer = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["the cat"]}]}
    check(document, "InferRequest", infer)
    check(document, "InferResponse", call(running, "/v2/models/tiny/infer", infer).json)
    for path in ("/v2/models/tiny/infer", "/v2/models//infer", "/v2/models/stats"):  # the last takes another verb
        check(document, "InferError", call(running, path, {}).json)
    index = document["paths"]["/v2/repository/index"]["post"]["responses"]["200"]["content"]["application/json"]
    Draft202012Validator(index["schema"]).validate(call(running, "/v2/repository/index", b"").json)


def test_the_page_draws_all_of_it_and_needs_nothing_else(running: Running, document: Any) -> None:
    assert (call(running, "/").status, call(running, "/").headers["location"]) == (307, "docs")
    page = call(running, "/docs")
    text = page.body.decode()
    assert page.status == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and f"style-src 'sha256-{digest}'" in policy
    assert not re.search(r"<script|<img|<link|style=|https?:", text)
    for path in document["paths"]:
        assert f"<code>{path}</code>" in text
    identities = re.findall(r"id=([\w.]+)", text)
    assert set(identities) == document["components"]["schemas"].keys() and len(identities) == len(set(identities))
    assert set(re.findall(r"href=#([\w.]+)", text)) <= set(identities)


def test_it_names_nothing_of_the_inside(document: Any) -> None:
    assert not re.search(r"service\.|_upb|(Inputs|Outputs)Entry", json.dumps(document))
