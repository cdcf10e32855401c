"""Cohere's API: by its own client, field by field, and against limelight.v1."""

import base64 as coding
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.serving import Running
from tests.service.doors.calls import base, found_by, scores, vectors
from tests.service.http.calls import call

TEXTS = ["the cat sat", "a dog 🐈 ran", "the mat"]
QUERY, LONG = "the cat", "the " * 300
MAPS = {"topK": 1}
RANK = {"model": "reranker", "query": QUERY, "documents": TEXTS}
EMBED = {"model": "embedder", "texts": TEXTS, "input_type": "search_document"}


def ask(running: Running, path: str, **fields: Any) -> Any:
    answer = call(running, path, fields)
    assert answer.status == 200, answer.body
    return answer.json


def ranks(running: Running) -> list[tuple[int, float]]:
    """Indices and scores of the texts, as Predict has them, highest first."""
    return sorted(enumerate(scores(running, QUERY, *TEXTS)), key=lambda each: -each[1])


def test_its_own_client_gets_everything(
    guarded: Running, doors: Running, keys: dict[str, str], client_python: Callable[[str], Path]
) -> None:
    found = found_by(client_python("cohere"), "with_cohere.py", base(guarded), keys["any"], keys["own"])
    whole, expected = np.stack(vectors(doors, *TEXTS)), ranks(doors)
    given = {name: np.asarray(each) for name, each in found["vectors"].items()}
    np.testing.assert_allclose(given["float"], whole, atol=1e-6)
    decoded = [np.frombuffer(coding.b64decode(each), "<f4") for each in given["base64"]]
    np.testing.assert_array_equal(decoded, np.float32(given["float"]))
    assert np.abs(given["int8"]).max(axis=1).tolist() == [127] * len(TEXTS)
    lengths = np.linalg.norm(given["int8"], axis=1, keepdims=True)
    np.testing.assert_allclose(given["int8"] / lengths, whole, atol=0.01)  # cosines stay
    np.testing.assert_array_equal(given["uint8"], given["int8"] + 128)
    np.testing.assert_array_equal(given["ubinary"], np.packbits(whole > 0, axis=1))
    np.testing.assert_array_equal(given["binary"], given["ubinary"] - 128)
    np.testing.assert_allclose(found["first vectors"], whole, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found["short"], axis=1), 1, atol=1e-6)
    assert len(found["short"][0]) == 8 and found["texts"] == TEXTS and found["tokens"] == 15
    for each in (found["ranked"], *found["asyncio"]):
        np.testing.assert_allclose(each, expected, atol=1e-6)
    assert [[place, document] for place, _, document in found["first"]] == [[each, TEXTS[each]] for each, _ in expected]
    assert found["read"] == 24 and len(found["best"]) == 2 and found["best"][0][1] > found["best"][1][1]
    own = call(doors, "/v1/models/reranker:attend", {"instances": [[QUERY, each] for each in TEXTS], "attention": MAPS})
    for door, each in zip(found["attention"], own.json["results"], strict=True):
        assert door["labelSets"] == each["prediction"]["labelSets"]
        assert [one["name"] for one in door["maps"]] == [one["name"] for one in each["maps"]]
    for name, kind, said in (
        ("key", "UnauthorizedError", "token"),
        ("model", "NotFoundError", "no model 'nobody'"),
        ("not its own", "NotFoundError", "embedder"),
        ("classifier", "BadRequestError", "those that do: embedder, reranker"),
        ("none", "BadRequestError", "documents has 0 entries"),
        ("tokens", "BadRequestError", "max_tokens_per_doc is 10"),
    ):
        assert found["errors"][name][0] == kind and said in found["errors"][name][1]


def test_documents_are_ranked_in_the_forms_of_cohere_jina_and_vllm(doors: Running) -> None:
    expected = ranks(doors)
    documents = [TEXTS[0], {"text": TEXTS[1], "title": "A"}, TEXTS[2]]
    second, first, jina = (
        ask(doors, path, query=QUERY, documents=documents, top_n=2) for path in ("/v2/rerank", "/v1/rerank", "/rerank")
    )
    for answer in (first, second, jina):
        assert [each["index"] for each in answer["results"]] == [place for place, _ in expected[:2]]
        scores = [each["relevance_score"] for each in answer["results"]]
        np.testing.assert_allclose(scores, [score for _, score in expected[:2]], atol=1e-6)
    assert all("document" not in each for each in first["results"] + second["results"])
    own = [documents[place] for place, _ in expected[:2]]
    assert [each["document"] for each in jina["results"]] == [
        {"text": each} if isinstance(each, str) else each for each in own
    ]
    assert (first["meta"]["api_version"], second["meta"]["api_version"]) == ({"version": "1"}, {"version": "2"})
    assert jina["usage"]["total_tokens"] == second["meta"]["tokens"]["input_tokens"] and jina["model"] == "reranker"
    (one,) = ask(doors, "/v2/rerank", query=QUERY, documents=[TEXTS[1]])["results"]
    assert one["relevance_score"] == dict(expected)[1]
    assert ask(doors, "/v1/rerank", query=QUERY, documents=[LONG], return_documents=True)["results"][0]["document"]
    plain = ask(doors, "/rerank", query=QUERY, documents=TEXTS, return_documents=False)["results"]
    assert all("document" not in each for each in plain)


def test_answers_are_the_same_to_the_byte_but_for_what_rides_along(doors: Running) -> None:
    headers = {"x-request-id": "the-same"}
    for path, body in (
        ("/v2/rerank", {**RANK, "documents": TEXTS[:1]}),
        ("/v1/rerank", {**RANK, "documents": TEXTS[:1]}),
        ("/v2/embed", {**EMBED, "texts": TEXTS[:1]}),
        ("/v1/embed", {**EMBED, "texts": TEXTS[:1]}),
    ):
        plain = call(doors, path, body, headers=headers)
        for beside, name in (({"attention": {}}, "attention"), ({"explain": {"ways": ["WAY_ERASE"]}}, "explanations")):
            found = call(doors, path, {**body, **beside}, headers=headers)
            assert found.body.startswith(plain.body[:-1]) and len(found.json[name]) == 1
    assert ask(doors, "/v1/embed", **EMBED, embedding_types=["ubinary"])["response_type"] == "embeddings_by_type"
    assert plain.json["response_type"] == "embeddings_floats" and plain.json["id"] == "the-same"


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/v2/rerank", {"model": None, "documents": ["a"]}, ""),
        ("/v2/rerank", {"query": None}, "query is missing"),
        ("/v2/rerank", {"documents": ["a", {"title": "b"}]}, "documents[1] is an object"),
        ("/v2/rerank", {"documents": ["a", ""]}, "documents[1] is empty"),
        ("/v2/rerank", {"documents": ["a"] * 10_001}, "documents has 10001 entries; it takes 1 to 10000"),
        ("/v2/rerank", {"top_n": 0}, "top_n is 0"),
        ("/v2/rerank", {"top_n": True}, "whole number"),
        ("/v1/rerank", {"rank_fields": ["title"]}, "rank_fields is a list"),
        ("/v1/rerank", {"max_chunks_per_doc": 10}, "max_chunks_per_doc is 10"),
        ("/v2/rerank", {"relevant_spans": {}}, "relevant_spans"),
        ("/v2/rerank", {"priority": 3}, "priority is 3"),
        ("/v2/rerank", {"texts": ["a"]}, "texts is no field here"),
        ("/v2/embed", {"texts": []}, "texts has 0 entries"),
        ("/v2/embed", {"texts": ["a", None]}, "texts[1] is null"),
        ("/v2/embed", {"input_type": "image"}, 'input_type is "image"'),
        ("/v2/embed", {"images": ["data:image/png;base64,"]}, "images"),
        ("/v2/embed", {"inputs": [{"content": []}]}, "inputs"),
        ("/v2/embed", {"embedding_types": ["int4"]}, "embedding_types[0]"),
        ("/v2/embed", {"embedding_types": []}, "embedding_types has 0 entries"),
        ("/v2/embed", {"output_dimension": 33}, "output_dimension is 33; the model gives 32"),
        ("/v2/embed", {"truncate": "START"}, 'truncate is "START"; it takes END or NONE'),
        ("/v2/embed", {"truncate": "NONE", "texts": ["a", LONG]}, "texts[1] has more than 128 tokens"),
        ("/v2/embed", {"max_tokens": 10}, "max_tokens is 10"),
        ("/v2/embed", {"model": "reranker"}, "those that do: embedder"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(doors: Running, path: str, fields: Any, said: str) -> None:
    answer = call(doors, path, {**(RANK if path.endswith("rerank") else EMBED), **fields})
    assert answer.status == (400 if said else 200), answer.body
    assert not said or (answer.json.keys() == {"message"} and said in answer.json["message"])
    np.testing.assert_allclose(ask(doors, "/v1/embed", **EMBED)["embeddings"], vectors(doors, *TEXTS), atol=1e-6)


def test_errors_have_coheres_form_before_anything_is_read(guarded: Running, keys: dict[str, str]) -> None:
    for path, body in (("/v2/rerank", RANK), ("/v1/embed", EMBED)):
        assert (answer := call(guarded, path, body)).status == 401 and answer.json.keys() == {"message"}
        headers = {"authorization": f"Bearer {keys['lists']}"}
        assert call(guarded, path, body, headers=headers).status == 403
        assert (
            "not JSON" in call(guarded, path, b"{", headers={"authorization": f"Bearer {keys['any']}"}).json["message"]
        )
    attending = json.dumps({**EMBED, "attention": {}}).encode()
    refused = call(guarded, "/v2/embed", attending, headers={"authorization": f"Bearer {keys['without']}"})
    assert refused.status == 403 and "may not call Attend" in refused.json["message"]
