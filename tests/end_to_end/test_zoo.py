"""The published models from PyTorch to a socket: what is served is what PyTorch answers, whatever shares the batch.

Every published model is exported and served as its examples make it, and every variant that has a part which its model
has not.
"""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import limelight
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample, read_samples
from limelight_bundle.tolerance import Tolerances, default_tolerances
from limelight_bundle.values import Array, Audio, Graph, Image, Instance, Pair, Sentences, TensorValue, Text, Value
from limelight_export.errors import ExportError
from limelight_export.verification.samples import make_samples
from limelight_models.cards.card import TrainedModel
from limelight_models.data import rows
from limelight_models.index import recipe
from tests.kit import examples, small
from tests.kit.exports import export_model
from tests.kit.serving import serving
from tests.kit.small import PUBLISHED

# Every model is exported first: a minute on an idle machine, much more on a busy one.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
WRITING = [name for name in PUBLISHED if recipe(name).data is rows.PAIRS]  # they put out a text, from one


@dataclass(frozen=True)
class Served:
    """A server with every model, the models in PyTorch, and their bundles."""

    client: limelight.Client
    trained: dict[str, TrainedModel]
    bundles: dict[str, BundleFolder]

    def of(self, model: str) -> list[str]:
        """A published model and those of its variants that are served."""
        return list(small.unlike(model))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = tmp_path_factory.mktemp("zoo")
    trained, bundles = {}, {}
    for model in PUBLISHED:
        for name in small.unlike(model):
            trained[name] = small.telling(name)
            bundles[name] = export_model(trained[name], repository)
    with serving(repository, lanes=2) as running, limelight.Client(running.server.address) as client:
        yield Served(client, trained, bundles)


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_bundle_has_maps_as_large_as_what_they_look_at_and_equals_pytorch(model: str, served: Served) -> None:
    """Over the socket, every variant; rows of what is normalised sum to 1, or see nothing."""
    for name in served.of(model):
        folder = served.bundles[name]
        described = {each.name: each for each in folder.bundle.description.maps}
        assert all(each.absolute < 1e-4 for each in folder.bundle.parity)
        answers = ask(served.client, name, served.trained[name].examples)
        for answer, sample in zip(answers, read_samples(folder), strict=True):
            assert {each.partition(":")[0] for each in sample.maps} == set(described)
            assert difference(answer, sample) == ""
            for each in answer.maps:
                shape = each.dense().shape
                assert shape[:3] == (described[each.name].heads, len(each.query), len(each.key))
                assert shape[3:] == ((described[each.name].features,) if described[each.name].features else ())
                sums = each.dense().sum(axis=2)
                if each.normalised:
                    assert np.all(np.isclose(sums, 1, atol=1e-5) | (sums == 0))
                    assert np.any(sums) == bool(each.weights.size)  # a graph may have no edge
                assert each.signed or np.all(each.weights >= 0)


def pytorch(trained: TrainedModel, instances: Sequence[Instance]) -> list[Sample]:
    """Let PyTorch answer each instance alone."""
    asked = replace(trained, model=trained.model.eval(), examples=tuple(instances))
    return make_samples(asked)


def ask(client: limelight.Client, name: str, instances: Sequence[Instance]) -> list[limelight.Attended]:
    """Ask the server for all in one call."""
    sent = [{key: plain(value) for key, value in each.items()} for each in instances]
    if not client.model(name).maps:  # a variant without attention
        return [limelight.Attended(prediction=each, maps=()) for each in client.predict(name, sent)]
    return client.attend(name, sent)


def plain(value: Value) -> str | list[str] | bytes | limelight.Pair | limelight.Graph | Array:
    """A value as a caller of the client writes it."""
    match value:
        case Text(text):
            return text
        case Sentences(texts):
            return list(texts)
        case Image(data) | Audio(bytes() as data):
            return data
        case Pair(first, second):
            return limelight.Pair(first, second)
        case Graph(nodes, edges, _, names):
            return limelight.Graph(nodes, edges, node_names=names)
        case TensorValue(array):
            return array
    raise TypeError(f"no model here takes a {type(value).__name__}")


def difference(answer: limelight.Attended, expected: Sample) -> str:
    """Say how an answer differs from PyTorch's beyond the project's tolerances; empty where it does not."""
    tolerances = Tolerances(default_tolerances(expected.maps), "CPUExecutionProvider")
    found = [
        tolerances.difference(name, answer.prediction.outputs[name], array, is_map=False)
        for name, array in expected.outputs.items()
    ]
    found += [
        tolerances.difference(name, answer[name].weights, weights.weights, is_map=True)
        for name, weights in expected.maps.items()
        if ":" not in name  # another quantity than weights is asked for by itself
    ]
    if expected.token_ids and answer.prediction.sequences[0].token_ids != expected.token_ids:
        found.append("other tokens")
    return "; ".join(filter(None, found))


@pytest.mark.parametrize("model", PUBLISHED)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_instance_is_answered_as_in_pytorch_alone_and_anywhere_in_a_batch_on_any_lane(
    model: str, served: Served, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(served.of(model)))
    resembling = examples.resembling(small.inputs(served.trained[name].card), small.data(name).test)
    instances = data.draw(st.lists(resembling, min_size=2, max_size=4))
    expected = pytorch(served.trained[name], instances)
    together = ask(served.client, name, instances)
    backwards = ask(served.client, name, instances[::-1])[::-1]
    with ThreadPoolExecutor(4) as callers:  # at the same time, so that both lanes have work
        alone = [answers[0] for answers in callers.map(lambda each: ask(served.client, name, [each]), instances)]
    for answers in (alone, together, backwards):
        assert [difference(answer, sample) for answer, sample in zip(answers, expected, strict=True)] == [""] * len(
            expected
        )


@pytest.mark.parametrize("quantity", ["scores", "norms"])
def test_scores_and_norms_are_those_of_pytorch(quantity: str, served: Served) -> None:
    trained = served.trained["vit"]
    pictures = [examples.picture(seed) for seed in range(3)]
    images: list[Instance] = [{"image": each} for each in pictures]
    answers = served.client.attend("vit", [{"image": each.data} for each in pictures], quantity=quantity)
    for answer, expected in zip(answers, pytorch(trained, images), strict=True):
        assert {each.quantity for each in answer.maps} == {quantity}
        assert len(list(answer)) == len(trained.card.description.maps)
        for each in answer.maps:
            wanted = expected.maps[f"{each.name}:{quantity}"].weights
            np.testing.assert_allclose(each.weights, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
            assert not each.normalised and each.signed == (quantity == "scores")


def swap_query_and_key(trained: TrainedModel) -> None:
    """Let a Vision Transformer's keys ask and its queries answer."""
    for layer in trained.model.modules():
        if hasattr(layer, "query_map"):
            layer.query_map, layer.key_map = layer.key_map, layer.query_map


def drop_the_mask(trained: TrainedModel) -> None:
    """Let every sentence of a document be as long as the longest."""
    forward = trained.model.forward

    def careless(*, token_ids: torch.Tensor, token_mask: torch.Tensor) -> object:
        return forward(token_ids=token_ids, token_mask=torch.ones_like(token_mask))

    trained.model.forward = careless  # type: ignore[method-assign]


def swap_source_and_target(trained: TrainedModel) -> None:
    """Let the nodes of a graph be asked by those that they ask."""
    forward = trained.model.forward

    def backwards(*, nodes: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> object:
        answer = forward(nodes=nodes, sources=targets, targets=sources)
        return replace(answer, edges={"edge_targets": targets, "edge_sources": sources})

    trained.model.forward = backwards  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("name", "sabotage"),
    [("vit", swap_query_and_key), ("han", drop_the_mask), ("gat", swap_source_and_target)],
)
def test_the_comparison_sees_a_sabotaged_model(
    name: str, sabotage: Callable[[TrainedModel], None], served: Served
) -> None:
    sabotaged = copy.deepcopy(served.trained[name])
    sabotage(sabotaged)
    instances = served.trained[name].examples
    answers = ask(served.client, name, instances)
    try:
        expected = pytorch(sabotaged, instances)
    except ExportError as error:  # what is left of a row without its padding does not sum to 1 any more
        assert "sum to 1" in error.message
    else:
        assert any(difference(answer, wanted) for answer, wanted in zip(answers, expected, strict=True))


def test_a_capsules_probability_is_told_beside_that_of_its_class(served: Served) -> None:
    """The second is softmax over the log-odds of the first."""
    (answer,) = ask(served.client, "rnn-capsule", [{"text": Text("the cat sat")}])
    odds = answer.prediction.outputs["logits"]
    expected = {"class": np.exp(odds) / np.exp(odds).sum(), "capsules": 1 / (1 + np.exp(-odds))}
    for name, wanted in expected.items():
        told = {each.label: each.probability for each in answer.prediction.results[name].classes}
        np.testing.assert_allclose([told[label] for label in examples.LABELS], wanted, atol=1e-5)


def test_words_are_tagged_one_by_one_as_they_are_sent_or_parted(served: Served) -> None:
    sent = served.client.attend("mme", {"document": ["the", "cat", "sat", "unheard-of"]})
    parted = served.client.attend("mme", {"document": "the cat  sat unheard-of"})
    found = []
    for answer in (sent, parted):
        tagging = answer.prediction.results["tags"]
        assert isinstance(tagging, limelight.Tagging) and len(tagging) == 4 and tagging.label_set == "words"
        found.append(tagging.labels)
        assert answer["level"].key.labels == ("words", "subwords", "characters")
        assert len(answer["meta"].query) == 4 and answer["meta"].weights.shape == (1, 4, 3)
    assert found[0] == found[1]
    np.testing.assert_array_equal(sent.prediction.outputs["logits"], parted.prediction.outputs["logits"])


def test_a_pointer_network_answers_with_its_points_each_once(served: Served) -> None:
    for name in served.of("pointer-network"):
        points = np.random.default_rng(0).random((5, 2), np.float32)
        answer = served.client.attend(name, {"points": points})
        order, row = answer.prediction.results["order"], answer["decoder.cross"]
        assert isinstance(order, limelight.Tagging) and row.weights.shape == (1, 5, 5)
        best = answer.prediction.outputs["pointers"].argmax(-1).tolist()
        repeat = next((place for place in range(5) if best[place] in best[:place]), 5)
        assert order.labels == tuple(map(str, best[:repeat])) and answer.prediction.headline == " ".join(order.labels)


@pytest.mark.parametrize("name", ["sagan", "show-attend-tell-hard"])
def test_a_seed_decides_what_is_drawn_and_no_seed_draws_the_most_likely(name: str, served: Served) -> None:
    instance = served.trained[name].examples[0]
    inputs = {key: plain(value) for key, value in instance.items()}
    one, again, other, none = (served.client.attend(name, inputs, seed=seed) for seed in (7, 7, 8, None))
    what = "values" if name == "sagan" else "decoder.cross"
    found = [each.prediction.outputs[what] if name == "sagan" else each[what].weights for each in (one, again, other)]
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0].shape != found[2].shape or not np.allclose(found[0], found[2])
    assert difference(none, pytorch(served.trained[name], [instance])[0]) == ""
    if name != "sagan":
        assert set(np.unique(found[0])) == {0, 1}


def test_a_target_forces_the_output_and_its_attention(served: Served) -> None:
    forced = served.client.attend("bahdanau", {"text": "my cat sat", "target": "bird"})
    assert list(forced["decoder.cross"].query.labels[:4]) == list("bird")
    assert forced["decoder.cross"].weights.shape[2] == len("my cat sat")


@pytest.mark.parametrize("model", WRITING)
def test_a_stream_tells_what_the_whole_answer_tells(model: str, served: Served) -> None:
    for name in served.of(model):
        stream_tells_the_answer(served, name, served.trained[name].card.description.maps[-1].name)


def stream_tells_the_answer(served: Served, name: str, map_name: str) -> None:
    """Assert that the steps of a stream have the tokens and the weights of the whole answer, the last map's."""
    whole = served.client.attend(name, {"text": "a dog ran"})
    events = list(served.client.generate(name, {"text": "a dog ran"}, attention=limelight.Attention(maps=[map_name])))
    tokens = [event for event in events if isinstance(event, limelight.GeneratedToken)]
    for place, token in enumerate(tokens):
        (row,) = token.maps
        assert row.key.labels == whole[map_name].key.labels[: len(row.key)]
        expected = whole[map_name].weights[:, place : place + 1]
        np.testing.assert_allclose(row.weights, expected[:, :, : len(row.key)], atol=1e-5)
        assert not expected[:, :, len(row.key) :].any()
    assert "".join(token.delta for token in tokens) == whole.prediction.text == events[-1].text


@pytest.mark.parametrize("name", WRITING)
def test_generations_that_join_others_midway_are_those_that_they_are_alone(name: str, served: Served) -> None:
    """Prompts of all lengths, one stream after another begun while the others go on."""
    texts = ["my cat sat and birds fly low"[: 3 + 5 * place] for place in range(5)]
    alone = [served.client.attend(name, {"text": text}) for text in texts]
    begun: list[Iterator[limelight.GenerationEvent]] = []
    events: list[list[limelight.GenerationEvent]] = []
    for text in texts:
        begun.append(iter(served.client.generate(name, {"text": text}, attention=limelight.Attention())))
        events.append([])
        for told, stream in zip(events, begun, strict=True):
            told += [event for event in [next(stream, None)] if event is not None]
    for told, stream, expected in zip(events, begun, alone, strict=True):
        told += stream
        end = told[-1]
        assert isinstance(end, limelight.GenerationEnd)
        assert end.sequences[0].token_ids == expected.prediction.sequences[0].token_ids
        tokens = [event for event in told if isinstance(event, limelight.GeneratedToken)]
        for place, token in enumerate(tokens):
            for row in token.maps:
                whole = expected[row.name].weights[:, place : place + 1, : len(row.key)]
                np.testing.assert_allclose(row.weights, whole, atol=1e-5)


def test_the_keys_of_a_step_are_what_went_in(served: Served) -> None:
    answer = served.client.attend("gpt", {"text": "a dog ran"})
    own = answer["decoder.0.self"]
    assert (own.query.kind, own.key.kind) == ("output_steps", "input_steps")
    begun = 1 + len("a dog ran") + 1  # the begin token, the prompt, and its end
    assert list(own.key.labels[1 : begun - 1]) == list("a dog ran")
    assert list(own.key.labels[begun:]) == list(own.query.labels[:-1])
    assert own.key.special[0] and own.key.ids[0] == 2
    assert np.array_equal(own.key.ids[begun:], own.query.ids[:-1])
    for place in range(len(own.query)):
        assert not own.weights[:, place, begun + place :].any(), "nothing looks ahead"


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=examples.graphs(), chance=st.randoms(use_true_random=False))
def test_each_edge_keeps_its_weight_by_the_names_of_its_nodes_in_whatever_order_they_come(
    served: Served, graph: Graph, chance: random.Random
) -> None:
    order = list(range(len(graph.nodes)))
    chance.shuffle(order)
    moved = Graph(graph.nodes[order], np.argsort(order)[graph.edges], None, tuple(graph.names[each] for each in order))
    first, second = ask(served.client, "gat", [{"graph": graph}, {"graph": moved}])
    for name in ("layer.0", "layer.1"):
        weights = [by_name(answer[name]) for answer in (first, second)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-5, rel=1e-3)
        wanted = {(b, a) for a, b in graph.edges.T.tolist()} | {(a, b) for a, b in graph.edges.T.tolist()}
        wanted |= {(node, node) for node in range(len(graph.nodes))}
        assert {(query, key) for query, key, _ in weights[0]} == {
            (f"node {query}", f"node {key}") for query, key in wanted
        }


def by_name(one: limelight.AttentionMap) -> dict[tuple[str, str, int], float]:
    """The weight of each edge, by the names of its nodes and the head."""
    assert one.edges is not None
    query, key = one.query.labels, one.key.labels
    return {
        (query[a], key[b], head): float(one.weights[head, edge])
        for edge, (a, b) in enumerate(zip(one.edges.query_index.tolist(), one.edges.key_index.tolist(), strict=True))
        for head in range(len(one.weights))
    }
