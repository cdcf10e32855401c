"""Predict over a real socket: what it answers is what the graph computes, whoever else is in the batch."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limelight.v1 import service_pb2, values_pb2
from limelight_bundle.wire import to_array, to_tensor
from tests.kit.bundles import LABELS, WORDS
from tests.kit.serving import Running, attend, predict, text

words = st.lists(st.sampled_from(WORDS[4:]), min_size=1, max_size=30).map(" ".join)


def by_hand(running: Running, sentence: str) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """Run the graph itself on one sentence, unpadded."""
    path = f"{running.server.settings.repository}/tiny/1/model.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    ids = np.array([[WORDS.index(word) for word in sentence.split()]])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, {"ids": ids, "mask": np.ones_like(ids, bool)}), strict=True))


def test_an_answer_is_what_the_graph_computes(running: Running) -> None:
    expected = by_hand(running, "the cat sat")
    (prediction,) = running.stub.Predict(predict("tiny", text("the cat sat"))).predictions
    for name in ("logits", "features"):
        np.testing.assert_allclose(to_array(prediction.outputs[name], ""), expected[name][0], rtol=1e-5, atol=1e-5)
    logits = expected["logits"][0].astype(np.float64)
    likely = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    mood, _ = prediction.results
    got = [(each.label, each.index) for each in mood.classification.classes]
    assert (mood.name, got) == ("mood", [(LABELS[index], index) for index in np.argsort(-likely)])
    assert mood.classification.classes[0].probability == pytest.approx(likely.max(), rel=1e-4)


def test_tags_come_in_columns_with_the_label_set_that_they_are_of(running: Running) -> None:
    sentence = "the cat sat on"
    (prediction,) = running.stub.Predict(predict("tiny", text(sentence))).predictions
    words = prediction.results[1]
    tags = by_hand(running, sentence)["tags"][0].astype(np.float64)
    likely = np.exp(tags) / np.exp(tags).sum(axis=-1, keepdims=True)
    order = np.argsort(-likely, axis=-1)
    assert (words.name, words.tagging.label_set, words.tagging.classes_per_entry) == ("words", "tokens", 3)
    assert list(words.tagging.indices) == order.ravel().tolist()
    assert list(words.tagging.labels) == [LABELS[index] for index in order.ravel()]
    np.testing.assert_allclose(
        words.tagging.probabilities, np.take_along_axis(likely, order, axis=-1).ravel(), rtol=1e-4
    )
    (tokens,) = prediction.label_sets
    assert (tokens.name, list(tokens.texts)) == ("tokens", sentence.split())


def test_as_many_classes_come_as_are_asked_for(running: Running) -> None:
    (whole,) = running.stub.Predict(predict("tiny", text("the cat"))).predictions
    for most in (1, 2, 3, 9):
        (some,) = running.stub.Predict(predict("tiny", text("the cat"), max_classes=most)).predictions
        count = min(most, 3)
        assert list(some.results[0].classification.classes) == list(whole.results[0].classification.classes[:count])
        tagging = some.results[1].tagging
        assert tagging.classes_per_entry == count
        assert list(tagging.indices) == [
            index for entry in range(2) for index in whole.results[1].tagging.indices[3 * entry : 3 * entry + count]
        ]


def test_an_answer_says_what_made_it(running: Running) -> None:
    (prediction,) = running.stub.Predict(predict("tiny", text("the cat"))).predictions
    made = prediction.provenance
    assert (made.model.name, made.model.version) == ("tiny", 1)
    described = running.stub.GetModel(service_pb2.GetModelRequest(model=values_pb2.Model(name="tiny")))
    assert made.bundle_digest == described.bundle_digest
    assert (made.provider, made.graph, made.batch_rows) == ("CPUExecutionProvider", "main", 1)
    assert not prediction.HasField("seed")
    for duration in (made.queue_nanoseconds, made.compute_nanoseconds):
        assert 0 < duration < 10e9
    for duration in (made.preprocess_nanoseconds, made.encode_nanoseconds):
        assert 0 < duration < 10e9


def test_only_the_outputs_named_are_sent(running: Running) -> None:
    (prediction,) = running.stub.Predict(predict("tiny", text("the cat"), outputs=["logits"])).predictions
    assert list(prediction.outputs) == ["logits"]
    assert prediction.results[0].classification.classes


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(words, min_size=2, max_size=12))
def test_a_text_gets_the_same_answer_alone_and_among_others(running: Running, sentences: list[str]) -> None:
    together = running.stub.Attend(attend("tiny", *map(text, sentences))).results
    assert len(together) == len(sentences)
    for sentence, among in zip(sentences, together, strict=True):
        (alone,) = running.stub.Attend(attend("tiny", text(sentence))).results
        for name in ("logits", "features"):
            one = to_array(alone.prediction.outputs[name], "")
            np.testing.assert_allclose(to_array(among.prediction.outputs[name], ""), one, rtol=1e-4, atol=1e-5)
        for first, second in zip(alone.maps, among.maps, strict=True):
            np.testing.assert_allclose(to_array(second.weights, ""), to_array(first.weights, ""), atol=1e-5)
        assert list(alone.prediction.label_sets) == list(among.prediction.label_sets)


def test_asking_for_attention_does_not_change_the_prediction(running: Running) -> None:
    sentence = text("a dog ran far .")
    (plain,) = running.stub.Predict(predict("tiny", sentence)).predictions
    (result,) = running.stub.Attend(attend("tiny", sentence)).results
    for name in plain.outputs:
        np.testing.assert_allclose(
            to_array(result.prediction.outputs[name], ""), to_array(plain.outputs[name], ""), rtol=1e-4, atol=1e-5
        )


def test_a_text_over_the_limit_is_cut_when_told_to_and_the_answer_says_so(running: Running) -> None:
    long = text(" ".join(["the cat sat on"] * 20))
    (prediction,) = running.stub.Predict(predict("tiny", long, truncate=True)).predictions
    assert prediction.truncated
    assert list(prediction.outputs["features"].shape) == [32, 4]
    (prediction,) = running.stub.Predict(predict("tiny", text("the cat"), truncate=True)).predictions
    assert not prediction.truncated


def test_tensors_can_be_sent_in_place_of_the_text(running: Running) -> None:
    ids = np.array([WORDS.index(word) for word in ("the", "cat", "sat")])
    instance = values_pb2.Instance(inputs={"ids": values_pb2.Value(tensor=to_tensor(ids))})
    (from_ids,) = running.stub.Predict(predict("tiny", instance)).predictions
    (from_text,) = running.stub.Predict(predict("tiny", text("the cat sat"))).predictions
    assert from_ids.outputs["logits"] == from_text.outputs["logits"]


def test_a_long_request_that_is_prepared_on_another_thread_is_answered_the_same(running: Running) -> None:
    sentences = ["the cat sat on a mat ."] * 40 + ["a dog ran far"]  # over what the event loop prepares itself
    many = running.stub.Predict(predict("tiny", *map(text, sentences)))
    (one,) = running.stub.Predict(predict("tiny", text("a dog ran far"))).predictions
    assert len(many.predictions) == 41
    got = to_array(many.predictions[40].outputs["logits"], "")
    np.testing.assert_allclose(got, to_array(one.outputs["logits"], ""), rtol=1e-4, atol=1e-5)


def test_a_generating_model_answers_predict_with_its_whole_sequence(running: Running) -> None:
    (prediction,) = running.stub.Predict(predict("echo", text("the cat sat"))).predictions
    (sequence,) = prediction.results[0].sequences.sequences
    assert len(sequence.token_ids) == len(sequence.log_probabilities) > 1
    assert sequence.finish_reason == service_pb2.FINISH_REASON_END
    options = service_pb2.GenerationOptions(max_new_tokens=1)
    (prediction,) = running.stub.Predict(predict("echo", text("the cat sat"), generation=options)).predictions
    (short,) = prediction.results[0].sequences.sequences
    assert list(short.token_ids) == [sequence.token_ids[0]]
    assert short.finish_reason == service_pb2.FINISH_REASON_LENGTH


def test_a_sane_request_id_comes_back_and_any_other_is_replaced(running: Running) -> None:
    for sent, kept in (("order-17", True), ("not sane!", False), (None, False)):
        metadata = (("x-request-id", sent),) if sent else ()
        _, call = running.stub.Predict.with_call(predict("tiny", text("the cat")), metadata=metadata)
        identity = dict(call.trailing_metadata())["x-request-id"]
        assert (identity == sent) is kept
        assert identity
