"""Text Embeddings Inference's API: by Hugging Face's own client, field by field, and against limelight.v1."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_bundle.wire import to_array
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface.checkpoints import stated_pooling
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import Running, free_port, serving, text
from tests.service.doors.calls import base, found_by, results, scores, vectors
from tests.service.http.calls import Answer, call, connected

TEXTS = ["the cat sat", "a dog 🐈 ran", "the mat"]
LONG = "the " * 300
MAPS = {"selections": [{"names": ["*.self"], "layers": [0], "heads": [1]}]}
ERASE = {"ways": ["WAY_ERASE"]}
RERANK = {"query": "the cat", "texts": TEXTS}
SIMILARITY = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS}}
MOST = 10_000
TOLD = (
    "compute-time",
    "total-time",
    "compute-tokens",
    "compute-characters",
    "tokenization-time",
    "queue-time",
    "inference-time",
)
WORDS = st.lists(st.sampled_from(["the", "cat", "🐈", "ö", "x" * 9]), min_size=1, max_size=9).map(" ".join)


def ask(running: Running, path: str, **fields: Any) -> Any:
    answer = call(running, path, fields)
    assert answer.status == 200, answer.body
    return answer.json


def refused(answer: Answer) -> tuple[int, str]:
    """The status and the words of an error in TEI's form."""
    assert answer.json.keys() == {"error", "error_type"}
    kind = {429: "Overloaded", 503: "Unhealthy"}.get(answer.status, "Validation")
    assert answer.json["error_type"] == kind, answer.body
    return answer.status, answer.json["error"]


def classified(running: Running, words: str) -> list[list[Any]]:
    (found,) = results(running, "classifier", text(words))
    return [[each.label, np.float32(each.probability)] for each in found.classification.classes]


def cosines(running: Running, *texts: str) -> list[float]:
    one, *others = map(np.float64, vectors(running, *texts))
    return [float(one @ each / np.linalg.norm(one) / np.linalg.norm(each)) for each in others]


def test_hugging_faces_own_client_gets_everything(
    guarded: Running, doors: Running, keys: dict[str, str], client_python: Callable[[str], Path]
) -> None:
    script = "with_huggingface_hub.py"
    found = found_by(client_python("huggingface_hub"), script, base(guarded), keys["any"], keys["own"])
    expected = vectors(doors, *TEXTS)
    for each in (found["vectors"], *found["asyncio"]):
        np.testing.assert_allclose(each, expected, atol=1e-6)
    for name in ("one", "path"):
        np.testing.assert_array_equal(np.float32(found[name]), vectors(doors, TEXTS[0]))
    np.testing.assert_allclose(np.linalg.norm(found["short"]), 1, atol=1e-6)
    classes = classified(doors, TEXTS[0])
    assert [[label, np.float32(score)] for label, score in found["classes"]] == classes
    assert len(found["best"]) == 1 and found["best"][0][0] == classes[0][0] and found["best"][0][1] != classes[0][1]
    np.testing.assert_allclose(found["similar"], cosines(doors, TEXTS[0], *TEXTS), atol=1e-6)
    errors = {name: (status, body["error"]) for name, (status, body) in found["errors"].items()}
    assert errors["key"][0] == 401 and errors["model"][0] == errors["not its own"][0] == 404
    for name, said in (
        ("long", "inputs has more than 128 tokens; shorten it or set truncate"),
        ("prompt", 'prompt_name is "query", which is not done here'),
        ("left", 'truncation_direction is "left"'),
    ):
        assert errors[name][0] == 400 and said in errors[name][1]


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_numbers_are_those_of_predict_to_the_bit(doors: Running, texts: Sequence[str]) -> None:
    """Of several rows, whose batches differ from call to call, to single precision."""
    one = texts[0]
    np.testing.assert_array_equal(np.float32(ask(doors, "/embed", inputs=one)), vectors(doors, one))
    np.testing.assert_allclose(ask(doors, "/embed", inputs=texts), vectors(doors, *texts), atol=1e-6)
    classes = ask(doors, "/predict", inputs=one)
    assert [[each["label"], np.float32(each["score"])] for each in classes] == classified(doors, one)
    assert ask(doors, "/predict", inputs=[[one]]) == [classes]
    (score,) = scores(doors, RERANK["query"], one)
    assert ask(doors, "/rerank", query=RERANK["query"], texts=[one]) == [{"index": 0, "score": score}]
    assert ask(doors, "/predict", inputs=[RERANK["query"], one]) == [{"score": score, "label": "score"}]
    ranked = ask(doors, "/rerank", query=RERANK["query"], texts=texts, return_text=True)
    found, own = [each["score"] for each in ranked], scores(doors, RERANK["query"], *texts)
    assert found == sorted(found, reverse=True) and sorted(each["text"] for each in ranked) == sorted(texts)
    np.testing.assert_allclose(found, [own[each["index"]] for each in ranked], atol=1e-6)
    similar = ask(doors, "/similarity", inputs={"source_sentence": one, "sentences": texts})
    np.testing.assert_allclose(similar, cosines(doors, one, *texts), atol=1e-6)
    assert max(similar) <= 1


def test_vectors_of_tokens_are_the_last_hidden_states(doors: Running) -> None:
    body = {"instances": TEXTS, "hidden": {"layers": [-1]}}
    found = call(doors, "/v1/models/embedder:predict", body).json["predictions"]
    expected = [each["hidden"][0]["vectors"]["data"] for each in found]
    answer = ask(doors, "/embed_all", inputs=TEXTS, attention=MAPS)
    for found in (ask(doors, "/embed_all", inputs=TEXTS), answer["answer"]):
        for each, own in zip(found, expected, strict=True):
            np.testing.assert_allclose(each, own, atol=1e-5)
    assert len(answer["attention"]) == len(TEXTS)
    assert "hidden states" in refused(call(doors, "/embed_all", {"inputs": "a", "explain": ERASE}))[1]


def test_late_interaction_gives_its_own_vectors_of_tokens(by_tokens: Running) -> None:
    name = call(by_tokens, "/v1/models").json["data"][0]["id"]
    (found,) = results(by_tokens, name, text(TEXTS[0]))
    (vectors,) = ask(by_tokens, "/embed_all", inputs=TEXTS[0])
    np.testing.assert_array_equal(np.float32(vectors), to_array(found.token_vectors.vectors, "vectors"))
    for path, body in (
        ("/embed_all", {"inputs": "a", "explain": ERASE}),
        (f"/v1/models/{name}:explain", {"instances": ["a"], **ERASE}),
    ):
        answer = call(by_tokens, path, body)
        assert answer.status == 400 and b"nothing is explained" in answer.body


def test_vectors_of_any_length_stay_so_where_that_is_asked_for(tmp_path: Path) -> None:
    ENCODERS["bert"].write(tmp_path / "plain", "Model", num_hidden_layers=1)
    stated_pooling(tmp_path / "plain", normalised=False)
    import_checkpoint(tmp_path / "plain", tmp_path / "models")
    with serving(tmp_path / "models", http_port=free_port()) as running:
        (found,) = results(running, "plain", text(TEXTS[0]))
        own = to_array(found.embedding.vector, "vector")
        assert abs(np.linalg.norm(own) - 1) > 0.1
        (plain,), (short,) = (
            ask(running, "/embed", inputs=TEXTS[0], normalize=False, **each) for each in ({}, {"dimensions": 8})
        )
        np.testing.assert_array_equal(np.float32(plain), own)
        np.testing.assert_array_equal(np.float32(short), own[:8])
        (unit,) = ask(running, "/embed", inputs=TEXTS[0])
        np.testing.assert_allclose(unit, own / np.linalg.norm(own), atol=1e-6)


def test_tokens_are_those_of_tokenize_and_make_the_text_again(doors: Running) -> None:
    words = ["Grüße 😀 the cat", "the mat"]
    found = ask(doors, "/tokenize", inputs=words, model="embedder")
    own = call(doors, "/v1/models/embedder:tokenize", {"instances": words}).json["results"]
    for tokens, labels, said in zip(found, [each["labelSets"][0] for each in own], words, strict=True):
        assert [each["id"] for each in tokens] == labels["ids"] and [each["text"] for each in tokens] == labels["texts"]
        special = [each["special"] for each in tokens]
        assert special == labels["special"] and special[0] and special[-1] and tokens[0]["start"] is None
        assert all(each["text"] == said[each["start"] : each["stop"]] for each in tokens[1:-1])
    bare = ask(doors, "/tokenize", inputs=words[1], model="embedder", add_special_tokens=False)
    assert bare == [found[1][1:-1]]
    ids = [[each["id"] for each in tokens] for tokens in found]
    assert ask(doors, "/models/embedder/decode", ids=ids)[1] == words[1]
    assert ask(doors, "/models/embedder/decode", ids=ids[1]) == [words[1]]
    kept = ask(doors, "/decode", ids=[*ids[1], 2**31 - 1], skip_special_tokens=False, model="embedder")
    assert kept == [f"[CLS] {words[1]} [SEP]"]
    assert len(ask(doors, "/tokenize", inputs=["the cat"] * 100, model="embedder")) == 100  # more than a call may have


def test_a_model_is_named_by_the_path_by_a_field_or_by_what_it_gives(doors: Running) -> None:
    by_cosine = ask(doors, "/models/embedder/rerank", **RERANK)
    by_pairs = [ask(doors, path, **RERANK) for path in ("/rerank", "/models/reranker@1/rerank", "/")]
    np.testing.assert_allclose([_numbers(each) for each in by_pairs], [_numbers(by_pairs[0])] * 3, atol=1e-6)
    assert [each["index"] for each in by_pairs[0]] != [each["index"] for each in by_cosine]
    again = ask(doors, "/rerank", **RERANK, model="embedder")
    assert [each["index"] for each in again] == [each["index"] for each in by_cosine]
    expected = cosines(doors, RERANK["query"], *TEXTS)
    np.testing.assert_allclose([each["score"] for each in by_cosine], sorted(expected, reverse=True), atol=1e-6)
    assert ask(doors, "/models/embedder/embed", inputs="a", model="embedder") == ask(doors, "/embed", inputs="a")
    status, said = refused(call(doors, "/models/embedder/embed", {"inputs": "a", "model": "reranker"}))
    assert status == 400 and said == 'model is "reranker"; the path names embedder'
    # The root answers as the fields tell, then the model.
    np.testing.assert_allclose(ask(doors, "/", **SIMILARITY), ask(doors, "/similarity", **SIMILARITY), atol=1e-6)
    assert ask(doors, "/models/embedder", inputs=TEXTS[0]) == ask(doors, "/embed", inputs=TEXTS[0])
    classes = ask(doors, "/predict", inputs=TEXTS[0])
    assert ask(doors, "/", inputs=TEXTS[0], model="classifier") == classes
    assert ask(doors, "/models/classifier", inputs=TEXTS[0], parameters={"top_k": 2}) == [classes[:2]]
    assert refused(call(doors, "/", {"inputs": "a"}))[1] == "model is missing; it can be classifier, embedder, reranker"
    assert call(doors, "/health").status == 200


def test_info_has_every_field_of_the_public_schema(doors: Running) -> None:
    found = {name: call(doors, f"/models/{name}/info").json for name in ("embedder", "reranker", "classifier")}
    for name, info in found.items():
        needed = {
            "model_id": str, "model_sha": str, "model_dtype": str, "model_type": dict, "version": str,
            "max_concurrent_requests": int, "max_input_length": int, "max_batch_tokens": int, "max_batch_requests": int,
            "max_client_batch_size": int, "auto_truncate": bool, "tokenization_workers": int,
        }  # fmt: skip
        assert {field: type(info[field]) for field in needed} == needed and info["model_id"] == name
        assert info["max_input_length"] == 128 and info.keys() - needed == {"sha", "docker_label"}
    assert "mean" in found["embedder"]["model_type"]["embedding"]["pooling"]
    classes = found["classifier"]["model_type"]["classifier"]
    assert classes["id2label"]["2"] == "positive" and classes["label2id"]["positive"] == 2
    assert found["reranker"]["model_type"]["reranker"]["label2id"] == {"score": 0}


def test_vectors_are_cut_and_of_length_one(doors: Running) -> None:
    (whole,) = np.float32(ask(doors, "/embed", inputs=TEXTS[0]))
    (short,) = np.float32(ask(doors, "/embed", inputs=TEXTS[0], dimensions=8))
    np.testing.assert_allclose(short, whole[:8] / np.linalg.norm(whole[:8]), atol=1e-6)
    ids = [[each["id"] for each in ask(doors, "/tokenize", inputs=TEXTS[0], model="embedder")[0]]]
    np.testing.assert_array_equal(np.float32(ask(doors, "/embed", inputs=ids)), [whole])
    for path, fields in (
        ("/embed", {"inputs": LONG}),
        ("/embed_all", {"inputs": LONG}),
        ("/predict", {"inputs": LONG}),
        ("/rerank", {"query": "the", "texts": [LONG]}),
        ("/similarity", {"inputs": {"source_sentence": "the", "sentences": [LONG]}}),
    ):
        truncate = {"parameters": {"truncate": True}} if path == "/similarity" else {"truncate": True}
        assert "more than 128 tokens; shorten it or set truncate" in refused(call(doors, path, fields))[1]
        assert ask(doors, path, **fields, **truncate)
    raw = ask(doors, "/predict", inputs=TEXTS[0], raw_scores=True)
    powers = np.exp([each["score"] for each in raw])
    expected = [each["score"] for each in ask(doors, "/predict", inputs=TEXTS[0])]
    np.testing.assert_allclose(powers / powers.sum(), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("path", "model", "fields", "instances"),
    [
        ("/embed", "embedder", {"inputs": TEXTS}, TEXTS),
        ("/predict", "classifier", {"inputs": [[each] for each in TEXTS]}, TEXTS),
        ("/rerank", "reranker", RERANK, [[RERANK["query"], each] for each in TEXTS]),
        ("/rerank", "reranker", {"query": "the cat", "documents": TEXTS}, [[RERANK["query"], each] for each in TEXTS]),
        ("/similarity", "embedder", SIMILARITY, TEXTS),
    ],
)
def test_attention_and_explanations_ride_along(
    doors: Running, path: str, model: str, fields: Any, instances: Any
) -> None:
    """An entry a row, in the order of the request; the rest is the usual answer."""
    headers = {"x-request-id": "the-same"}
    plain = call(doors, path, fields, headers=headers)
    attended, explained = (
        call(doors, path, {**fields, **beside}, headers=headers).json
        for beside in ({"attention": MAPS}, {"explain": ERASE})
    )
    results = call(doors, f"/v1/models/{model}:attend", {"instances": instances, "attention": MAPS}).json["results"]
    for door, own in zip(attended.pop("attention"), results, strict=True):
        assert door["labelSets"] == own["prediction"]["labelSets"]
        found, expected = (each["maps"][0]["weights"]["data"] for each in (door, own))
        np.testing.assert_allclose(found, expected, atol=1e-6)
    own = call(doors, f"/v1/models/{model}:explain", {"instances": instances, **ERASE}).json["explanations"]
    for door, each in zip(explained.pop("explanations"), own, strict=True):
        np.testing.assert_allclose(door["ways"][0]["values"], each["ways"][0]["values"], atol=1e-5)
    for found in (attended, explained):
        answer = found if isinstance(plain.json, dict) else found.pop("answer")
        assert len(found) == (0 if isinstance(plain.json, list) else len(plain.json))
        np.testing.assert_allclose(_numbers(answer), _numbers(plain.json), atol=1e-6)
    assert "attention" in refused(call(doors, path, {**fields, "attention": {}, "explain": {}}))[1]


def _numbers(answer: Any) -> list[float]:
    """Every number of an answer, in order."""
    if isinstance(answer, dict | list):
        return [one for each in (answer.values() if isinstance(answer, dict) else answer) for one in _numbers(each)]
    return [answer] if isinstance(answer, int | float) else []


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/embed", {}, "inputs is missing"),
        ("/embed", {"inputs": []}, "inputs has 0 entries"),
        ("/embed", {"inputs": ["a", 3]}, "inputs[1] is 3"),
        ("/embed", {"inputs": ["a", ""]}, "inputs[1] is empty"),
        ("/embed", {"inputs": "a", "normalize": False}, "normalize is false; the model itself gives"),
        ("/embed", {"inputs": "a", "normalize": 1}, "normalize is 1"),
        ("/embed", {"inputs": "a", "dimensions": 33}, "dimensions is 33; the model gives 32"),
        ("/embed", {"inputs": "a", "prompt_name": "query"}, "prompt_name"),
        ("/embed", {"inputs": "a", "truncation_direction": "Left"}, "truncation_direction"),
        ("/embed", {"inputs": "a", "encoding_format": "base64"}, "encoding_format"),
        ("/embed", {"inputs": "a", "top_k": 1}, "top_k is no field here"),
        ("/embed", {"inputs": "a", "model": "nobody"}, "no model 'nobody'"),
        ("/embed", {"inputs": "a", "model": "classifier"}, "those that do: embedder"),
        ("/embed", {"inputs": [["a"]]}, "inputs[0]"),
        ("/embed", {"inputs": ["a"] * (MOST + 1)}, "inputs has 10001 entries; it takes 1 to 10000"),
        ("/embed_sparse", {"inputs": "a"}, "/embed_sparse is not there"),
        ("/predict", {"inputs": ["a", "b", "c"]}, "inputs is a list"),
        ("/predict", {"inputs": [["a"], ["a", "b"]]}, "inputs[1] does not fit: classifier takes one text"),
        ("/predict", {"inputs": ["a", "b"], "raw_scores": True}, "raw_scores does not go with reranker"),
        (
            "/predict",
            {"inputs": ["a", "b"], "parameters": {"function_to_apply": "sigmoid"}},
            'parameters["function_to_apply"] does not go with reranker',
        ),
        ("/predict", {"inputs": "a", "parameters": {"top_k": 0}}, "parameters"),
        ("/predict", {"inputs": "a", "parameters": {"function_to_apply": "relu"}}, "none or sigmoid or softmax"),
        ("/rerank", {"query": "a", "texts": []}, "texts has 0 entries"),
        ("/rerank", {"texts": ["a"]}, "query is missing"),
        ("/rerank", {"query": "a", "texts": ["a"], "raw_scores": True}, "raw_scores is true"),
        ("/rerank", {"query": "a", "texts": ["a"], "documents": ["a"]}, "texts is no field here"),
        ("/rerank", {"query": "a", "texts": ["a", LONG]}, "texts[1] has more than 128 tokens"),
        ("/rerank", [], "takes an object"),
        ("/similarity", {"inputs": {"sentences": ["a"]}}, 'inputs["source_sentence"] is missing'),
        ("/similarity", {**SIMILARITY, "parameters": {"prompt_name": "a"}}, "prompt_name"),
        ("/similarity", {**SIMILARITY, "model": "reranker"}, "those that do: embedder"),
        ("/tokenize", {"inputs": LONG, "model": "embedder"}, "has more than 128 tokens"),
        ("/tokenize", {"inputs": "a", "model": "reranker"}, "those that do: classifier, embedder, writer"),
        ("/decode", {"ids": [[1], ["a"]], "model": "embedder"}, "ids[1] is a list; it takes a list of token ids"),
        ("/", [], "takes an object"),
        ("/", {"inputs": "a", "model": 3}, "model is 3"),
        ("/info", None, "model is missing"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(doors: Running, path: str, fields: Any, said: str) -> None:
    status, words = refused(call(doors, path, fields))
    assert status == (404 if "no model 'nobody'" in said else 400) and said in words
    np.testing.assert_array_equal(np.float32(ask(doors, "/embed", inputs="the cat")), vectors(doors, "the cat"))


def test_errors_have_teis_form_before_anything_is_read(guarded: Running, keys: dict[str, str]) -> None:
    for path, body in (("/embed", {"inputs": "a"}), ("/models/embedder", {"inputs": "a"}), ("/info", None)):
        assert refused(call(guarded, path, body))[0] == 401
        headers = {"authorization": f"Bearer {keys['lists']}"}
        assert refused(call(guarded, path, body, headers=headers))[0] == 403
    slow = {"authorization": f"Bearer {keys['slow-too']}"}
    many = {"inputs": ["the cat"] * 600}
    assert {call(guarded, "/embed", many, headers=slow).status for _ in range(2)} == {200, 429}
    status, said = refused(call(guarded, "/models/embedder/embed", many, headers=slow))
    assert status == 429 and "20 rows a second" in said
    assert refused(call(guarded, "/embed", verb="GET"))[0] == 405


def test_ten_thousand_texts_and_callers_that_leave(doors: Running) -> None:
    request = b'{"query": "a", "texts": [%s], "model": "reranker"}' % b", ".join([b'"cat"'] * MOST)
    head = b"POST /rerank HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += b"content-length: %d\r\n\r\n" % len(request)
    for cut in (len(request) // 2, len(request)):
        with connected(doors) as connection:
            connection.sendall(head + request[:cut])
        assert ask(doors, "/rerank", **RERANK)
    similar = ask(doors, "/similarity", inputs={"source_sentence": "cat", "sentences": ["cat", "the"] * 200})
    np.testing.assert_allclose(similar[::2], 1, atol=1e-6)
    assert max(similar[1::2]) < 1 and len(similar) == 400
    answer = call(doors, "/rerank", request)
    assert answer.status == 200 and sorted(each["index"] for each in answer.json) == list(range(MOST))
    told = {name: int(answer.headers[f"x-{name}"]) for name in TOLD}
    assert told["compute-tokens"] == 5 * MOST and told["compute-characters"] == 4 * MOST
    assert told["total-time"] >= told["inference-time"] > 0
