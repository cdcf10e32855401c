"""vLLM's paths: scores of pairs, classes, and what a model gives for a text, held to Predict's answers."""

import base64
from typing import Any

import numpy as np
import pytest

import limelight
from limelight.v1 import service_pb2
from limelight_bundle.wire import to_array
from tests.kit.serving import Running, text
from tests.service.doors.calls import pair, results
from tests.service.http.calls import call

TEXTS = ["the cat sat", "a dog 🐈 ran", "the mat"]
QUERY = "a cat"
MAPS = {"selections": [{"names": ["*.self"], "heads": [1]}]}


def ask(running: Running, path: str, model: str | None, **fields: Any) -> Any:
    answer = call(running, path, {**({} if model is None else {"model": model}), **fields})
    assert answer.status == 200, answer.body
    found = answer.json
    assert found["object"] == "list" and found["created"] > 1.7e9 and found["usage"]["prompt_tokens"] > 0
    assert [each["index"] for each in found["data"]] == list(range(len(found["data"])))
    return found


def refused(running: Running, path: str, **fields: Any) -> tuple[int, Any]:
    answer = call(running, path, fields)
    return answer.status, answer.json["error"]


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
@pytest.mark.parametrize(
    ("one", "other"), [("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2")]
)
def test_pairs_have_the_scores_of_a_model_of_pairs(doors: Running, path: str, one: str, other: str) -> None:
    expected = [
        each.regression.numbers[0].value for each in results(doors, "reranker", *(pair(QUERY, each) for each in TEXTS))
    ]
    for given in ({one: QUERY, other: TEXTS}, {one: [QUERY], other: TEXTS}, {one: [QUERY] * 3, other: TEXTS}):
        found = ask(doors, path, "reranker", **given)
        np.testing.assert_allclose([each["score"] for each in found["data"]], expected, atol=1e-6)
    (alone,) = ask(doors, path, None, **{one: QUERY, other: TEXTS[0]})["data"]  # before a model that gives vectors
    assert alone["score"] == results(doors, "reranker", pair(QUERY, TEXTS[0]))[0].regression.numbers[0].value


def test_models_of_vectors_score_by_cosine_or_by_tokens(doors: Running, by_tokens: Running) -> None:
    one, *others = (
        to_array(each.embedding.vector, "v") for each in results(doors, "embedder", text(QUERY), *map(text, TEXTS))
    )
    found = ask(doors, "/score", "embedder", text_1=QUERY, text_2=TEXTS)
    cosines = [each @ one / np.linalg.norm(each) / np.linalg.norm(one) for each in others]
    np.testing.assert_allclose([each["score"] for each in found["data"]], cosines, atol=1e-6)
    (model,) = (each["id"] for each in call(by_tokens, "/v1/models").json["data"])
    found = ask(by_tokens, "/score", None, text_1=[QUERY] * 3, text_2=TEXTS)
    with limelight.Client(by_tokens.server.address) as client:
        first, *rest = (
            each.token_vectors for each in client.predict(model, [{"text": each} for each in (QUERY, *TEXTS)])
        )
        expected = [limelight.maxsim(first, each).score for each in rest]
    np.testing.assert_allclose([each["score"] for each in found["data"]], expected, atol=1e-5)
    vectors = ask(by_tokens, "/pooling", model, input=[QUERY])["data"][0]["data"]
    np.testing.assert_array_equal(np.float32(vectors), np.asarray(first))


def test_classes_are_in_the_models_order(doors: Running) -> None:
    found = ask(doors, "/classify", "classifier", input=TEXTS)["data"]
    for one, each in zip(found, results(doors, "classifier", *map(text, TEXTS)), strict=True):
        classes = each.classification.classes
        probabilities = {one.index: one.probability for one in classes}
        np.testing.assert_allclose(one["probs"], [probabilities[place] for place in range(3)], atol=1e-6)
        assert (one["label"], one["num_classes"]) == (classes[0].label, 3)
    assert ask(doors, "/classify", None, input=TEXTS[0])["model"] == "classifier"  # the only one that fits


@pytest.mark.parametrize(("task", "model"), [("embed", "embedder"), ("classify", "classifier"), (None, "embedder")])
def test_pooling_gives_what_a_task_names(doors: Running, task: str | None, model: str) -> None:
    fields = {} if task is None else {"task": task}
    numbers = np.float32(ask(doors, "/pooling", model, input=TEXTS[0], **fields)["data"][0]["data"])
    (text_,) = (
        each["data"]
        for each in ask(doors, "/pooling", model, input=TEXTS[0], encoding_format="base64", **fields)["data"]
    )
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(text_), "<f4"), numbers)
    (result,) = results(doors, model, text(TEXTS[0]))
    if model == "embedder":
        np.testing.assert_array_equal(numbers, to_array(result.embedding.vector, "vector"))
        short = ask(doors, "/pooling", model, input=[[2, 5, 6, 3]], dimensions=4)["data"][0]["data"]
        assert len(short) == 4 and np.linalg.norm(short) == pytest.approx(1)
    else:
        assert numbers.sum() == pytest.approx(1)


def test_attention_rides_along(doors: Running) -> None:
    body = {"instances": [[QUERY, each] for each in TEXTS], "attention": MAPS}
    maps = [each["maps"] for each in call(doors, "/v1/models/reranker:attend", body).json["results"]]
    found = ask(doors, "/score", "reranker", text_1=QUERY, text_2=TEXTS, attention=MAPS)
    assert [each["maps"] for each in found["attention"]] == maps
    assert len(ask(doors, "/score", "embedder", text_1=QUERY, text_2=TEXTS, attention=MAPS)["attention"]) == 4
    explained = ask(doors, "/classify", "classifier", input=TEXTS[0], explain={"ways": ["WAY_ERASE"]})
    request = service_pb2.ExplainRequest(instances=[text(TEXTS[0])], ways=["WAY_ERASE"])
    request.model.name = "classifier"
    expected = doors.stub.Explain(request).explanations[0].ways[0].values
    np.testing.assert_allclose(explained["explanations"][0]["ways"][0]["values"], expected, atol=1e-6)


def test_fields_that_change_nothing_are_taken(doors: Running) -> None:
    neutral = {
        "user": "me",
        "truncate_prompt_tokens": None,
        "truncation_side": "right",
        "padding": "do_not_pad",
        "use_activation": True,
        "priority": 0,
        "mm_processor_kwargs": None,
        "cache_salt": "salt",
        "request_id": "mine",
    }
    assert ask(doors, "/classify", "classifier", input="a", add_special_tokens=True, **neutral)["id"] == "classify-mine"
    assert ask(doors, "/score", "reranker", text_1="a", text_2="a", **neutral)["id"] == "score-mine"
    long = {"input": "the " * 300, "truncate_prompt_tokens": -1}
    assert ask(doors, "/pooling", "embedder", **long, request_id="x")["usage"]["total_tokens"] == 128


@pytest.mark.parametrize(
    ("path", "fields", "param", "said"),
    [
        ("/score", {"text_1": "a"}, "text_1", "text_1 and text_2"),
        ("/score", {}, "text_1", "queries and documents"),
        ("/score", {"text_1": "a", "documents": ["a"]}, "documents", "one of two"),
        ("/score", {"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, "text_1", "has 2 texts; send one, or 3"),
        ("/score", {"text_1": "a", "text_2": []}, "text_2", "has 0 entries"),
        ("/score", {"text_1": "a", "text_2": [{"type": "text"}]}, "text_2[0]", "an object"),
        ("/score", {"text_1": "a", "text_2": ["a", "the " * 300]}, "text_2[1]", "more than 128 tokens; shorten it"),
        ("/score", {"text_1": "a", "text_2": ["a"] * 2049}, "text_2", "has 2049 entries"),
        ("/score", {"model": "classifier", "text_1": "a", "text_2": "a"}, None, "embedder, reranker"),
        ("/score", {"text_1": "a", "text_2": ["a"] * 2049}, "text_2", "it takes 1 to 2048"),
        ("/classify", {"messages": [{"role": "user", "content": "a"}], "input": "a"}, "messages", "is not done here"),
        ("/classify", {"input": "a", "use_activation": False}, "use_activation", "or send true"),
        ("/classify", {"input": "a", "truncate_prompt_tokens": 5}, "truncate_prompt_tokens", "or send -1"),
        ("/classify", {"input": ["a", "the " * 300]}, "input[1]", "more than 128 tokens; shorten it"),
        ("/classify", {"model": "embedder", "input": "a"}, None, "those that do: classifier"),
        ("/pooling", {"model": "classifier", "input": "a", "dimensions": 2}, "dimensions", "task embed"),
        ("/pooling", {"model": "embedder", "input": "a", "task": "token_classify"}, "task", "embed or token_embed"),
        ("/pooling", {"model": "embedder", "input": "a", "task": "classify"}, None, "gives classes of a text"),
        ("/pooling", {"model": "embedder", "input": "a", "embed_dtype": "float16"}, "embed_dtype", "is not done here"),
        ("/pooling", {"model": "embedder", "input": "a", "encoding_format": "bytes"}, "encoding_format", "base64"),
        ("/pooling", {"input": "a"}, "model", "classifier, embedder"),
    ],
)
def test_what_is_wrong_is_named(doors: Running, path: str, fields: Any, param: str | None, said: str) -> None:
    model = {"/score": "reranker", "/classify": "classifier"}.get(path)
    status, error = refused(doors, path, **({} if model is None else {"model": model}) | fields)
    assert (status, error["param"]) == (400, param) and said in error["message"]
    assert "set truncate" not in error["message"]
