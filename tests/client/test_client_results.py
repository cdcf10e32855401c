"""Typed results, read from messages small enough to check by hand."""

import dataclasses
import re

import numpy as np
import pytest

import limelight
from limelight.base.tensors import to_tensor
from limelight.cli import predict
from limelight.events import EventReader, GeneratedToken, GenerationEnd, GenerationStart
from limelight.predictions import read_prediction
from limelight.v1 import attention_pb2 as attention
from limelight.v1 import service_pb2 as service
from limelight.v1 import values_pb2
from tests.client.served import TEXT, ranked, tiny
from tests.kit import bundles
from tests.kit.forwarder import Forwarder


def tagging(size: int, labels: list[str], indices: list[int], probabilities: list[float]) -> service.Prediction:
    message = service.Prediction()
    it = message.results.add(name="tags").tagging
    it.label_set, it.classes_per_entry = "tokens", size
    it.labels.extend(labels)
    it.indices.extend(indices)
    it.probabilities.extend(probabilities)
    return message


REPORT = tiny().outputs


def test_results_are_by_name_and_in_order(client: limelight.Client, server: Forwarder):
    answer = client.predict("report", TEXT)
    assert list(answer.results) == ["words", "size", "place", "vector"]
    size = answer.results["size"]
    assert isinstance(size, limelight.Regression)
    assert size["width"] == pytest.approx(REPORT["logits"][0], rel=1e-4)
    assert answer.numbers[0] == limelight.Number("width", size["width"], "px")
    (place, *_), (span, *_) = server.answers[-1].predictions[0].results[2].spans.spans, answer.spans
    assert (span.text, span.start, span.end) == (TEXT[place.start : place.end], place.start, place.end)
    assert answer.embedding is not None
    np.testing.assert_allclose(answer.embedding, REPORT["logits"], rtol=1e-4)
    alone = dataclasses.replace(answer, results={"vector": answer.results["vector"]})
    numbers, length = REPORT["logits"], np.linalg.norm(REPORT["logits"])
    said = re.fullmatch(r"(\S+) (\S+) (\S+) \(3 numbers of length (\S+)\)", alone.headline)
    assert said and [*map(float, said.groups())] == pytest.approx([*numbers, length], rel=1e-3)
    assert (answer.label, answer.probability, answer.text, answer.classes) == (None, None, None, ())
    with pytest.raises(KeyError, match="'wind'; there are width, weight, height"):
        size["wind"]


def test_tags_are_columns_and_an_entry_has_its_classes(client: limelight.Client):
    answer = client.predict("report", TEXT)
    tags, expected = answer.tags, [ranked(logits) for logits in REPORT["tags"]]
    assert tags is not None
    assert answer.label_sets[tags.label_set].labels == tuple(TEXT.split())
    assert (tags.label_set, len(tags)) == ("tokens", 3)
    assert tags.labels == tuple(each[0][0] for each in expected)
    assert tags.probabilities.shape == tags.indices.shape == (3, 3)
    for entry, classes in zip(tags, expected, strict=True):
        assert [each.label for each in entry] == [bundles.LABELS[each.index] for each in entry]
        assert {each.label: each.probability for each in entry} == pytest.approx(dict(classes), rel=1e-4)
    assert [entry[0].label for entry in tags] == list(tags.labels)


def test_the_first_result_of_a_kind_is_the_short_cut():
    message = service.Prediction()
    for name, label in (("tone", "glad"), ("topic", "rain")):
        message.results.add(name=name).classification.classes.add(label=label, probability=0.5)
    answer = read_prediction(message)
    assert (answer.label, answer.classes[0].label) == ("glad", "glad")
    topic = answer.results["topic"]
    assert isinstance(topic, limelight.Classification) and topic.label == "rain"


def test_a_text_without_tokens_has_no_tags():
    answer = read_prediction(tagging(0, [], [], []))
    assert answer.tags is not None and len(answer.tags) == 0 and answer.tags.labels == ()


@pytest.mark.parametrize(
    ("size", "labels", "indices", "probabilities"),
    [(2, ["a"], [0], [1.0]), (0, ["a"], [0], [1.0]), (1, ["a"], [0, 1], [1.0]), (1, ["a"], [0], [])],
)
def test_tags_that_do_not_fit_are_refused(size: int, labels: list, indices: list, probabilities: list):
    with pytest.raises(ValueError, match="tagging has"):
        read_prediction(tagging(size, labels, indices, probabilities))


def test_tags_of_words_state_the_entries_of_each():
    message = tagging(1, ["a", "b"], [0, 1], [0.5, 0.75])
    assert (tags := read_prediction(message).tags) is not None and tags.entries is None
    it = message.results[0].tagging
    it.selected = True
    it.entries.extend([1, 3])
    it.entry_ends.extend([3, 4])
    answer = read_prediction(message)
    assert answer.tags is not None and answer.tags.entries == ((1, 3), (3, 4))
    del it.entries[1]
    with pytest.raises(ValueError, match="tagging has 2 rows, 1 entries and 2 ends"):
        read_prediction(message)


def test_boxes_are_read_and_shown():
    message = service.Prediction()
    found = message.results.add(name="objects").boxes
    found.label_set = "queries"
    assert predict.lines(read_prediction(message)) == [read_prediction(message).headline] == ["(no object)"]
    found.boxes.add(label="cat", index=3, probability=0.75, left=-1.5, top=2, right=30.25, bottom=40, query=7)
    answer = read_prediction(message)
    assert answer.boxes == (limelight.Box("cat", 3, 0.75, -1.5, 2, 30.25, 40, 7),)
    assert answer.results["objects"] == limelight.Boxes(answer.boxes, "queries", relative=False)
    assert predict.lines(answer) == ["0.7500  cat  [-1.5 2 30.25 40]  query 7"]
    assert answer.headline == "cat 0.75 (query 7)"


def test_a_kind_of_result_that_came_later_is_left_out():
    message = service.Prediction()
    message.results.add(name="new")
    message.results.add(name="class").classification.classes.add(label="a", probability=1.0)
    answer = read_prediction(message)
    assert (list(answer.results), answer.label) == (["class"], "a")


def test_arrays_of_a_result_have_the_types_that_they_say():
    answer = read_prediction(tagging(1, ["a", "b"], [0, 1], [0.5, 0.75]))
    assert answer.tags is not None
    assert (answer.tags.indices.dtype, answer.tags.probabilities.dtype) == (np.int32, np.float32)
    assert answer.tags.probabilities.tolist() == [[0.5], [0.75]]


def test_the_most_probable_tokens_of_a_step_are_as_many_as_are_told():
    top = service.TopTokens(tokens_per_step=2, token_ids=[4, 5], texts=["a", "b"], log_probabilities=[-0.5, -1])
    sequence = service.Sequence(token_ids=[4], log_probabilities=[-0.5], top=top)
    read = read_prediction(service.Prediction(results=[{"name": "text", "sequences": {"sequences": [sequence]}}]))
    assert read.sequences[0].top is not None and read.sequences[0].top.texts == (("a", "b"),)
    del sequence.top.texts[1:]
    with pytest.raises(ValueError, match="columns of other lengths"):
        read_prediction(service.Prediction(results=[{"name": "text", "sequences": {"sequences": [sequence]}}]))


def token(index: int, text: str, **fields: object) -> service.GenerateResponse:
    """A token with one row of a map over the input steps."""
    labels = {"query_labels": "output", "key_labels": "input", "heads": [0], "queries": [index]}
    row = attention.AttentionMap(name="decoder.self", **(labels | fields))  # type: ignore[arg-type]
    return service.GenerateResponse(token=service.GeneratedToken(index=index, text=text, maps=[row]))


def test_the_keys_of_a_stream_can_be_the_tokens_put_in_so_far():
    """The begin token and the prompt, which the start tells, and then each token but the newest."""
    reader = EventReader(values_pb2.Instance())
    put_in = attention.LabelSet(
        name="input",
        kind=attention.LABEL_KIND_INPUT_STEPS,
        size=2,
        texts=["<s>", "p"],
        ids=[2, 9],
        special=[True, False],
    )
    start = reader.read(service.GenerateResponse(start=service.GenerationStart(label_sets=[put_in])))

    def keys(index: int, text: str, *shape: int, **fields: object) -> tuple[str, ...]:
        event = reader.read(token(index, text, weights=to_tensor(np.ones(shape, np.float32)), **fields))
        assert isinstance(event, GeneratedToken)
        assert (event.maps[0].query.labels, event.maps[0].query.indices) == ((text,), (index,))
        assert event.maps[0].key.kind == "input_steps"
        return event.maps[0].key.labels

    assert keys(0, "a", 1, 1, 2) == ("<s>", "p")
    assert keys(1, "b", 1, 1, 3) == ("<s>", "p", "a")
    edges = {"query_index": to_tensor(np.array([2], np.int32)), "key_index": to_tensor(np.array([1], np.int32))}
    assert keys(2, "c", 1, 1, **edges) == ("<s>", "p", "a", "b")
    assert keys(3, "", 1, 1, 1, keys=[2]) == ("a",)
    with pytest.raises(ValueError, match="weights"):
        keys(4, "f", 1, 1, 7)
    assert isinstance(start, GenerationStart) and start.label_sets["input"].labels == ("<s>", "p")


def test_the_keys_of_the_best_beam_are_told_at_the_end():
    reader = EventReader(values_pb2.Instance())
    put_in = attention.LabelSet(name="input", kind="LABEL_KIND_INPUT_STEPS", size=1, texts=["<s>"], ids=[2])
    reader.read(service.GenerateResponse(start=service.GenerationStart(label_sets=[put_in])))
    steps = attention.LabelSet(
        name="output",
        kind=attention.LABEL_KIND_OUTPUT_STEPS,
        size=2,
        texts=["a", "</s>"],
        ids=[4, 3],
        special=[False, True],
    )
    own = attention.AttentionMap(
        name="decoder.self", query_labels="output", key_labels="input", heads=[0],
        weights=to_tensor(np.ones((1, 2, 2), np.float32)),
    )  # fmt: skip
    end = reader.read(service.GenerateResponse(end=service.GenerationEnd(label_set=steps, maps=[own])))
    assert isinstance(end, GenerationEnd)
    assert (end.maps[0].key.labels, end.maps[0].key.ids.tolist()) == (("<s>", "a"), [2, 4])
    assert end.maps[0].query.labels == ("a", "</s>")
