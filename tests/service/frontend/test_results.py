"""Typed results from raw outputs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from limelight.v1 import attention_pb2, model_pb2, service_pb2
from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Instance, Pair, Sentences, Text
from limelight_bundle.wire import to_array
from limelight_service.codecs.v1.results import fill_result
from limelight_service.frontend.results import Answered, best_spans, probabilities, result_builders
from limelight_service.ipc.boundary import FinishReason, Sequence


def answer(
    outputs: dict[str, object],
    labels: dict[str, Labels] | None = None,
    instance: Instance | None = None,
    sequences: tuple[Sequence, ...] = (),
) -> Answered:
    arrays = {name: np.asarray(values, dtype=np.float32) for name, values in outputs.items()}
    return Answered(arrays, sequences, labels or {}, instance or {})


def filled(description: model_pb2.ModelDescription, one: Answered, most: int = 0) -> service_pb2.Result:
    """Build the one result, and check that its size was known."""
    ((name, builder),) = result_builders(description).items()
    result = service_pb2.Result(name=name)
    fill_result(result, builder.build(one, most))
    sizes = {f"axis{axis}": size for each in one.outputs.values() for axis, size in enumerate(each.shape)}
    steps = [len(each.token_ids) for each in one.sequences]
    assert result.ByteSize() - len(name) - 8 <= builder.size(Row({}, sizes, one.labels), steps, most) + 16
    return result


def classes(activation: int, axes: int = 1, labels: tuple[str, ...] = ("a", "b", "c")) -> model_pb2.ModelDescription:
    dimensions = [model_pb2.Dimension(name=f"axis{axis}") for axis in range(axes)]
    return model_pb2.ModelDescription(
        outputs=[model_pb2.OutputDescription(name="scores", dimensions=dimensions)],
        results=[
            model_pb2.ResultDescription(
                name="kind",
                classes=model_pb2.ClassesDescription(
                    output="scores",
                    labels=labels,
                    activation=activation,  # type: ignore[arg-type]
                    label_set="tokens" if axes > 1 else "",
                ),
            )
        ],
    )


def test_softmax_by_hand() -> None:
    prediction = filled(classes(model_pb2.ACTIVATION_SOFTMAX), answer({"scores": [0.0, math.log(3), 0.0]}))
    got = [(each.label, each.index, round(each.probability, 6)) for each in prediction.classification.classes]
    assert got == [("b", 1, 0.6), ("a", 0, 0.2), ("c", 2, 0.2)]  # equal ones in the model's order


def test_sigmoid_by_hand() -> None:
    prediction = filled(classes(model_pb2.ACTIVATION_SIGMOID), answer({"scores": [0.0, -math.log(3), math.log(3)]}))
    got = [(each.label, round(each.probability, 6)) for each in prediction.classification.classes]
    assert got == [("c", 0.75), ("a", 0.5), ("b", 0.25)]


def test_identity_leaves_probabilities_as_they_are() -> None:
    prediction = filled(classes(model_pb2.ACTIVATION_IDENTITY), answer({"scores": [0.25, 0.5, 0.25]}))
    assert [each.probability for each in prediction.classification.classes] == [0.5, 0.25, 0.25]


@given(hnp.arrays(np.float32, (4, 3), elements=st.floats(-1e4, 1e4, width=32)))
def test_probabilities_stay_between_0_and_1_however_large_the_scores(scores: np.ndarray) -> None:  # type: ignore[type-arg]
    for activation in (model_pb2.ACTIVATION_SOFTMAX, model_pb2.ACTIVATION_SIGMOID):
        likely = probabilities(scores, activation)
        assert ((likely >= 0) & (likely <= 1)).all()
    np.testing.assert_allclose(probabilities(scores, model_pb2.ACTIVATION_SOFTMAX).sum(axis=-1), 1)


def test_tagging_has_a_column_entry_for_each_class_of_each_entry() -> None:
    scores = [[0.875, 0.125, 0.0], [0.0, 0.25, 0.75]]
    tagging = filled(classes(model_pb2.ACTIVATION_IDENTITY, axes=2), answer({"scores": scores})).tagging
    assert (tagging.label_set, tagging.classes_per_entry) == ("tokens", 3)
    assert list(tagging.labels) == ["a", "b", "c", "c", "b", "a"]
    assert list(tagging.indices) == [0, 1, 2, 2, 1, 0]
    assert list(tagging.probabilities) == [0.875, 0.125, 0.0, 0.75, 0.25, 0.0]


def token_labels(ids: list[int], words: list[int]) -> dict[str, Labels]:
    return {"tokens": Labels("tokens", attention_pb2.LABEL_KIND_TOKENS, len(ids), ids=ids, words=words)}


def test_a_word_has_the_classes_of_its_first_token_and_special_tokens_have_none() -> None:
    description = classes(model_pb2.ACTIVATION_IDENTITY, axes=2)
    description.results[0].classes.words = True
    scores = [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]]
    labels = token_labels([2, 7, 8, 9, 3], [-1, 0, 0, 1, -1])
    tagging = filled(description, answer({"scores": scores}, labels), most=1).tagging
    assert tagging.selected
    assert list(zip(tagging.entries, tagging.entry_ends, tagging.labels, strict=True)) == [(1, 3, "a"), (3, 4, "c")]


def test_only_tokens_with_an_id_have_classes_and_there_may_be_none() -> None:
    description = classes(model_pb2.ACTIVATION_IDENTITY, axes=2)
    description.results[0].classes.token_id = 0
    scores = [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    tagging = filled(description, answer({"scores": scores}, token_labels([0, 5, 0], [])), most=1).tagging
    assert list(zip(tagging.entries, tagging.entry_ends, tagging.labels, strict=True)) == [(0, 1, "b"), (2, 3, "c")]
    tagging = filled(description, answer({"scores": scores}, token_labels([4, 5, 6], [])), most=1).tagging
    assert tagging.selected
    assert not tagging.labels


def pointers(*, distinct: bool = False, axes: int = 2) -> model_pb2.ModelDescription:
    description = classes(model_pb2.ACTIVATION_IDENTITY, axes, labels=())
    description.results[0].classes.class_label_set = "tokens"
    description.results[0].classes.distinct = distinct
    return description


def test_who_points_at_entries_has_their_texts_for_classes() -> None:
    scores = np.eye(7)[[2, 0, 2, 5, 6, 1, 3]]
    texts = [f"w{number}" for number in range(7)]
    labels = {"tokens": Labels("tokens", attention_pb2.LABEL_KIND_TOKENS, 7, texts)}
    tagging = filled(pointers(), answer({"scores": scores}, labels)).tagging
    assert tagging.classes_per_entry == 5 and not tagging.selected  # all of them would be as many as a map has
    assert list(tagging.labels[::5]) == ["w2", "w0", "w2", "w5", "w6", "w1", "w3"]
    whole = filled(pointers(axes=1), answer({"scores": scores[0]}, labels), most=7).classification.classes
    assert [each.index for each in whole] == [2, 0, 1, 3, 4, 5, 6] and whole[0].label == "w2"
    ordered = filled(pointers(distinct=True), answer({"scores": scores}, labels), most=1).tagging
    assert list(ordered.labels) == ["w2", "w0"] and list(ordered.entries) == [0, 1]  # back at w2 is the end
    unnamed = replace(labels["tokens"], texts=())
    for entries, given_, wanted in (
        (unnamed, {}, ["2", "0"]),
        (replace(unnamed, inputs=("text",)), {"text": Sentences(tuple("abcdefg"))}, ["c", "a"]),
        (
            replace(unnamed, inputs=("text",), starts=range(0, 14, 2), ends=range(1, 15, 2)),
            {"text": Text("t u v w x y z")},
            ["v", "t"],
        ),
    ):
        found = filled(pointers(), answer({"scores": scores}, {"tokens": entries}, given_), most=1).tagging
        assert list(found.labels)[:2] == wanted


def test_tokens_that_were_sent_without_words_have_classes_each() -> None:
    description = classes(model_pb2.ACTIVATION_IDENTITY, axes=2)
    description.results[0].classes.words = True
    tagging = filled(description, answer({"scores": [[0, 1, 0], [1, 0, 0]]}, token_labels([7, 8], [])), most=1).tagging
    assert not tagging.selected
    assert list(tagging.labels) == ["b", "a"]


@given(
    hnp.arrays(np.float32, (3, 40), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])),
    st.integers(0, 45),
    st.sampled_from([1, 2]),
)
def test_the_best_of_many_classes_are_those_of_sorting_them_all(scores: np.ndarray, most: int, axes: int) -> None:  # type: ignore[type-arg]
    labels = tuple(f"class {number}" for number in range(40))
    one = answer({"scores": scores if axes == 2 else scores[0]})
    result = filled(classes(model_pb2.ACTIVATION_IDENTITY, axes, labels), one, most=most)
    count = most if 0 < most < 40 else 40
    expected = [
        sorted(range(40), key=lambda index: (-row[index], index))[:count]
        for row in (scores if axes == 2 else scores[:1])
    ]
    if axes == 2:
        assert list(result.tagging.indices) == [index for row in expected for index in row]
        assert result.tagging.classes_per_entry == count
    else:
        assert [each.index for each in result.classification.classes] == expected[0]


def test_a_regression_names_its_numbers_and_their_units() -> None:
    targets = [model_pb2.Target(name="heat", unit="°C"), model_pb2.Target(name="odds")]
    description = model_pb2.ModelDescription(
        results=[
            model_pb2.ResultDescription(
                name="weather", regression=model_pb2.RegressionDescription(output="numbers", targets=targets)
            )
        ]
    )
    numbers = filled(description, answer({"numbers": [21.5, -0.25]})).regression.numbers
    assert [(each.name, each.value, each.unit) for each in numbers] == [("heat", 21.5, "°C"), ("odds", -0.25, "")]


def boxes_description(threshold: float) -> model_pb2.ModelDescription:
    queries = model_pb2.Dimension(name="queries", size=3)
    boxes = model_pb2.BoxesDescription(
        scores_output="scores", boxes_output="boxes", labels=["cat", "dog"], label_set="queries", grid="cells",
        threshold=threshold,
    )  # fmt: skip
    return model_pb2.ModelDescription(
        outputs=[model_pb2.OutputDescription(name=name, dimensions=[queries]) for name in ("scores", "boxes")],
        results=[model_pb2.ResultDescription(name="objects", boxes=boxes)],
    )


def found_boxes(threshold: float, *, region: attention_pb2.Region | None, most: int = 0) -> service_pb2.Boxes:
    """Three queries: a dog of 0.5, a cat of 0.75, and no object of 0.75."""
    scores = [[-1e4, 0, 0], [math.log(6), 0, 0], [0, 0, math.log(6)]]
    boxes = [[0.5, 0.5, 1, 1], [0.25, 0.5, 0.5, 0.25], [0, 0, 0, 0]]
    grid = Labels("cells", attention_pb2.LABEL_KIND_GRID, 4, grid=attention_pb2.Grid(rows=2, columns=2, region=region))
    one = answer({"scores": scores, "boxes": boxes}, {"cells": grid})
    return filled(boxes_description(threshold), one, most).boxes


def test_boxes_are_in_pixels_of_the_part_of_the_picture_that_the_model_reads() -> None:
    found = found_boxes(0.4, region=attention_pb2.Region(left=10, top=20, right=50, bottom=100))
    assert [(each.label, each.index, each.query, round(each.probability, 6)) for each in found.boxes] == [
        ("cat", 0, 1, 0.75),
        ("dog", 1, 0, 0.5),
    ]
    cat, dog = ((each.left, each.top, each.right, each.bottom) for each in found.boxes)
    assert (cat, dog) == ((10, 50, 30, 70), (10, 20, 50, 100))
    assert (found.label_set, found.relative) == ("queries", False)


def test_a_box_is_above_the_threshold_and_no_object_is_no_class() -> None:
    region = attention_pb2.Region(right=1, bottom=1)
    assert [each.query for each in found_boxes(0.5, region=region).boxes] == [1]
    assert [each.query for each in found_boxes(0.0, region=region).boxes] == [1, 0, 2]
    assert [each.query for each in found_boxes(0.0, region=region, most=2).boxes] == [1, 0]
    assert not found_boxes(0.9, region=region).boxes


def test_boxes_of_a_picture_that_was_not_sent_are_parts_of_it() -> None:
    found = found_boxes(0.6, region=None)
    assert found.relative
    assert [(each.left, each.top, each.right, each.bottom) for each in found.boxes] == [(0, 0.375, 0.5, 0.625)]


def test_an_embedding_is_the_output_itself() -> None:
    result = model_pb2.ResultDescription(name="v", embedding=model_pb2.EmbeddingDescription(output="vector"))
    output = model_pb2.OutputDescription(name="vector", dimensions=[model_pb2.Dimension(name="axis0")])
    description = model_pb2.ModelDescription(outputs=[output], results=[result])
    prediction = filled(description, answer({"vector": [1.5, -2.0]}))
    assert to_array(prediction.embedding.vector, "").tolist() == [1.5, -2.0]


def test_a_model_without_a_result_has_none() -> None:
    assert result_builders(model_pb2.ModelDescription()) == {}


def test_sequences_keep_their_order_and_their_reason_to_end() -> None:
    result = model_pb2.ResultDescription(name="s", sequence=model_pb2.SequenceDescription(label_set="output"))
    sequences = (
        Sequence((4, 1), (-0.5, -0.25), "ja", FinishReason.END, -0.375),
        Sequence((5,), (-1.0,), "nein", FinishReason.LENGTH, -1.0),
    )
    got = filled(model_pb2.ModelDescription(results=[result]), answer({}, sequences=sequences)).sequences.sequences
    assert [each.text for each in got] == ["ja", "nein"]
    assert list(got[0].token_ids) == [4, 1]
    assert list(got[0].log_probabilities) == [-0.5, -0.25]
    assert [each.finish_reason for each in got] == [service_pb2.FINISH_REASON_END, service_pb2.FINISH_REASON_LENGTH]


def spans_description(kind: int, tensors: list[str], tensor: str) -> model_pb2.ModelDescription:
    return model_pb2.ModelDescription(
        inputs=[
            model_pb2.InputDescription(
                name="input",
                kind=kind,  # type: ignore[arg-type]
                tensors=[model_pb2.TensorDescription(name=name) for name in tensors],
            )
        ],
        label_sets=[model_pb2.LabelSetDescription(name="words", input="input", tensor=tensor)],
        results=[
            model_pb2.ResultDescription(
                name="answer",
                spans=model_pb2.SpansDescription(start_output="start", end_output="end", label_set="words"),
            )
        ],
    )


@pytest.mark.parametrize(
    ("kind", "tensors", "value", "part"),
    [
        (model_pb2.INPUT_KIND_TEXT, ["ids"], Text("in Graz today"), ""),
        (model_pb2.INPUT_KIND_PAIR, ["question", "ids"], Pair("where?", "in Graz today"), "second"),
    ],
)
def test_the_best_span_quotes_the_text_and_skips_special_tokens(
    kind: int, tensors: list[str], value: object, part: str
) -> None:
    labels = Labels(
        "words",
        attention_pb2.LABEL_KIND_TOKENS,
        4,
        texts=["[CLS]", "in", "Graz", "today"],
        starts=[0, 0, 3, 8],
        ends=[0, 2, 7, 13],
        special=[True, False, False, False],
        inputs=(f"input.{part}" if part else "input",),
    )
    # The highest scores are those of the special token, which is no part of the text.
    one = answer({"start": [9, 0, 5, 0], "end": [9, 0, 5, 4]}, {"words": labels}, {"input": value})  # type: ignore[dict-item]
    spans = filled(spans_description(kind, tensors, "ids"), one).spans.spans
    assert [(each.text, each.start, each.end) for each in spans][:2] == [("Graz", 3, 7), ("Graz today", 3, 13)]
    assert {each.part for each in spans} == {part}
    assert len(spans) == 5
    start, end = math.exp(5) / (math.exp(5) + 2), math.exp(5) / (math.exp(5) + 1 + math.exp(4))
    assert spans[0].probability == pytest.approx(start * end, rel=1e-5)


def test_no_span_reaches_from_one_text_of_a_sequence_into_the_other() -> None:
    labels = Labels(
        "words",
        attention_pb2.LABEL_KIND_TOKENS,
        4,
        starts=[0, 4, 0, 3],
        ends=[3, 7, 2, 7],
        inputs=("input.first", "input.second"),
        input_indices=[0, 0, 1, 1],
    )
    one = answer({"start": [9, 0, 0, 0], "end": [0, 0, 0, 9]}, {"words": labels}, {"input": Pair("who was", "in Graz")})
    description = spans_description(model_pb2.INPUT_KIND_PAIR, ["ids"], "ids")
    spans = filled(description, one).spans.spans
    assert {(each.part, each.text) for each in spans} <= {
        ("first", "who"),
        ("first", "was"),
        ("first", "who was"),
        ("second", "in"),
        ("second", "Graz"),
        ("second", "in Graz"),
    }
    assert spans[0].text in ("who", "who was", "in Graz", "Graz")


def test_a_span_of_a_document_sent_as_sentences_says_which() -> None:
    labels = Labels(
        "words",
        attention_pb2.LABEL_KIND_TOKENS,
        3,
        starts=[0, 0, 3],
        ends=[2, 2, 7],
        parents=[0, 1, 1],
        parent="sentences",
        inputs=("input",),
    )
    one = answer({"start": [0, 0, 9], "end": [0, 0, 9]}, {"words": labels}, {"input": Sentences(("ab", "in Graz"))})
    description = spans_description(model_pb2.INPUT_KIND_DOCUMENT, ["ids"], "ids")
    best = filled(description, one).spans.spans[0]
    assert (best.sentence, best.start, best.end, best.text) == (1, 3, 7, "Graz")


chances = st.floats(0, 1)


@given(st.lists(st.tuples(chances, chances), min_size=1, max_size=12), st.integers(1, 5))
def test_the_best_spans_are_those_of_trying_all(pairs: list[tuple[float, float]], count: int) -> None:
    start, end = np.array(pairs).T
    every = sorted(
        (float(start[first] * end[last]) for first in range(len(start)) for last in range(first, len(start))),
        reverse=True,
    )
    found = best_spans(start, end, count)
    assert all(first <= last for first, last, _ in found)
    assert [probability for _, _, probability in found] == every[:count]


def test_spans_of_one_text_of_a_pair_share_their_probability_among_its_tokens() -> None:
    description = spans_description(model_pb2.INPUT_KIND_PAIR, ["ids"], "ids")
    description.results[0].spans.part = "second"
    labels = Labels(
        "words",
        attention_pb2.LABEL_KIND_TOKENS,
        5,
        texts=["[CLS]", "where", "[SEP]", "in", "Graz"],
        starts=[0, 0, 0, 0, 3],
        ends=[0, 5, 0, 2, 7],
        special=[True, False, True, False, False],
        inputs=("input.first", "input.second"),
        input_indices=[0, 0, 0, 1, 1],
    )
    scores = [0, 9, 0, 0, math.log(3)]  # the highest are in the question
    one = answer({"start": scores, "end": scores}, {"words": labels}, {"input": Pair("where", "in Graz")})
    spans = filled(description, one).spans.spans
    assert [(each.text, each.part, round(each.probability, 4)) for each in spans] == [
        ("Graz", "second", 0.5625),
        ("in Graz", "second", 0.1875),
        ("in", "second", 0.0625),
    ]
    # The first token stands for "no span answers": its probability is a half at both ends.
    description.results[0].spans.first_token_is_none = True
    scores[0] = math.log(4)
    one = answer({"start": scores, "end": scores}, {"words": labels}, {"input": Pair("where", "in Graz")})
    with_none = filled(description, one).spans
    assert with_none.none_probability == pytest.approx(0.25)
    assert [(each.text, round(each.probability, 4)) for each in with_none.spans] == [
        ("Graz", 0.1406),
        ("in Graz", 0.0469),
        ("in", 0.0156),
    ]
    # A text without tokens has no span.
    empty = replace(
        labels, size=3, texts=["[CLS]", "where", "[SEP]"], special=[True, False, True], input_indices=[0] * 3
    )
    one = answer({"start": scores[:3], "end": scores[:3]}, {"words": empty}, {"input": Pair("where", "")})
    assert (list(filled(description, one).spans.spans), filled(description, one).spans.none_probability) == ([], 1)
