"""Explain through the socket: each of its numbers is what the same change gives, asked one by one, by every door."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from limelight.v1 import attention_pb2, values_pb2
from limelight.v1 import service_pb2 as pb
from limelight_bundle.wire import to_array, to_tensor
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface.encoder_decoders import ENCODER_DECODERS
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit import bundles, small
from tests.kit.exports import export_model
from tests.kit.serving import Refusal, Running, attend, free_port, predict, serving, text, tokenize
from tests.service.every_door import DOORS, ask

TEXT = "The cats sat, on a mat."
WORDS = "the cat sat on a mat"
UNKNOWN, MASK = "zzz", 4  # a word that no vocabulary of the small bundles has; the mask token of imported ones
CHANGES = (pb.WAY_LOOK_AWAY, pb.WAY_LOOK_ONLY, pb.WAY_ERASE, pb.WAY_ERASE_OTHERS)
LOOKING, KEEPING = (pb.WAY_LOOK_AWAY, pb.WAY_LOOK_ONLY), (pb.WAY_LOOK_ONLY, pb.WAY_ERASE_OTHERS)
ERASURES = (pb.WAY_ERASE, pb.WAY_ERASE_OTHERS)
Value, Instance = values_pb2.Value, values_pb2.Instance


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of two imported models, which take interventions, and of small ones of every task."""
    root, repository = tmp_path_factory.mktemp("checkpoints"), tmp_path_factory.mktemp("repository")
    import_checkpoint(ENCODERS["bert"].write(root / "mood"), repository)
    import_checkpoint(ENCODER_DECODERS["bart"].write(root / "writer"), repository)
    export_model(small.trained("gpt"), repository)  # of whose prompts no label set has the tokens
    for make in (bundles.echo, bundles.paper, bundles.picture, bundles.web):
        make(repository)
    bundles.tiny(repository, "tasks", every_result=True)
    bundles.tiny(repository, "pairs", pair=True)
    folder = bundles.tiny(repository, "unnormalised").path / "bundle.json"
    folder.write_text(folder.read_text().replace('"normalised": true,', ""))
    with serving(repository, http_port=free_port()) as running:
        yield running


def explain(model: str, *instances: Any, **fields: Any) -> pb.ExplainRequest:
    """Make a request to Explain."""
    found = [text(each) if isinstance(each, str) else each for each in instances]
    return pb.ExplainRequest(model=values_pb2.Model(name=model), instances=found, **fields)


def explained(served: Running, door: str, model: str, instance: Any, **fields: Any) -> pb.Explanation:
    """Explain one instance."""
    (found,) = ask(served, door, explain(model, instance, **fields)).explanations
    return found  # type: ignore[no-any-return]


def predicted(served: Running, model: str, instance: Any, **fields: Any) -> pb.Prediction:
    """Predict one instance, with its raw outputs."""
    (found,) = served.stub.Predict(
        predict(model, text(instance) if isinstance(instance, str) else instance, **fields)
    ).predictions
    return found  # type: ignore[no-any-return]


def output(prediction: pb.Prediction, name: str) -> Any:
    return to_array(prediction.outputs[name], ())


def log_softmax(scores: Any) -> Any:
    scores = scores.astype(np.float64)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def check(
    found: pb.Explanation, ways: Sequence[int], change: Callable[[int, list[int]], float], **within: float
) -> None:
    """Each change of an explanation is that which a function gives for a way and the units that go."""
    every = range(found.units.size)
    assert [each.way for each in found.ways] == list(ways)
    for way in found.ways:
        assert len(way.values) == found.units.size
        for place in every:
            chosen = [each for each in every if each != place] if way.way in KEEPING else [place]
            assert way.values[place] == pytest.approx(change(way.way, chosen), abs=2e-5, **within), (way.way, place)


def away_from(units: Any, chosen: Sequence[int], maps: Sequence[str]) -> list[values_pb2.Intervention]:
    """Look away from some units of a text, in some maps."""
    spans = [values_pb2.TextSpan(start=units.starts[each], end=units.ends[each]) for each in chosen]
    factor = values_pb2.KeyFactor(factor=0, keys=values_pb2.Group(spans=spans))
    return [values_pb2.Intervention(map=each, key_factor=factor) for each in maps]


@pytest.mark.parametrize("door", DOORS)
def test_each_change_of_an_encoder_is_that_of_the_same_change_alone(served: Running, door: str) -> None:
    found = explained(served, door, "mood", TEXT, ways=CHANGES)
    units, index = found.units, found.target.index
    assert list(units.texts) == ["The", "cats", "sat,", "on", "a", "mat."]
    assert found.rows == 1 + len(CHANGES) * units.size
    answered = served.stub.Attend(attend("mood", text(TEXT))).results[0]
    tokens, maps = answered.prediction.label_sets[0], [each.name for each in answered.maps]
    assert [list(each.maps) for each in found.ways] == [maps, maps, [], []]

    def score(instance: values_pb2.Instance) -> float:
        return float(log_softmax(output(predicted(served, "mood", instance), "logits"))[index])

    usual = predicted(served, "mood", TEXT)
    assert found.target.score == pytest.approx(score(text(TEXT)), abs=1e-5)
    assert found.target.label == usual.results[0].classification.classes[0].label
    for one, other in zip(found.prediction.results, usual.results, strict=True):
        likely = [[each.probability for each in result.classification.classes] for result in (one, other)]
        assert likely[0] == pytest.approx(likely[1], abs=1e-5)

    def change(way: int, chosen: list[int]) -> float:
        instance = text(TEXT)
        if way in LOOKING:
            instance.interventions.extend(away_from(units, chosen, maps))
        else:
            ids, starts, ends = (np.array(column, np.int64) for column in (tokens.ids, tokens.starts, tokens.ends))
            for each in chosen:
                ids[(starts < units.ends[each]) & (ends > units.starts[each]) & (ends > starts)] = MASK
            instance = Instance(inputs={"token_ids": Value(tensor=to_tensor(ids))})
        return score(instance) - found.target.score

    check(found, CHANGES, change)


def test_shares_are_of_the_maps_that_attend_returns(served: Running) -> None:
    selection = attention_pb2.MapSelection(names=["encoder.1.self"], heads=[0, 2], queries=[0])
    for selections in ([], [selection]):
        found = explained(served, "grpc", "mood", TEXT, ways=[pb.WAY_ATTENTION, pb.WAY_ROLLOUT], selections=selections)
        answered = served.stub.Attend(attend("mood", text(TEXT), selections=selections)).results[0]
        chosen = [attention_pb2.MapSelection(names=each.names, heads=each.heads) for each in selections]
        rolled = served.stub.Attend(attend("mood", text(TEXT), selections=chosen, rollout=True)).results[0]
        tokens = answered.prediction.label_sets[0]
        for way, maps in zip(found.ways, (answered.maps, rolled.maps), strict=True):
            weights = [to_array(each.weights, ()) for each in maps]
            if selections and way.way == pb.WAY_ROLLOUT:
                weights = [each[:, :1] for each in weights]
            mean = np.mean([each.mean((0, 1)) for each in weights], 0)
            for place in range(found.units.size):
                start, end = found.units.starts[place], found.units.ends[place]
                inside = [n for n in range(tokens.size) if tokens.starts[n] < end and tokens.ends[n] > start]
                assert way.values[place] == pytest.approx(mean[inside].sum(), abs=1e-6)


@dataclass(frozen=True)
class Task:
    """A target of `tasks`. score: of it in an answer, given what it was in the usual one."""

    target: dict[str, Any]
    kind: int
    score: Callable[[pb.Prediction, pb.Prediction], float]


def _tags(found: pb.Prediction, usual: pb.Prediction) -> float:
    own = output(usual, "tags").argmax(-1)
    return float(log_softmax(output(found, "tags"))[np.arange(len(own)), own].sum())


def _span(first: int, last: int) -> Callable[[pb.Prediction, pb.Prediction], float]:
    return lambda found, usual: float(log_softmax(output(found, "pooled"))[[first, last]].sum())


def _likeness(found: pb.Prediction, usual: pb.Prediction) -> float:
    one, other = output(found, "logits"), output(usual, "logits")
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


LOG, VALUE, SIMILARITY = pb.SCORE_KIND_LOG_PROBABILITY, pb.SCORE_KIND_VALUE, pb.SCORE_KIND_SIMILARITY
TASKS = {
    "a number": Task({"result": "size"}, VALUE, lambda found, usual: float(output(found, "logits")[0])),
    "a named number": Task(
        {"result": "size", "label": "height"}, VALUE, lambda found, usual: float(output(found, "logits")[2])
    ),
    "all tags": Task({"result": "words"}, LOG, _tags),
    "a tag": Task(
        {"result": "words", "entry": -2, "index": 1}, LOG, lambda found, usual: log_softmax(output(found, "tags"))[4, 1]
    ),
    "a span": Task({"result": "place", "span": {"start": 4, "end": 11}}, LOG, _span(1, 2)),
    "a vector": Task({"result": "vector"}, SIMILARITY, _likeness),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", TASKS)
def test_erasures_change_the_score_of_each_task(served: Running, name: str, door: str) -> None:
    task, words = TASKS[name], WORDS.split()
    found = explained(served, door, "tasks", WORDS, target=task.target, ways=ERASURES)
    usual = predicted(served, "tasks", WORDS)
    assert list(found.units.texts) == words and found.target.score_kind == task.kind
    assert found.target.score == pytest.approx(task.score(usual, usual), abs=1e-5)

    def change(way: int, chosen: list[int]) -> float:
        left = " ".join(UNKNOWN if place in chosen else word for place, word in enumerate(words))
        return task.score(predicted(served, "tasks", left), usual) - found.target.score

    check(found, ERASURES, change)


def test_a_vector_is_compared_with_that_of_another_instance(served: Running) -> None:
    for door in DOORS:
        target = {"result": "vector", "similar_to": text("a dog")}
        found = explained(served, door, "tasks", WORDS, target=target, ways=[pb.WAY_ERASE])
        one, other = (output(predicted(served, "tasks", each), "logits") for each in (WORDS, "a dog"))
        assert found.target.score == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other), abs=1e-5)
        assert found.rows == 2 + found.units.size


@pytest.mark.parametrize("door", DOORS)
def test_own_answers_of_generating_models_are_forced(served: Running, door: str) -> None:
    words = "a dog ran far".split()
    found = explained(served, door, "echo", " ".join(words), ways=ERASURES)
    (usual,) = predicted(served, "echo", " ".join(words)).results[0].sequences.sequences
    assert found.target.label == usual.text and found.target.score == pytest.approx(
        sum(usual.log_probabilities), abs=1e-4
    )
    target = Value(tensor=to_tensor(np.array(usual.token_ids, np.int64)))

    def change(way: int, chosen: list[int]) -> float:
        instance = text(" ".join(UNKNOWN if place in chosen else word for place, word in enumerate(words)))
        instance.inputs["target_ids"].CopyFrom(target)
        (forced,) = predicted(served, "echo", instance).results[0].sequences.sequences
        return sum(forced.log_probabilities) - found.target.score

    check(found, ERASURES, change, rel=1e-4)


@pytest.mark.parametrize(("model", "given"), [("writer", ""), ("writer", "on a mat"), ("gpt", ""), ("gpt", "my mat")])
def test_a_writer_looks_away_from_its_source_or_prompt_at_each_step(served: Running, model: str, given: str) -> None:
    words, generation = "my cat sat", pb.GenerationOptions(max_new_tokens=4)
    fields: dict[str, Any] = {"target": {"text": given}} if given else {"generation": generation}
    found = explained(served, "grpc", model, words, ways=(pb.WAY_LOOK_AWAY, pb.WAY_ERASE), **fields)
    (usual,) = predicted(served, model, words, generation=generation).results[0].sequences.sequences
    assert found.prediction.results[0].sequences.sequences[0].text == usual.text or given
    assert found.target.label == (given or usual.text) and found.rows == 1 + 2 * 3 + bool(given)
    tokenized = served.stub.Tokenize(tokenize(model, text(words), text("~"))).results
    tokens, unknown = tokenized[0].label_sets[0], tokenized[1].label_sets[0].ids[0]
    description = served.stub.GetModel(pb.GetModelRequest(model=values_pb2.Model(name=model))).description
    (target,) = (each for each in description.inputs if each.optional)

    def change(way: int, chosen: list[int]) -> float:
        instance = text(words)
        if way in LOOKING:
            instance.interventions.extend(away_from(found.units, chosen, found.ways[0].maps))
        else:  # the vocabulary of one has no token for any word, so that tokens go
            ids, starts, ends = (np.array(column, np.int64) for column in (tokens.ids, tokens.starts, tokens.ends))
            inside = (starts < found.units.ends[chosen[0]]) & (ends > found.units.starts[chosen[0]])
            left = to_tensor(np.where(inside, unknown, ids) if model == "gpt" else ids[~inside])
            instance = Instance(inputs={description.inputs[0].tensors[0].name: Value(tensor=left)})
        ids = to_tensor(np.array(usual.token_ids, np.int64))
        forced = Value(text=given) if given else Value(tensor=ids)
        instance.inputs[target.name if given else target.tensors[0].name].CopyFrom(forced)
        (sequence,) = predicted(served, model, instance).results[0].sequences.sequences
        return sum(sequence.log_probabilities) - found.target.score

    check(found, (pb.WAY_LOOK_AWAY, pb.WAY_ERASE), change, rel=1e-4)


def test_patches_are_painted_in_the_mean_colour(served: Running) -> None:
    pixels = np.random.default_rng(0).random((1, 4, 4), np.float32)

    def numbers(image: Any) -> Any:
        return output(
            predicted(served, "picture", Instance(inputs={"pixels": Value(tensor=to_tensor(image))})), "numbers"
        )

    instance = Instance(inputs={"pixels": Value(tensor=to_tensor(pixels))})
    found = explained(served, "http", "picture", instance, target={"index": 1}, ways=ERASURES)
    assert (found.units.grid.rows, found.units.grid.columns) == (2, 2)

    def change(way: int, chosen: list[int]) -> float:
        painted = pixels.copy()
        for each in chosen:
            row, column = divmod(each, 2)
            painted[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] = pixels.mean()
        return float(numbers(painted)[1] - numbers(pixels)[1])

    check(found, ERASURES, change)
    whole = explained(served, "grpc", "picture", instance, units={"size": 2}, ways=[pb.WAY_ATTENTION])
    assert whole.units.size == 1 and whole.ways[0].values == pytest.approx([1.0])


def test_nodes_lose_their_features(served: Running) -> None:
    graph = bundles.drawn_graph(5, [(0, 1), (1, 2), (3, 4), (4, 0)], seed=0)
    sent = values_pb2.Graph(nodes=to_tensor(graph.nodes), edges=to_tensor(graph.edges), node_names="a b c d e".split())
    found = explained(
        served, "http", "web", Instance(inputs={"graph": Value(graph=sent)}), target={"result": "graph"}, ways=ERASURES
    )
    assert list(found.units.texts) == ["a", "b", "c", "d", "e"]

    def change(way: int, chosen: list[int]) -> float:
        nodes = graph.nodes.copy()
        nodes[chosen] = 0
        without = values_pb2.Graph(nodes=to_tensor(nodes), edges=to_tensor(graph.edges))
        prediction = predicted(served, "web", Instance(inputs={"graph": Value(graph=without)}))
        return float(log_softmax(output(prediction, "logits"))[found.target.index]) - found.target.score

    check(found, ERASURES, change)


def test_units_of_a_document_sent_as_sentences(served: Running) -> None:
    sentences = ["the cat sat .", "a dog ran", "on a mat ."]
    document = values_pb2.Document(sentences=values_pb2.Sentences(texts=sentences))
    instance = Instance(inputs={"text": Value(document=document)})
    words = explained(served, "http", "paper", instance).units
    assert list(words.texts) == " ".join(sentences).split() and words.parent == "sentences"
    assert list(words.parents) == [0] * 4 + [1] * 3 + [2] * 4
    assert [sentences[p][s:e] for p, s, e in zip(words.parents, words.starts, words.ends, strict=True)] == list(
        words.texts
    )
    found = explained(served, "grpc", "paper", instance, units={"kind": pb.UNIT_KIND_SENTENCES}, ways=[1, 5])
    assert list(found.units.texts) == sentences and list(found.units.parents) == [0, 1, 2]
    of_word, of_sentence = served.stub.Attend(attend("paper", instance)).results[0].maps
    assert set(found.ways[0].maps) == {of_word.name, of_sentence.name}
    shares = to_array(of_sentence.weights, ())[0, 0]
    assert list(found.ways[0].values) == pytest.approx(
        (shares + 1 / 3) / 2, abs=1e-5
    )  # a sentence's words are all its own
    usual = predicted(served, "paper", instance)

    def change(way: int, chosen: list[int]) -> float:
        left = [UNKNOWN if place in chosen else each for place, each in enumerate(sentences)]
        left = [
            " ".join([UNKNOWN] * len(one.split())) if each == UNKNOWN else each
            for each, one in zip(left, sentences, strict=True)
        ]
        erased = values_pb2.Document(sentences=values_pb2.Sentences(texts=left))
        prediction = predicted(served, "paper", Instance(inputs={"text": Value(document=erased)}))
        return float(
            (log_softmax(output(prediction, "logits")) - log_softmax(output(usual, "logits")))[found.target.index]
        )

    found.ways.pop(0)
    check(found, [pb.WAY_ERASE], change)


def test_units_of_a_pair_and_given_ones(served: Running) -> None:
    pair = Instance(inputs={"pair": Value(pair=values_pb2.Pair(first="the cat", second="sat on\na mat"))})
    found = explained(served, "http", "pairs", pair)
    sources = [found.units.inputs[each] for each in found.units.input_indices]
    assert sources == ["pair.first"] * 2 + ["pair.second"] * 4
    lines = explained(served, "grpc", "pairs", pair, units={"kind": pb.UNIT_KIND_LINES, "inputs": ["pair.second"]})
    assert list(lines.units.texts) == ["sat on", "a mat"] and lines.rows == 3
    groups = [
        values_pb2.Group(name="cat", spans=[values_pb2.TextSpan(start=4, end=7, part="first")]),
        values_pb2.Group(name="rest", inputs=["pair.second"]),
        values_pb2.Group(name="ends", indices=[0, -1]),
    ]
    given = explained(served, "http", "pairs", pair, units={"groups": groups}, ways=[1, 5])
    assert list(given.units.texts) == ["cat", "rest", "ends"]
    words, shares = found.ways[0].values, given.ways[0].values
    assert shares == pytest.approx([words[1], sum(words[2:]), words[0] + words[5]], abs=1e-6)


def test_several_instances_are_explained_each_alone(served: Running) -> None:
    texts = (TEXT, "a dog", "the mat ran")
    together = ask(served, "http", explain("mood", *texts, ways=CHANGES)).explanations
    for each, found in zip(texts, together, strict=True):
        alone = explained(served, "grpc", "mood", each, ways=CHANGES)
        assert (found.units, found.rows, found.target.label) == (alone.units, alone.rows, alone.target.label)
        for one, other in zip(found.ways, alone.ways, strict=True):
            assert list(one.values) == pytest.approx(list(other.values), abs=1e-5)


@pytest.mark.parametrize("door", DOORS)
def test_refusals_that_need_other_models(served: Running, door: str) -> None:
    cases: list[tuple[pb.ExplainRequest, str, str]] = [
        (
            explain("unnormalised", WORDS, ways=[1]),
            "ways[0]",
            "none of encoder.0.self, encoder.1.self, pool has weights",
        ),
        (
            explain("tasks", WORDS, target={"result": "place", "span": {"start": 90, "end": 99}}),
            "target.span",
            "90 to 99",
        ),
        (
            explain("tasks", WORDS, target={"result": "vector", "similar_to": text("")}),
            'target.similar_to.inputs["text"]',
            "is empty",
        ),
        (explain("tasks", WORDS, target={"result": "size", "label": "depth"}), "target.label", "width, weight, height"),
        (
            explain("mood", TEXT, target={"label": "LABEL_9"}),
            "target.label",
            "is 'LABEL_9', which is no class of the model; there are LABEL_0, LABEL_1, LABEL_2",
        ),
        (
            explain("mood", TEXT, ways=[3], units={"groups": [{"indices": [0], "name": "[CLS]"}], "label_set": "x"}),
            "units.label_set",
            "tokens",
        ),
        (explain("writer", "the cat", target={"text": "mat " * 200}), "target.text", "shorten it"),
    ]
    for request, field, said in cases:
        told = ask(served, door, request)
        assert isinstance(told, Refusal) and told.field == field and said in told.message, told
    assert explained(served, door, "unnormalised", WORDS).ways[0].way == pb.WAY_ERASE
