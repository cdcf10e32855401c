"""Attend over a real socket: maps are the graph's own weights, in the part and the form asked for."""

import math
from io import BytesIO
from typing import Any

import grpc
import numpy as np
import pytest
from PIL import Image

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.wire import instance_to_wire, to_array
from limelight_service.frontend import sizes
from tests.kit import bundles
from tests.kit.serving import Running, attend, generate, predict, refusal, text
from tests.service.frontend.test_predict import by_hand

SENTENCE = "the cat sat on a mat"


def maps(
    running: Running, model: str, instance: values_pb2.Instance, **options: object
) -> dict[str, attention_pb2.AttentionMap]:
    (result,) = running.stub.Attend(attend(model, instance, **options)).results
    return {each.name: each for each in result.maps}


def label_sets(result: service_pb2.Attended) -> dict[str, attention_pb2.LabelSet]:
    return {each.name: each for each in result.prediction.label_sets}


def sequences(prediction: service_pb2.Prediction) -> list[service_pb2.Sequence]:
    (result,) = prediction.results
    return list(result.sequences.sequences)


def weights(one: attention_pb2.AttentionMap) -> np.ndarray:  # type: ignore[type-arg]
    return to_array(one.weights, "")


def test_every_map_is_the_graphs_own(running: Running) -> None:
    expected = by_hand(running, SENTENCE)
    got = maps(running, "tiny", text(SENTENCE))
    assert list(got) == ["encoder.0.self", "encoder.1.self", "pool"]
    for layer in (0, 1):
        one = got[f"encoder.{layer}.self"]
        np.testing.assert_allclose(weights(one), expected[f"attention{layer}"][0], atol=1e-6)
        assert (one.stack, one.layer, list(one.heads)) == ("encoder", layer, [0, 1])
        np.testing.assert_allclose(weights(one).sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(weights(got["pool"]), expected["pooled"].reshape(1, 1, 6), atol=1e-6)
    assert not got["pool"].HasField("layer")


def test_each_label_set_that_a_map_refers_to_is_there_once(running: Running) -> None:
    (result,) = running.stub.Attend(attend("tiny", text(SENTENCE))).results
    sets = label_sets(result)
    assert len(result.prediction.label_sets) == len(sets) == 3
    tokens = sets["tokens"]
    assert list(tokens.texts) == SENTENCE.split()
    assert [SENTENCE[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True)] == SENTENCE.split()
    assert list(tokens.ids) == bundles.ids_of(SENTENCE).tolist()
    assert (list(tokens.inputs), list(tokens.special)) == (["text"], [])
    assert list(sets["sides"].texts) == ["left", "right"]
    (result,) = running.stub.Attend(attend("tiny", text(SENTENCE), selections=[{"names": ["encoder.*"]}])).results
    assert set(label_sets(result)) == {"tokens", "sides"}


def test_a_selection_is_a_part_of_the_whole(running: Running) -> None:
    whole = maps(running, "tiny", text(SENTENCE))
    part = maps(
        running, "tiny", text(SENTENCE), selections=[{"layers": [-1], "heads": [-1], "queries": [0, -1], "keys": [1]}]
    )
    assert list(part) == ["encoder.1.self"]
    one = part["encoder.1.self"]
    assert (list(one.heads), list(one.queries), list(one.keys)) == ([1], [0, 5], [1])
    np.testing.assert_allclose(weights(one), weights(whole["encoder.1.self"])[1:, [0, 5]][:, :, [1]], atol=1e-6)


def test_reduction_rollout_and_top_k_follow_from_the_whole(running: Running) -> None:
    whole = maps(running, "tiny", text(SENTENCE), selections=[{"names": ["encoder.*"]}])
    layers = [weights(one).astype(np.float64) for one in whole.values()]
    mean = maps(running, "tiny", text(SENTENCE), reduce_heads=attention_pb2.HEAD_REDUCTION_MEAN)["encoder.0.self"]
    np.testing.assert_allclose(weights(mean), layers[0].mean(axis=0, keepdims=True), atol=1e-6)
    assert (list(mean.heads), mean.head_reduction) == ([0, 1], attention_pb2.HEAD_REDUCTION_MEAN)
    most = maps(running, "tiny", text(SENTENCE), reduce_heads=attention_pb2.HEAD_REDUCTION_MAX)["encoder.0.self"]
    np.testing.assert_allclose(weights(most), layers[0].max(axis=0, keepdims=True), atol=1e-6)
    rolled = maps(running, "tiny", text(SENTENCE), rollout=True)
    assert list(rolled) == ["encoder.rollout", "pool"]
    steps = [0.5 * layer.mean(axis=0) + 0.5 * np.eye(6) for layer in layers]
    np.testing.assert_allclose(weights(rolled["encoder.rollout"])[0], steps[1] @ steps[0], atol=1e-5)
    best = maps(running, "tiny", text(SENTENCE), top_k=1)["encoder.0.self"]
    np.testing.assert_array_equal(to_array(best.key_index, "")[:, :, 0], layers[0].argmax(axis=2))
    np.testing.assert_allclose(weights(best)[:, :, 0], layers[0].max(axis=2), atol=1e-6)
    assert not best.HasField("query_index")


@pytest.mark.parametrize(
    ("encoding", "error"),
    [(attention_pb2.ENCODING_FLOAT16, 1e-3), (attention_pb2.ENCODING_UINT8, 1 / 500)],
)
def test_a_smaller_encoding_is_near_the_whole(running: Running, encoding: int, error: float) -> None:
    whole = maps(running, "tiny", text(SENTENCE))
    for name, one in maps(running, "tiny", text(SENTENCE), encoding=encoding).items():
        values = weights(one).astype(np.float64)
        if encoding == attention_pb2.ENCODING_UINT8:
            values = values * to_array(one.scales, "")[:, :, np.newaxis]
        assert np.abs(values - weights(whole[name])).max() <= error


@pytest.mark.parametrize("split_by", ["server", "caller"])
def test_words_in_sentences_come_as_edges(running: Running, split_by: str) -> None:
    sentences = ["the cat sat .", "a dog"]
    document = (
        values_pb2.Document(text=" ".join(sentences))
        if split_by == "server"
        else values_pb2.Document(sentences=values_pb2.Sentences(texts=sentences))
    )
    instance = values_pb2.Instance(inputs={"text": values_pb2.Value(document=document)})
    (result,) = running.stub.Attend(attend("paper", instance)).results
    word, sentence = result.maps
    assert to_array(word.query_index, "").tolist() == [0, 0, 0, 0, 1, 1]
    assert to_array(word.key_index, "").tolist() == [0, 1, 2, 3, 4, 5]
    values = weights(word)[0]
    np.testing.assert_allclose([values[:4].sum(), values[4:].sum()], 1, atol=1e-5)
    assert list(sentence.weights.shape) == [1, 1, 2]
    sets = label_sets(result)
    assert list(sets["words"].parents) == [0, 0, 0, 0, 1, 1]
    assert sets["words"].parent == "sentences"
    last = maps(running, "paper", instance, selections=[{"names": ["word"], "queries": [-1]}])["word"]
    np.testing.assert_allclose(weights(last)[0], values[4:], atol=1e-6)


def test_keys_are_summed_over_parts_of_the_text(running: Running) -> None:
    whole = maps(running, "tiny", text(SENTENCE))
    groups = [
        {"name": "the cat", "spans": [{"start": 0, "end": 7}]},
        {"name": "last", "indices": [-1]},
        {"name": "all", "inputs": ["text"]},
    ]
    (result,) = running.stub.Attend(attend("tiny", text(SENTENCE), key_groups=[{"groups": groups}])).results
    for one in result.maps:
        values = weights(whole[one.name])
        expected = np.stack([values[:, :, :2].sum(axis=2), values[:, :, 5], values.sum(axis=2)], axis=2)
        np.testing.assert_allclose(weights(one), expected, atol=1e-6)
        assert (one.key_labels, one.normalised) == ("tokens.key_groups", False)
        assert one.query_labels in ("tokens", "one")
    made = label_sets(result)["tokens.key_groups"]
    assert (made.kind, made.parent, made.size) == (attention_pb2.LABEL_KIND_GROUPS, "tokens", 3)
    assert list(made.texts) == ["the cat", "last", "all"]
    assert "tokens" in label_sets(result)


def test_queries_are_averaged_over_words_of_a_sentence_that_was_sent(running: Running) -> None:
    document = values_pb2.Document(sentences=values_pb2.Sentences(texts=["the cat sat .", "a dog"]))
    instance = values_pb2.Instance(inputs={"text": values_pb2.Value(document=document)})
    whole = weights(maps(running, "paper", instance)["word"])[0]
    dog = {"name": "dog", "spans": [{"start": 2, "end": 5, "sentence": 1}]}
    both = {"name": "either", "ranges": [{}]}
    grouped = maps(
        running,
        "paper",
        instance,
        selections=[{"names": ["word"]}],
        key_groups=[{"groups": [dog], "label_set": "words"}],
        query_groups=[{"groups": [both], "label_set": "sentences"}],
    )["word"]
    np.testing.assert_allclose(weights(grouped), [[[whole[5] / 2]]], atol=1e-6)
    assert not grouped.query_index.data  # a map of edges became a rectangle


def test_a_pooled_map_is_a_small_picture_of_the_whole(running: Running) -> None:
    long = " ".join(["the cat sat on"] * 5)
    whole = weights(maps(running, "tiny", text(long))["encoder.0.self"])
    (result,) = running.stub.Attend(attend("tiny", text(long), pool={"size": 5}, top_k=2)).results
    (result_whole,) = running.stub.Attend(attend("tiny", text(long), pool={"size": 5})).results
    mean = maps(running, "tiny", text(long), pool={"size": 5, "reduction": attention_pb2.POOL_REDUCTION_MEAN})
    np.testing.assert_allclose(
        weights(mean["encoder.0.self"]), whole.reshape(2, 5, 4, 5, 4).mean(axis=(2, 4)), atol=1e-6
    )
    pooled = result_whole.maps[0]
    cells = whole.reshape(2, 5, 4, 5, 4).max(axis=(2, 4))
    np.testing.assert_allclose(weights(pooled), cells, atol=1e-6)
    assert (pooled.query_labels, pooled.key_labels) == ("tokens.query_ranges", "tokens.key_ranges")
    made = label_sets(result_whole)["tokens.key_ranges"]
    assert (made.kind, made.parent) == (attention_pb2.LABEL_KIND_RANGES, "tokens")
    assert [list(made.starts), list(made.ends)] == [[0, 4, 8, 12, 16], [4, 8, 12, 16, 20]]
    cut = result.maps[0]
    assert weights(cut).shape == (2, 5, 2)
    rows = weights(cut).sum(axis=2) + to_array(cut.left_out, "")
    np.testing.assert_allclose(rows, cells.sum(axis=2), atol=1e-5)


@pytest.mark.parametrize(
    ("quantity", "name"), [(attention_pb2.QUANTITY_SCORES, "scores"), (attention_pb2.QUANTITY_NORMS, "norms")]
)
def test_scores_and_norms_are_the_models_own(running: Running, quantity: int, name: str) -> None:
    layers = bundles.tiny_layers(bundles.ids_of(SENTENCE))[1]
    got = maps(running, "tiny", text(SENTENCE), quantity=quantity)
    assert list(got) == ["encoder.0.self", "encoder.1.self"]  # the pooled map has weights alone
    for layer, one in enumerate(got.values()):
        np.testing.assert_allclose(weights(one), layers[layer][name], rtol=1e-4, atol=1e-5)
        signed = name == "scores"
        assert (one.quantity, one.signed, one.normalised, one.head_labels) == (quantity, signed, False, "sides")


def test_the_maps_of_other_beams_come_with_their_own_steps(running: Running) -> None:
    ids = bundles.ids_of("the cat sat")
    generation = service_pb2.GenerationOptions(strategy=service_pb2.STRATEGY_BEAM, beams=4, hypotheses=3)
    request = attend("echo", text("the cat sat"), sequences=3, query_groups=FIRST_STEP)
    request.generation.CopyFrom(generation)
    (result,) = running.stub.Attend(request).results
    found = sequences(result.prediction)
    assert [each.sequence for each in result.other_sequences] == [1, 2]
    assert [each.name for each in result.maps] == ["encoder.0.self", "decoder.0.cross", "decoder.0.self"]
    for other in result.other_sequences:
        tokens = list(found[other.sequence].token_ids)
        assert [each.name for each in other.maps] == ["decoder.0.cross", "decoder.0.self"]
        expected = bundles.echo_maps(ids, tokens)
        for one in other.maps:
            np.testing.assert_allclose(weights(one), expected[one.name].weights[:, :1], atol=1e-5)
        assert [each.name for each in other.label_sets] == ["output", "input", "output.query_groups"]
        assert list(other.label_sets[0].ids) == tokens
        assert list(other.label_sets[1].ids) == [bundles.BEGIN, *tokens][:-1]
    request.attention.sequences = 0
    assert not running.stub.Attend(request).results[0].other_sequences


def test_a_step_that_the_output_lacks_is_told_with_its_field(running: Running) -> None:
    names = ["decoder.0.cross"]
    (short,) = running.stub.Attend(attend("echo", text("the cat sat"))).results
    steps = len(sequences(short.prediction)[0].token_ids)
    request = attend("echo", *[text("the cat sat")] * 3, selections=[{"names": names, "queries": [0, steps]}])
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.Attend(request)
    told = refusal(caught.value)
    assert (told.code, told.field) == ("INVALID_ARGUMENT", "attention.selections[0].queries[1]")
    assert f"there are {steps} queries of decoder.0.cross" in told.message
    request.attention.selections[0].queries[:] = [0, steps - 1]
    assert len(running.stub.Attend(request).results) == 3


FIRST_STEP = [{"groups": [{"name": "first", "indices": [0]}], "label_set": "output"}]


def test_a_stream_sums_over_parts_of_the_source(running: Running) -> None:
    groups = [{"name": "the cat", "spans": [{"end": 7}]}, {"name": "sat", "indices": [2]}]
    request = service_pb2.GenerateRequest(
        model=values_pb2.Model(name="echo"),
        instance=text("the cat sat"),
        attention=attention_pb2.AttentionOptions(
            selections=[attention_pb2.MapSelection(names=["decoder.0.cross"])],
            key_groups=[attention_pb2.Grouping(groups=groups)],
        ),
    )
    start, *tokens, _ = running.stub.Generate(request)
    assert [each.name for each in start.start.label_sets] == ["output", "tokens", "tokens.key_groups"][1:]
    (result,) = running.stub.Attend(attend("echo", text("the cat sat"))).results
    cross = weights(result.maps[1])
    for place, each in enumerate(tokens):
        (one,) = each.token.maps
        row = cross[:, place : place + 1]
        expected = np.stack([row[:, :, :2].sum(axis=2), row[:, :, 2]], axis=2)
        np.testing.assert_allclose(weights(one), expected, atol=1e-6)
        assert (one.key_labels, list(one.queries), one.normalised) == ("tokens.key_groups", [place], True)


def test_nodes_of_a_graph_are_grouped(running: Running) -> None:
    graph = bundles.drawn_graph(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], seed=3)
    instance = instance_to_wire({"graph": graph})
    (result,) = running.stub.Attend(attend("web", instance)).results
    (edges,) = result.maps
    dense = np.zeros((2, 4, 4))
    dense[:, to_array(edges.query_index, ""), to_array(edges.key_index, "")] = weights(edges)
    groups = [{"name": "ends", "indices": [0, -1]}, {"name": "rest", "ranges": [{"start": 1, "end": 3}]}]
    (grouped,) = maps(running, "web", instance, key_groups=[{"groups": groups}]).values()
    expected = np.stack([dense[:, :, [0, 3]].sum(axis=2), dense[:, :, 1:3].sum(axis=2)], axis=2)
    np.testing.assert_allclose(weights(grouped), expected, atol=1e-6)
    assert grouped.normalised


def test_an_images_patches_are_cells_of_a_grid(running: Running) -> None:
    buffer = BytesIO()
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) * 16).save(buffer, "PNG")
    instance = values_pb2.Instance(inputs={"image": values_pb2.Value(image=buffer.getvalue())})
    (result,) = running.stub.Attend(attend("picture", instance)).results
    grid = label_sets(result)["patches"]
    assert (grid.grid.rows, grid.grid.columns, grid.size) == (2, 2, 4)
    assert list(result.maps[0].weights.shape) == [1, 1, 4]
    (numbers,) = result.prediction.results
    got = [(each.name, each.unit) for each in numbers.regression.numbers]
    assert (numbers.name, got) == ("size", list(bundles.TARGETS))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pool": {"size": 12}},
        {"quantity": attention_pb2.QUANTITY_SCORES, "selections": [{"layers": [0]}]},
        {"key_groups": [{"groups": [{"name": f"group {place}", "indices": [place]} for place in range(20)]}]},
    ],
)
def test_the_size_that_is_refused_is_near_the_size_that_is_sent(running: Running, options: dict[str, Any]) -> None:
    request = attend("tiny", text(" ".join(["the cat"] * 16)), outputs=("logits",), **options)
    size = running.stub.Attend(request).ByteSize()
    request.attention.max_response_bytes = math.ceil(1.1 * size) + 1500
    assert running.stub.Attend(request).ByteSize() == pytest.approx(size, rel=0.01)


def test_an_answer_that_turns_out_larger_than_foreseen_is_refused(
    one_process: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = attend("tiny", text(SENTENCE))
    request.attention.max_response_bytes = one_process.stub.Attend(request).ByteSize() - 16  # times vary in length
    monkeypatch.setattr(sizes.AnswerSizes, "checked", lambda *_: 0)
    with pytest.raises(grpc.RpcError) as caught:
        one_process.stub.Attend(request)
    told = refusal(caught.value)
    assert (told.code, told.field) == ("RESOURCE_EXHAUSTED", "instances")
    assert f"at most {request.attention.max_response_bytes} are allowed" in told.message


def test_attend_on_a_generating_model_has_a_query_for_each_token(running: Running) -> None:
    (result,) = running.stub.Attend(attend("echo", text("the cat sat"))).results
    (sequence,) = sequences(result.prediction)
    source, cross, own = result.maps
    assert list(source.weights.shape) == [1, 3, 3]
    assert list(cross.weights.shape) == [1, len(sequence.token_ids), 3]
    assert list(own.weights.shape) == [1, len(sequence.token_ids), len(sequence.token_ids)]
    output = label_sets(result)["output"]
    assert list(output.ids) == list(sequence.token_ids)
    put_in = label_sets(result)["input"]
    assert (put_in.kind, own.key_labels) == (attention_pb2.LABEL_KIND_INPUT_STEPS, "input")
    assert list(put_in.ids) == [bundles.BEGIN, *sequence.token_ids][:-1]
    assert list(put_in.texts) == ["[BEGIN]", *output.texts][:-1]
    assert put_in.special[0] and not any(put_in.special[1:])


def test_generate_streams_a_start_a_message_a_token_and_an_end(running: Running) -> None:
    request = service_pb2.GenerateRequest(
        model=values_pb2.Model(name="echo"), instance=text("the cat sat"), attention=attention_pb2.AttentionOptions()
    )
    start, *tokens, end = running.stub.Generate(request)
    assert [(each.name, each.size) for each in start.start.label_sets] == [("tokens", 3), ("input", 1)]
    assert list(start.start.label_sets[1].ids) == [bundles.BEGIN]
    assert not start.start.HasField("seed")
    (result,) = running.stub.Attend(attend("echo", text("the cat sat"))).results
    (sequence,) = sequences(result.prediction)
    assert [each.token.id for each in tokens] == list(sequence.token_ids)
    assert [each.token.index for each in tokens] == list(range(len(tokens)))
    assert list(end.end.sequences) == [sequence]
    assert end.end.label_set.size == len(tokens)
    rows = [to_array(each.token.maps[0].weights, "") for each in tokens]
    np.testing.assert_allclose(np.concatenate(rows, axis=1), to_array(result.maps[1].weights, ""), atol=1e-6)
    assert [list(each.token.maps[0].queries) for each in tokens] == [[index] for index in range(len(tokens))]
    assert end.end.provenance.model.name == "echo"


def test_generate_without_attention_sends_none(running: Running) -> None:
    request = generate("echo", text("the cat sat"))
    start, *tokens, _ = running.stub.Generate(request)
    assert not start.start.label_sets
    assert tokens and not any(each.token.maps for each in tokens)


def test_beam_search_sends_hypotheses_and_the_best_ones_maps_at_the_end(running: Running) -> None:
    request = service_pb2.GenerateRequest(
        model=values_pb2.Model(name="echo"),
        instance=text("the cat sat"),
        generation=service_pb2.GenerationOptions(strategy=service_pb2.STRATEGY_BEAM, beams=3, hypotheses=2),
        attention=attention_pb2.AttentionOptions(),
    )
    start, end = running.stub.Generate(request)
    assert start.WhichOneof("event") == "start"
    first, second = end.end.sequences
    assert first.score >= second.score
    _, cross, own = end.end.maps
    assert cross.weights.shape[1] == own.weights.shape[1] == own.weights.shape[2] == len(first.token_ids)


def test_a_seed_gives_the_same_sample_again_and_a_fresh_one_is_told(running: Running) -> None:
    def sample(seed: int | None) -> tuple[int, list[int]]:
        instance = text("the cat sat")
        if seed is not None:
            instance.seed = seed
        request = service_pb2.GenerateRequest(
            model=values_pb2.Model(name="echo"),
            instance=instance,
            generation=service_pb2.GenerationOptions(strategy=service_pb2.STRATEGY_SAMPLE, temperature=5.0),
        )
        start, *events = running.stub.Generate(request)
        assert start.start.HasField("seed")
        return start.start.seed, [each.token.id for each in events if each.HasField("token")]

    assert sample(1) == sample(1)
    fresh = [sample(None) for _ in range(8)]
    assert len({seed for seed, _ in fresh}) == 8
    assert len({tuple(tokens) for _, tokens in fresh}) > 1
    for seed, tokens in fresh:
        assert sample(seed) == (seed, tokens)


def test_what_is_not_said_is_the_default_and_a_zero_is_none(running: Running) -> None:
    def tokens(**options: Any) -> list[int]:
        request = predict("echo", text("the cat sat"), generation=service_pb2.GenerationOptions(**options))
        request.instances[0].seed = 1
        return list(sequences(running.stub.Predict(request).predictions[0])[0].token_ids)

    def score(**options: Any) -> float:
        beams = {"strategy": service_pb2.STRATEGY_BEAM, "hypotheses": 1, **options}
        request = predict("echo", text("the cat sat"), generation=service_pb2.GenerationOptions(**beams))
        return float(sequences(running.stub.Predict(request).predictions[0])[0].score)

    greedy, sampled = tokens(), {"strategy": service_pb2.STRATEGY_SAMPLE, "temperature": 5.0}
    assert tokens(strategy=service_pb2.STRATEGY_GREEDY) == greedy == tokens(max_new_tokens=10**6)
    assert tokens(**sampled) != greedy
    assert tokens(**sampled | {"temperature": 0.0}) == greedy == tokens(**sampled, top_p=0.0)
    assert tokens(**sampled, max_new_tokens=2) == tokens(**sampled)[:2]
    assert score() == score(length_penalty=1.0, beams=4) != score(length_penalty=0.0)


def test_what_a_seed_draws_depends_on_no_other_instance_and_on_no_place(running: Running) -> None:
    generation = service_pb2.GenerationOptions(strategy=service_pb2.STRATEGY_SAMPLE, temperature=3.0)
    instances = [text(words) for words in ("the cat sat", "a dog ran far", "the cat sat", "mat")]
    for seed, instance in zip((7, 8, 7, 9), instances, strict=True):
        instance.seed = seed
    together = running.stub.Predict(predict("echo", *instances, generation=generation)).predictions
    backwards = running.stub.Predict(predict("echo", *instances[::-1], generation=generation)).predictions[::-1]
    for instance, one, other in zip(instances, together, backwards, strict=True):
        (alone,) = running.stub.Predict(predict("echo", instance, generation=generation)).predictions
        tokens = {tuple(sequences(each)[0].token_ids) for each in (one, other, alone)}
        assert len(tokens) == 1
        assert one.seed == alone.seed == instance.seed
    assert list(sequences(together[0])[0].token_ids) == list(sequences(together[2])[0].token_ids)
