"""Typed results from raw outputs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bundle.rows import Labels, Token
from bundle.values import Instance, Pair, Text
from bundle.wire import to_array
from limelight.v1 import attention_pb2, model_pb2, service_pb2
from service.engine import types
from service.rpc.results import best_spans, probabilities, result_of


def answer(outputs: dict[str, object], labels: dict[str, Labels] | None = None, **more: object) -> types.Answer:
    arrays = {name: np.asarray(values, dtype=np.float32) for name, values in outputs.items()}
    return types.Answer(arrays, {}, labels or {}, "main", 1, types.Timing(0, 0), **more)  # type: ignore[arg-type]


def filled(
    description: model_pb2.ModelDescription, one: types.Answer, instance: Instance | None = None
) -> service_pb2.Prediction:
    prediction = service_pb2.Prediction()
    result_of(description)(prediction, one, instance or {})
    return prediction


def classes(activation: int, axes: int = 1) -> model_pb2.ModelDescription:
    dimensions = [model_pb2.Dimension(name=f"axis{axis}") for axis in range(axes)]
    return model_pb2.ModelDescription(
        outputs=[model_pb2.OutputDescription(name="scores", dimensions=dimensions)],
        result=model_pb2.ResultDescription(
            classes=model_pb2.ClassesDescription(output="scores", labels=["a", "b", "c"], activation=activation)  # type: ignore[arg-type]
        ),
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


def test_tagging_has_one_classification_an_entry() -> None:
    scores = [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]
    prediction = filled(classes(model_pb2.ACTIVATION_IDENTITY, axes=2), answer({"scores": scores}))
    assert [each.classes[0].label for each in prediction.tagging.entries] == ["a", "c"]


def test_an_embedding_is_the_output_itself() -> None:
    result = model_pb2.ResultDescription(embedding=model_pb2.EmbeddingDescription(output="vector"))
    prediction = filled(model_pb2.ModelDescription(result=result), answer({"vector": [1.5, -2.0]}))
    assert to_array(prediction.embedding.vector, "").tolist() == [1.5, -2.0]


def test_a_model_without_a_result_has_none() -> None:
    assert filled(model_pb2.ModelDescription(), answer({})).WhichOneof("result") is None


def test_sequences_keep_their_order_and_their_reason_to_end() -> None:
    result = model_pb2.ResultDescription(sequence=model_pb2.SequenceDescription(label_set="output"))
    sequences = (
        types.Sequence((4, 1), (-0.5, -0.25), "ja", types.FinishReason.END, -0.375),
        types.Sequence((5,), (-1.0,), "nein", types.FinishReason.LENGTH, -1.0),
    )
    got = filled(model_pb2.ModelDescription(result=result), answer({}, sequences=sequences)).sequences.sequences
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
        result=model_pb2.ResultDescription(
            spans=model_pb2.SpansDescription(start_output="start", end_output="end", label_set="words")
        ),
    )


@pytest.mark.parametrize(
    ("kind", "tensors", "value"),
    [
        (model_pb2.INPUT_KIND_TEXT, ["ids"], Text("in Graz today")),
        (model_pb2.INPUT_KIND_PAIR, ["question", "ids"], Pair("where?", "in Graz today")),
    ],
)
def test_the_best_span_quotes_the_text_and_skips_special_tokens(kind: int, tensors: list[str], value: object) -> None:
    tokens = (
        Token("[CLS]", 0, 0, special=True),
        Token("in", 0, 2),
        Token("Graz", 3, 7),
        Token("today", 8, 13),
    )
    labels = {"words": Labels("words", attention_pb2.LABEL_KIND_TOKENS, 4, tokens)}
    # The highest scores are those of the special token, which is no part of the text.
    one = answer({"start": [9, 0, 5, 0], "end": [9, 0, 5, 4]}, labels)
    spans = filled(spans_description(kind, tensors, "ids"), one, {"input": value}).spans.spans  # type: ignore[dict-item]
    assert [(each.text, each.start, each.end) for each in spans][:2] == [("Graz", 3, 7), ("Graz today", 3, 13)]
    assert len(spans) == 5
    start, end = math.exp(5) / (math.exp(5) + 2), math.exp(5) / (math.exp(5) + 1 + math.exp(4))
    assert spans[0].probability == pytest.approx(start * end, rel=1e-5)


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
