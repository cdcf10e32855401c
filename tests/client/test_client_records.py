"""Records of the client can be copied, pickled, taken apart, compared, and are arrays only where that is clear."""

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
from limelight.base.status_details import FieldViolation
from limelight.base.tensors import to_tensor
from limelight.maps import read_map
from limelight.requests import Attention
from limelight.v1 import attention_pb2
from tests.client import served
from tests.client.served import DOCUMENT, TEXT
from tests.kit.forwarder import Forwarder

Ask = Callable[[limelight.Client], Any]
BEAM = limelight.Generation(strategy="beam", hypotheses=2)
GIVEN: dict[str, Ask] = {
    "attended": lambda client: client.attend("tiny", TEXT),
    "edges": lambda client: client.attend("paper", DOCUMENT),
    "top_k": lambda client: client.attend("tiny", TEXT, top_k=1),
    "sequences": lambda client: client.attend("echo", TEXT, sequences=2, generation=BEAM),
    "every result": lambda client: client.predict("report", TEXT),
    "model": lambda client: client.model("asked"),
    "models": lambda client: client.models(),
    "generated": lambda client: list(client.generate("echo", TEXT, attention=Attention())),
    "streamed": lambda client: list(client.attend_stream("tiny", TEXT)),
}


def long_text(words: int) -> str:
    return " ".join(f"word{number}" for number in range(words))


LONG: dict[str, Ask] = {
    "long": lambda client: client.attend("tiny", long_text(500)),
    "long edges": lambda client: client.attend("paper", ". ".join(["It rains"] * 500)),
    "long sequences": lambda client: client.attend("echo", long_text(32), sequences=2, generation=BEAM),
    "every long result": lambda client: client.predict("report", long_text(500)),
}


@pytest.mark.parametrize("ask", [*GIVEN.values(), *LONG.values()], ids=[*GIVEN, *LONG])
def test_what_is_given_is_copied_compared_taken_apart_becomes_json_and_fits_on_a_screen(
    client: limelight.Client, ask: Ask
):
    given = ask(client)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(given, protocol)) == given
    assert copy.deepcopy(given) == copy.copy(given) == given
    for each in given if isinstance(given, list) else [given]:
        assert hash(copy.deepcopy(each)) == hash(each)
        apart = dataclasses.asdict(each)
        assert list(apart) == [field.name for field in dataclasses.fields(each)]
        assert not any(dataclasses.is_dataclass(value) for value in apart.values())
        shown = repr(each)
        assert each != object() and 0 < len(shown) <= 1500 and shown.count("\n") <= 20, shown
        if not isinstance(each, limelight.MapChunk):  # its slices are no JSON
            document = json.loads(json.dumps(each.to_dict()))
            assert document == each.to_dict() and document


def test_representations_say_what_is_there(client: limelight.Client):
    answer = client.attend("tiny", TEXT)
    assert repr(answer) == (
        f"<Attended tiny version 1: {served.headline(served.tiny())}\n"
        "  'encoder.0.self': weights [head 2, query 3, key 3], 'tokens' to 'tokens'\n"
        "  'encoder.1.self': weights [head 2, query 3, key 3], 'tokens' to 'tokens'\n"
        "  'pool': weights [head 1, query 1, key 3], 'one' to 'tokens'>"
    )
    assert repr(answer.maps[0].key) == "<LabelSet 'tokens', tokens, 3: 'the' 'cat' 'sat'>"
    assert repr(client.model("asked")) == (
        "<Model asked version 1, classification; inputs 'image', 'question'; results 'mood'; "
        "maps 'encoder.0.self', 'encoder.1.self'>"
    )
    many = dataclasses.replace(answer, maps=answer.maps * 40)
    assert repr(many).endswith("\n  and 108 more maps>")


def test_an_answer_has_the_label_or_the_text_of_its_prediction(client: limelight.Client):
    answer, written = client.attend("tiny", TEXT), client.attend("echo", TEXT)
    (label, probability), *_ = served.ranked(served.tiny().outputs["logits"])
    assert (answer.label, answer.probability, answer.text) == (label, pytest.approx(probability), None)
    assert (written.label, written.text) == (None, served.said(served.echo()))
    assert written.probability == pytest.approx(served.probability(served.echo()), rel=1e-4)


def test_answers_that_differ_in_a_number_a_word_or_their_type_are_not_equal(client: limelight.Client):
    answer = client.attend("tiny", TEXT)
    first = answer.maps[0]
    for other in (
        dataclasses.replace(first, weights=first.weights + np.float32(1e-6)),
        dataclasses.replace(first, weights=first.weights.astype(np.float64)),
        dataclasses.replace(first, key=dataclasses.replace(first.key, labels=("a", "b", "c"))),
        dataclasses.replace(first, normalised=False),
        "encoder.0.self",
    ):
        assert first != other
    assert dataclasses.replace(answer, maps=answer.maps[:1]) != answer
    nothing = dataclasses.replace(first, weights=first.weights * np.float32(np.nan))
    assert nothing == copy.deepcopy(nothing)


def test_an_answer_is_a_mapping_of_its_maps(client: limelight.Client, server: Forwarder):
    answer = client.attend("echo", TEXT, sequences=2, generation=BEAM)
    sent = server.answers[-1].results[0]
    for each, told in zip((answer, *answer.other_sequences), (sent, *sent.other_sequences), strict=True):
        names = [one.name for one in told.maps]
        assert "decoder.0.cross" in each and "no" not in each and 0 not in each
        assert list(each) == list(each.keys()) == names and len(each) == len(names)
        assert dict(each) == dict(each.items()) == {name: each[name] for name in names}
        assert list(each.values()) == list(each.maps)
        assert each.get("no") is None
        with pytest.raises(KeyError, match="no map 'no'"):
            each["no"]


def test_what_is_shared_cannot_be_written_and_a_copy_can(client: limelight.Client):
    prediction = client.predict("report", TEXT)
    for act in (
        lambda each: each.update(a=1),
        lambda each: each.pop("size"),
        lambda each: each.setdefault("a", 1),
        lambda each: each.clear(),
        lambda each: each.__setitem__("a", 1),
    ):
        with pytest.raises(TypeError, match="is read-only"):
            act(prediction.results)
    assert {**prediction.results, "a": 1}["a"] == 1 and "a" not in prediction.results


def test_a_map_is_the_array_of_its_weights_in_every_form(client: limelight.Client):
    dense = client.attend("tiny", TEXT)["encoder.0.self"]
    assert np.asarray(dense) is dense.weights
    assert np.array(dense).flags.writeable and np.asarray(dense, np.float16).dtype == np.float16
    edges = client.attend("paper", DOCUMENT)["word"]
    assert edges.edges is not None
    np.testing.assert_array_equal(np.asarray(edges), edges.dense())
    cut = client.attend("tiny", TEXT, top_k=1)["encoder.0.self"]
    assert np.asarray(cut).shape == (2, 3, 3)
    assert np.asarray(dense.key).tolist() == TEXT.split()
    embedding = client.predict("report", TEXT).results["vector"]
    np.testing.assert_allclose(np.asarray(embedding), served.tiny().outputs["logits"], rtol=1e-4)


def test_what_is_no_array_says_what_is_and_a_list_of_it_is_one_of_objects(client: limelight.Client):
    answer = client.attend("paper", DOCUMENT)
    tags = client.predict("report", TEXT).tags
    for each in (
        answer,
        answer.prediction,
        answer["word"].edges,
        client.model("paper"),
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
    answer, expected = client.predict("echo", TEXT), served.probability(served.echo())
    assert answer.probability == answer.sequences[0].probability == pytest.approx(expected, rel=1e-4)
    *_, end = client.generate("echo", TEXT)
    assert isinstance(end, limelight.GenerationEnd) and end.probability == pytest.approx(expected, rel=1e-4)
    most = served.ranked(served.tiny().outputs["logits"])[0][1]
    assert client.predict("tiny", TEXT).probability == pytest.approx(most)
    assert client.predict("report", "a").probability is None


def test_a_map_of_nothing_is_an_empty_array():
    labels = limelight.LabelSet("t", "tokens", ())
    sent = attention_pb2.AttentionMap(name="m", query_labels="t", key_labels="t", heads=[0])
    sent.weights.CopyFrom(to_tensor(np.zeros((1, 0, 0), np.float32)))
    assert np.asarray(read_map(sent, {"t": labels})).shape == (1, 0, 0)
    assert np.asarray(labels).shape == (0,)
