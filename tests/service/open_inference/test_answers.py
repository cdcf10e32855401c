"""One core, two protocols: the same input gets the same answer by both, raw and typed, alone and beside other rows."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.values import Array, TensorValue
from limelight_bundle.wire import to_array, value_to_wire
from limelight_service.open_inference import open_inference_pb2 as pb
from tests.kit import bundles
from tests.kit.serving import Running, attend, predict, text
from tests.service.every_door import DOORS, infer_by
from tests.service.open_inference.calls import infer, infer_request, outputs, strings, texts, unary

SENTENCE = st.lists(st.sampled_from(bundles.WORDS[4:]), min_size=1, max_size=8).map(" ".join)
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def predicted(running: Running, model: str, *instances: values_pb2.Instance) -> list[service_pb2.Prediction]:
    """Ask by limelight.v1."""
    return list(running.stub.Predict(predict(model, *instances), timeout=60).predictions)


def assert_row_is(answer: dict[str, Array], row: int, prediction: service_pb2.Prediction) -> None:
    """Compare a row of raw outputs with those of limelight.v1; what it is filled up with is zeros."""
    for name, tensor in prediction.outputs.items():
        expected = to_array(tensor, name)
        whole = answer[name][row]
        np.testing.assert_allclose(whole[tuple(map(slice, expected.shape))], expected, **CLOSE)
        assert np.count_nonzero(whole) <= np.count_nonzero(expected)


@settings(max_examples=15)
@given(sentences=st.lists(SENTENCE, min_size=1, max_size=4), typed=st.booleans())
def test_texts_get_the_answers_of_the_other_protocol(running: Running, sentences: list[str], typed: bool) -> None:
    answer = infer(running.channel, "tiny", {"text": texts(*sentences)}, typed=typed)
    expected = predicted(running, "tiny", *map(text, sentences))
    assert set(answer) == {
        *("logits", "features", "tags"),
        *("mood", "mood.probability", "words", "words.probability"),
    }
    for row, each in enumerate(expected):
        assert_row_is(answer, row, each)
        classes = each.results[0].classification.classes
        assert [name.decode() for name in answer["mood"][row]] == [one.label for one in classes]
        np.testing.assert_allclose(answer["mood.probability"][row], [one.probability for one in classes], **CLOSE)
        tagging = each.results[1].tagging
        tokens = len(tagging.labels) // tagging.classes_per_entry
        assert [name.decode() for name in answer["words"][row][:tokens].ravel()] == list(tagging.labels)
        assert not answer["words"][row][tokens:].any()
    alone = [infer(running.channel, "tiny", {"text": texts(each)}, typed=not typed) for each in sentences]
    for row, of_one in enumerate(alone):
        for name in ("logits", "mood.probability"):
            np.testing.assert_allclose(answer[name][row], of_one[name][0], **CLOSE)


def test_rows_that_differ_in_size_are_filled_up_and_their_shapes_told(running: Running) -> None:
    request = infer_request("tiny", {"text": texts("the cat sat", "a")}, "features", "logits")
    response = unary(running.channel, "ModelInfer", request, pb.ModelInferResponse)
    features, logits = response.outputs
    assert list(features.shape) == [2, 3, bundles.WIDTH]
    assert json.loads(features.parameters["limelight_shapes"].string_param) == [[3, 4], [1, 4]]
    assert not outputs(response)["features"][1, 1:].any()
    assert "limelight_shapes" not in logits.parameters


def test_tensors_get_the_answers_of_their_text(running: Running) -> None:
    ids = np.stack([bundles.ids_of("the cat sat"), bundles.ids_of("dog ran far")])
    expected = infer(running.channel, "tiny", {"text": texts("the cat sat", "dog ran far")}, "logits")["logits"]
    for typed in (False, True):
        answer = infer(running.channel, "tiny", {"ids": ids}, "logits", typed=typed)
        assert list(answer) == ["logits"]
        np.testing.assert_allclose(answer["logits"], expected, **CLOSE)


def test_documents_are_texts_or_sentences(running: Running) -> None:
    whole = values_pb2.Value(document=values_pb2.Document(text="the cat sat . a dog ran ."))
    sentences = values_pb2.Sentences(texts=["the cat sat .", "a dog ran ."])
    split = values_pb2.Value(document=values_pb2.Document(sentences=sentences))
    instances = [values_pb2.Instance(inputs={"text": each}) for each in (whole, split)]
    of_text, of_sentences = predicted(running, "paper", *instances)
    for shape in ((1,), (1, 1)):
        document = strings([b"the cat sat . a dog ran ."]).reshape(shape)
        assert_row_is(infer(running.channel, "paper", {"text": document}), 0, of_text)
    given = strings([b"the cat sat .", b"a dog ran .", b""]).reshape(1, 3)
    assert_row_is(infer(running.channel, "paper", {"text": given}), 0, of_sentences)


def test_pictures_get_numbers(running: Running) -> None:
    pictures = [bundles.png((np.arange(16).reshape(4, 4) * step).astype(np.uint8)) for step in (15, 7)]
    instances = [values_pb2.Instance(inputs={"image": values_pb2.Value(image=each)}) for each in pictures]
    answer = infer(running.channel, "picture", {"image": strings(pictures)})
    for row, each in enumerate(predicted(running, "picture", *instances)):
        assert_row_is(answer, row, each)
        assert answer["size"][row].tolist() == [one.value for one in each.results[0].regression.numbers]


def test_graphs_come_as_their_tensors(running: Running) -> None:
    graph = bundles.drawn_graph(4, [(0, 1), (1, 2), (2, 0), (3, 3)], seed=1)
    sources, targets = graph.edges.astype(np.int64)
    tensors = {"nodes": graph.nodes, "sources": sources, "targets": targets}
    instance = values_pb2.Instance(inputs={name: value_to_wire(TensorValue(each)) for name, each in tensors.items()})
    answer = infer(running.channel, "web", {name: each[None] for name, each in tensors.items()})
    assert_row_is(answer, 0, predicted(running, "web", instance)[0])


@pytest.mark.parametrize("typed", [False, True])
def test_a_generating_model_answers_with_its_sequence(running: Running, typed: bool) -> None:
    sentences = list(bundles.ECHO_EXAMPLES)
    response = unary(
        running.channel,
        "ModelInfer",
        infer_request("echo", {"text": texts(*sentences)}, typed=typed),
        pb.ModelInferResponse,
    )
    answer = outputs(response)
    for row, each in enumerate(predicted(running, "echo", *map(text, sentences))):
        sequence = each.results[0].sequences.sequences[0]
        (name,) = (result.name for result in each.results)
        assert answer[name][row, 0].decode() == sequence.text
        tokens = len(sequence.token_ids)
        assert answer[f"{name}.token_ids"][row, 0, :tokens].tolist() == list(sequence.token_ids)
        np.testing.assert_allclose(
            answer[f"{name}.log_probabilities"][row, 0, :tokens], sequence.log_probabilities, **CLOSE
        )


def test_generation_follows_its_options_and_its_seed(running: Running) -> None:
    options = {"strategy": "STRATEGY_SAMPLE", "temperature": 2.0, "max_new_tokens": 6}
    parameters = {"limelight_generation": json.dumps(options), "limelight_seed": 7}
    drawn = infer(running.channel, "echo", {"text": texts("the cat", "the cat")}, parameters=parameters)
    generation = service_pb2.GenerationOptions(strategy=service_pb2.STRATEGY_SAMPLE, temperature=2.0, max_new_tokens=6)
    instance = text("the cat")
    instance.seed = 7
    request = predict("echo", instance, generation=generation)
    sequence = running.stub.Predict(request).predictions[0].results[0].sequences.sequences[0]
    name = next(name for name in drawn if name.endswith(".token_ids"))
    for row in range(2):
        assert drawn[name][row, 0, : len(sequence.token_ids)].tolist() == list(sequence.token_ids)


def test_generation_goes_on_behind_a_target(running: Running) -> None:
    ids = np.array([[5, 6]])
    for more, wanted in (({}, 2), ({"continueTarget": True, "maxNewTokens": 3}, 5)):
        parameters = {"limelight_generation": json.dumps(more)}
        found = infer(running.channel, "echo", {"text": texts("the cat"), "target_ids": ids}, parameters=parameters)
        tokens = next(found[name] for name in found if name.endswith(".token_ids"))[0, 0].tolist()
        assert tokens[:2] == [5, 6] and 2 <= len(tokens) <= wanted and (len(tokens) > 2) is bool(more)


def test_an_answer_says_what_made_it(running: Running) -> None:
    request = infer_request("tiny", {"text": texts("the cat")}, "logits", id="mine", model_version="1")
    response = unary(running.channel, "ModelInfer", request, pb.ModelInferResponse)
    provenance = predicted(running, "tiny", text("the cat"))[0].provenance
    assert (response.model_name, response.model_version, response.id) == ("tiny", "1", "mine")
    assert response.parameters["limelight_digest"].string_param == provenance.bundle_digest
    assert response.parameters["limelight_provider"].string_param == provenance.provider
    assert response.parameters["limelight_batch_rows"].int64_param == 1


def test_texts_over_the_limit_are_cut_where_that_is_asked_for(running: Running) -> None:
    long = texts("cat " * 40, "cat")
    request = infer_request("tiny", {"text": long}, "logits", parameters={"limelight_truncate": True})
    response = unary(running.channel, "ModelInfer", request, pb.ModelInferResponse)
    assert json.loads(response.parameters["limelight_truncated"].string_param) == [True, False]


@settings(max_examples=15)
@given(
    sentences=st.lists(SENTENCE, min_size=1, max_size=3),
    heads=st.sampled_from([[], [0], [-1], [0, 1]]),
    queries=st.sampled_from([[], [0], [0, -1]]),
    keys=st.sampled_from([[], [-1]]),
    typed=st.booleans(),
)
def test_maps_are_those_of_attend(
    running: Running, sentences: list[str], heads: list[int], queries: list[int], keys: list[int], typed: bool
) -> None:
    given_ = {"heads": heads, "queries": queries, "keys": keys}
    parameters = {f"limelight_{name}": ",".join(map(str, each)) for name, each in given_.items() if each}
    output = ("encoder.0.self", parameters)
    answer = infer(running.channel, "tiny", {"text": texts(*sentences)}, output, typed=typed)
    assert set(answer) == {"encoder.0.self"}
    selection = attention_pb2.MapSelection(names=["encoder.0.self"], **given_)
    attended = running.stub.Attend(attend("tiny", *map(text, sentences), selections=[selection]), timeout=60)
    for row, each in enumerate(attended.results):
        weights = to_array(each.maps[0].weights, "weights")
        found = answer["encoder.0.self"][row]
        np.testing.assert_allclose(found[tuple(map(slice, weights.shape))], weights, **CLOSE)
        assert np.count_nonzero(found) <= np.count_nonzero(weights)


NAMED = [(), ("logits", "mood"), ("encoder.0.self", "tokens.labels"), (("pool", {"limelight_heads": 0}), "features")]
PARAMETERS: list[dict[str, Any]] = [{}, {"limelight_max_classes": 2}, {"limelight_truncate": True}]


@settings(max_examples=15)
@given(
    sentences=st.lists(SENTENCE, min_size=1, max_size=3),
    named=st.sampled_from(NAMED),
    parameters=st.sampled_from(PARAMETERS),
)
def test_rest_answers_as_grpc(
    running: Running, sentences: list[str], named: tuple[Any, ...], parameters: dict[str, Any]
) -> None:
    request = infer_request("tiny", {"text": texts(*sentences)}, *named, parameters=parameters, id="mine")
    request.model_version = "1"
    by_grpc, by_rest = (infer_by(running, door, request) for door in DOORS)
    for name in ("model_name", "model_version"):
        assert by_rest[name] == getattr(by_grpc, name)
    expected = outputs(by_grpc)
    assert [each["name"] for each in by_rest["outputs"]] == list(expected)
    for each in by_rest["outputs"]:
        found, wanted = np.array(each["data"]).reshape(each["shape"]), expected[each["name"]]
        if wanted.dtype == object:
            assert [text.encode() for text in found.ravel()] == wanted.ravel().tolist()
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


def test_options_of_maps_are_those_of_attend(running: Running) -> None:
    sentence = "the dog ran far on a mat"
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"limelight_top_k": 2}, {"top_k": 2}),
        ({"limelight_encoding": "uint8"}, {"encoding": attention_pb2.ENCODING_UINT8}),
        ({"limelight_encoding": "float16"}, {"encoding": attention_pb2.ENCODING_FLOAT16}),
        ({"limelight_reduce_heads": "mean"}, {"reduce_heads": attention_pb2.HEAD_REDUCTION_MEAN}),
        ({"limelight_quantity": "scores"}, {"quantity": attention_pb2.QUANTITY_SCORES}),
        ({"limelight_pool": 3}, {"pool": attention_pb2.Pool(size=3)}),
        ({"limelight_attention": '{"pool": {"size": 3}}'}, {"pool": attention_pb2.Pool(size=3)}),
        (
            {"limelight_attention": '{"keyGroups": [{"groups": [{"name": "both", "indices": [0, -1]}]}]}'},
            {"key_groups": [attention_pb2.Grouping(groups=[values_pb2.Group(name="both", indices=[0, -1])])]},
        ),
    ]
    selection = attention_pb2.MapSelection(names=["encoder.1.self"])
    for parameters, options in cases:
        answer = infer(
            running.channel, "tiny", {"text": texts(sentence)}, "encoder.1.self", parameters=parameters, typed=True
        )
        expected = running.stub.Attend(attend("tiny", text(sentence), selections=[selection], **options)).results[0]
        found = expected.maps[0]
        for name, field in (
            ("encoder.1.self", "weights"),
            ("encoder.1.self.key_index", "key_index"),
            ("encoder.1.self.scales", "scales"),
            ("encoder.1.self.left_out", "left_out"),
        ):
            assert (name in answer) == found.HasField(field), (parameters, name)  # type: ignore[arg-type]
            if name in answer:
                np.testing.assert_allclose(
                    answer[name][0], to_array(getattr(found, field), field), rtol=1e-3, atol=1e-4
                )


def test_a_rollout_takes_the_place_of_the_maps_of_its_stack(running: Running) -> None:
    options = {"limelight_attention": '{"rollout": true}'}
    named = ("encoder.0.self", "encoder.1.self", "pool")
    answer = infer(running.channel, "tiny", {"text": texts("the cat sat")}, *named, parameters=options)
    selection = attention_pb2.MapSelection(names=named)
    attended = running.stub.Attend(attend("tiny", text("the cat sat"), selections=[selection], rollout=True))
    assert list(answer) == [each.name for each in attended.results[0].maps] == ["encoder.rollout", "pool"]
    rolled = to_array(attended.results[0].maps[0].weights, "weights")
    np.testing.assert_allclose(answer["encoder.rollout"][0], rolled, **CLOSE)


def test_edges_come_dense_with_the_texts_of_their_axes(running: Running) -> None:
    document = "the cat sat . a dog ran far ."
    answer = infer(
        running.channel, "paper", {"text": texts(document)}, "word", "words.labels", "sentences.labels", "sentence"
    )
    instance = values_pb2.Instance(inputs={"text": values_pb2.Value(document=values_pb2.Document(text=document))})
    word, sentence = running.stub.Attend(attend("paper", instance)).results[0].maps
    assert [each.decode() for each in answer["words.labels"][0]] == document.split()
    weights = to_array(word.weights, "weights")
    dense = np.zeros((1, 2, 9), np.float32)
    dense[:, to_array(word.query_index, "q"), to_array(word.key_index, "k")] = weights
    np.testing.assert_allclose(answer["word"][0], dense, **CLOSE)
    np.testing.assert_allclose(answer["sentence"][0], to_array(sentence.weights, "w"), **CLOSE)
    assert answer["sentences.labels"].shape == (1, 2)
    part = ("word", {"limelight_queries": 1, "limelight_keys": "-1,-2"})
    cut = infer(running.channel, "paper", {"text": texts(document)}, part)["word"]
    np.testing.assert_allclose(cut[0], dense[:, 1:, -2:], **CLOSE)


def test_a_call_without_outputs_has_no_map_and_parameters_of_maps_count_for_all(running: Running) -> None:
    usual = infer(running.channel, "tiny", {"text": texts("the cat")})
    assert not [name for name in usual if name in ("encoder.0.self", "encoder.1.self", "pool")]
    both = infer(
        running.channel,
        "tiny",
        {"text": texts("the cat sat")},
        "encoder.0.self",
        ("encoder.1.self", {"limelight_heads": 0}),
        "logits",
        parameters={"limelight_heads": "0,1", "limelight_queries": -1},
    )
    assert list(both) == ["encoder.0.self", "encoder.1.self", "logits"]
    assert both["encoder.0.self"].shape == (1, 2, 1, 3)
    assert both["encoder.1.self"].shape == (1, 1, 1, 3)
