"""What the client gives can be copied, pickled, taken apart, compared, and is an array only where that is clear."""

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

import limelight
from limelight.maps import read_map
from limelight.requests import Attention
from limelight.status_details import FieldViolation
from limelight.streams import StreamReader
from limelight.tensors import to_tensor
from limelight.v1 import attention_pb2, service_pb2, values_pb2

Ask = Callable[[limelight.Client], Any]
GIVEN: dict[str, Ask] = {
    "attended": lambda client: client.attend("scribe", {"text": "big cat"}),
    "edges": lambda client: client.attend("han", {"document": "It rains. We stay"}),
    "top_k": lambda client: client.attend("scribe", {"text": "big cat"}, top_k=1),
    "sequences": lambda client: client.attend("echo", {"text": "a b"}, sequences=2),
    "every result": lambda client: client.predict("weather", {"text": "Bern is wet"}),
    "model": lambda client: client.model("vqa"),
    "models": lambda client: client.models(),
    "generated": lambda client: list(client.generate("echo", {"text": "a b"}, attention=Attention())),
    "streamed": lambda client: streamed(),
}


def streamed() -> list[Any]:
    """The events of a stream, read from messages."""
    labels = attention_pb2.LabelSet(name="t", kind="LABEL_KIND_TOKENS", size=2, texts=["a", "b"])
    header = attention_pb2.AttentionMap(name="m", query_labels="t", key_labels="t", heads=[0])
    start = service_pb2.AttendStreamStart(prediction=service_pb2.Prediction(label_sets=[labels]))
    start.maps.add(map=header, shape=[1, 2, 2])
    weights = to_tensor(np.array([[[0.5, 0.5], [0.25, 0.75]]], np.float32))
    chunk = service_pb2.AttentionChunk(map=0, heads=1, queries=2, weights=weights)
    reader = StreamReader([values_pb2.Instance()])
    messages = ({"start": start}, {"chunk": chunk}, {"end": service_pb2.AttendStreamEnd(chunks=1)})
    return [reader.read(service_pb2.AttendStreamResponse(**each)) for each in messages]  # type: ignore[arg-type]


@pytest.mark.parametrize("ask", GIVEN.values(), ids=GIVEN)
def test_what_is_given_is_copied_pickled_compared_and_taken_apart(client: limelight.Client, ask: Ask):
    given = ask(client)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(given, protocol)) == given
    assert copy.deepcopy(given) == copy.copy(given) == given
    for each in given if isinstance(given, list) else [given]:
        assert hash(copy.deepcopy(each)) == hash(each)
        apart = dataclasses.asdict(each)
        assert list(apart) == [field.name for field in dataclasses.fields(each)]
        assert not any(dataclasses.is_dataclass(value) for value in apart.values())
        assert each != object() and repr(each)


def long_text(words: int) -> str:
    return " ".join(f"word{number}" for number in range(words))


@pytest.mark.parametrize(
    "ask",
    [
        *GIVEN.values(),
        lambda client: client.attend("scribe", {"text": long_text(500)}),
        lambda client: client.attend("han", {"document": ". ".join(["It rains"] * 500)}),
        lambda client: client.attend("echo", {"text": long_text(500)}, sequences=2),
        lambda client: client.predict("weather", {"text": long_text(500)}),
    ],
)
def test_a_representation_fits_on_a_screen(client: limelight.Client, ask: Ask):
    given = ask(client)
    for each in given if isinstance(given, list) else [given]:
        shown = repr(each)
        assert len(shown) <= 1500 and shown.count("\n") <= 20, shown


def test_representations_say_what_is_there(client: limelight.Client):
    answer = client.attend("scribe", {"text": "big cat"})
    assert repr(answer) == (
        "<Attended scribe version 1: long 0.75, short 0.25\n"
        "  'encoder.0.self': weights [head 2, query 4, key 4], 'tokens' to 'tokens'\n"
        "  'encoder.1.self': weights [head 2, query 4, key 4], 'tokens' to 'tokens'>"
    )
    assert repr(answer.maps[0].key) == "<LabelSet 'tokens', tokens, 4: '[CLS]' 'big' 'cat' '[SEP]'>"
    assert repr(client.model("vqa")) == (
        "<Model vqa version 1, classification; inputs 'image', 'question'; maps 'encoder.0.self', 'encoder.1.self'>"
    )
    many = dataclasses.replace(answer, maps=answer.maps * 40)
    assert repr(many).endswith("\n  and 68 more maps>")


def test_an_answer_has_the_label_or_the_text_of_its_prediction(client: limelight.Client):
    answer, written = client.attend("scribe", {"text": "big cat"}), client.attend("echo", {"text": "a b"})
    assert (answer.label, answer.probability, answer.text) == ("long", 0.75, None)
    assert (written.label, written.text) == (None, "A B") and written.probability == pytest.approx(np.exp(-1.5))


@pytest.mark.parametrize("ask", GIVEN.values(), ids=GIVEN)
def test_what_is_given_becomes_json(client: limelight.Client, ask: Ask):
    given = ask(client)
    for each in given if isinstance(given, list) else [given]:
        if not isinstance(each, limelight.MapChunk):  # its slices are no JSON
            document = json.loads(json.dumps(each.to_dict()))
            assert document == each.to_dict() and document


def test_answers_that_differ_in_a_number_a_word_or_their_type_are_not_equal(client: limelight.Client):
    answer = client.attend("scribe", {"text": "big cat"})
    first = answer.maps[0]
    for other in (
        dataclasses.replace(first, weights=first.weights + np.float32(1e-6)),
        dataclasses.replace(first, weights=first.weights.astype(np.float64)),
        dataclasses.replace(first, key=dataclasses.replace(first.key, labels=("a", "b", "c", "d"))),
        dataclasses.replace(first, normalised=False),
        "encoder.0.self",
    ):
        assert first != other
    assert dataclasses.replace(answer, maps=answer.maps[:1]) != answer
    nothing = dataclasses.replace(first, weights=first.weights * np.float32(np.nan))
    assert nothing == copy.deepcopy(nothing)


def test_an_answer_is_a_mapping_of_its_maps(client: limelight.Client):
    answer = client.attend("echo", {"text": "a b"}, sequences=2)
    for each in (answer, *answer.other_sequences):
        assert "decoder.cross" in each and "no" not in each and 0 not in each
        assert list(each) == list(each.keys()) == ["decoder.cross"] and len(each) == 1
        assert dict(each) == dict(each.items()) == {"decoder.cross": each["decoder.cross"]}
        assert list(each.values()) == list(each.maps)
        assert each.get("no") is None
        with pytest.raises(KeyError, match="no map 'no'"):
            each["no"]


def test_what_is_shared_cannot_be_written_and_a_copy_can(client: limelight.Client):
    prediction = client.predict("weather", {"text": "Bern is wet"})
    for act in (
        lambda each: each.update(a=1),
        lambda each: each.pop("forecast"),
        lambda each: each.setdefault("a", 1),
        lambda each: each.clear(),
        lambda each: each.__setitem__("a", 1),
    ):
        with pytest.raises(TypeError, match="is read-only"):
            act(prediction.results)
    assert {**prediction.results, "a": 1}["a"] == 1 and "a" not in prediction.results


def test_a_map_is_the_array_of_its_weights_in_every_form(client: limelight.Client):
    dense = client.attend("scribe", {"text": "big cat"})["encoder.0.self"]
    assert np.asarray(dense) is dense.weights
    assert np.array(dense).flags.writeable and np.asarray(dense, np.float16).dtype == np.float16
    edges = client.attend("han", {"document": "It rains. We stay"})["word"]
    assert edges.edges is not None
    np.testing.assert_array_equal(np.asarray(edges), edges.dense())
    cut = client.attend("scribe", {"text": "big cat"}, top_k=1)["encoder.0.self"]
    assert np.asarray(cut).shape == (2, 4, 4)
    assert np.asarray(dense.key).tolist() == ["[CLS]", "big", "cat", "[SEP]"]
    embedding = client.predict("weather", {"text": "Bern"}).results["vector"]
    assert np.asarray(embedding).tolist() == [1, 2]


def test_what_is_no_array_says_what_is_and_a_list_of_it_is_one_of_objects(client: limelight.Client):
    answer = client.attend("han", {"document": "It rains. We stay"})
    tags = client.predict("weather", {"text": "Bern"}).tags
    for each in (
        answer,
        answer.prediction,
        answer["word"].edges,
        client.model("han"),
        tags,
        *answer.prediction.classes,
    ):
        with pytest.raises(TypeError, match="is not an array; "):
            np.asarray(each)
        assert np.array([each, each], object).shape == (2,)


def test_every_error_is_pickled_and_copied():
    kinds = [limelight.Error, *limelight.Error.__subclasses__(), limelight.InputError]
    for kind in kinds:
        error = kind("a", code=grpc.StatusCode.ABORTED, violations=(FieldViolation("b", "c"),), retry_after=1.5)
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert (type(other), str(other), other.message) == (kind, "a", "a")
            assert (other.code, other.field, other.retry_after) == (grpc.StatusCode.ABORTED, "b", 1.5)


def test_the_probability_of_a_sequence_is_the_product_of_its_tokens(client: limelight.Client):
    answer = client.predict("echo", {"text": "a b"})
    assert answer.probability == answer.sequences[0].probability == pytest.approx(np.exp(-1.5))
    *_, end = client.generate("echo", {"text": "a b"})
    assert isinstance(end, limelight.GenerationEnd) and end.probability == pytest.approx(np.exp(-1.5))
    assert client.predict("scribe", {"text": "a"}).probability == 0.75
    assert client.predict("weather", {"text": "a"}).probability is None


def test_a_map_of_nothing_is_an_empty_array():
    labels = limelight.LabelSet("t", "tokens", ())
    sent = attention_pb2.AttentionMap(name="m", query_labels="t", key_labels="t", heads=[0])
    sent.weights.CopyFrom(to_tensor(np.zeros((1, 0, 0), np.float32)))
    assert np.asarray(read_map(sent, {"t": labels})).shape == (1, 0, 0)
    assert np.asarray(labels).shape == (0,)
