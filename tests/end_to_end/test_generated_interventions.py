"""Interventions on models that generate: the same change in PyTorch, at each step, gives the same answer."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import limelight
from limelight.interventions import with_interventions
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.values import Instance
from limelight_bundle.wire import instance_to_wire
from limelight_export.execution.generation import forced_chooser, run_generation
from limelight_export.execution.pytorch_runner import PyTorchGenerationRunner
from limelight_export.execution.random_inputs import batch_sizes, collate_rows
from limelight_export.execution.row_answers import RowAnswer, generation_answer
from limelight_export.pipeline import export_model
from limelight_export.tracing.build import build_graphs
from limelight_models.attention import Attention
from limelight_models.cards.card import TrainedModel
from limelight_models.zoo.rnn_search.rnn_search import RnnSearch
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import choose_provider
from limelight_service.engine.types import Query
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.end_to_end.test_interventions import changed, multiplied, uniform
from tests.kit import small, tiny
from tests.kit.serving import serving
from tests.service.engine.conftest import jobs_of, weights_of
from tests.service.engine.test_continuous_batch import Driver, batch_of

pytestmark = pytest.mark.timeout(900)

SEED = 0
# Of each model, maps and the modules that make them.
KINDS: Mapping[str, Mapping[str, str]] = {
    "bahdanau": {"decoder.cross": "attention"},
    "transformer": {
        "decoder.1.self": "decoder.1.itself.attention.attention",
        "decoder.0.cross": "decoder.0.cross.attention.attention",
        "encoder.0.self": "encoder.0.attention.attention",
    },
}


@dataclass(frozen=True)
class Served:
    client: limelight.Client
    kind: str
    trained: TrainedModel
    folder: BundleFolder
    preprocessor: Preprocessor

    def expected(self, instance: Instance, tokens: tuple[int, ...]) -> RowAnswer:
        """PyTorch's answer for an instance alone that puts out these tokens."""
        card, row = self.trained.card, self.preprocessor.row(instance)
        runner, choose = PyTorchGenerationRunner(self.trained.model, card), forced_chooser(np.array([tokens]))
        trace = run_generation(runner, card, collate_rows(card, [row]), batch_sizes([row]), choose)
        return generation_answer(card, trace, row, 0)

    def looks(self, *interventions: limelight.Intervention, **options: Any) -> limelight.Attended:
        """The answer to the first example."""
        return self.client.attend(
            self.kind, self.client.model(self.kind).examples[0], interventions=interventions, **options
        )


@pytest.fixture(scope="module", params=["bahdanau", pytest.param("transformer", marks=pytest.mark.slow)])
def served(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Served]:
    kind, repository = request.param, tmp_path_factory.mktemp("interventions")
    torch.manual_seed(SEED)
    trained = small.trained(kind)
    if isinstance(trained.model, RnnSearch):
        with torch.no_grad():
            trained.model.scores.bias[trained.model.config.end] = -20.0  # it writes until its last step
    folder = export_model(trained, repository)
    with serving(repository) as running, limelight.Client(running.server.address) as client:
        yield Served(client, kind, trained, folder, Preprocessor(folder))


# A kind of change, the place of a map among those of the model, a head, a step (-1 for every one), and a factor.
kinds = st.sampled_from(["none", "scale", "uniform", "given", "keys"])
changes = st.tuples(kinds, st.integers(0, 2), st.integers(0, 1), st.integers(-1, 4), st.floats(-2, 2))
# A request's part, and the same change in PyTorch.
Changed = tuple[Sequence[limelight.Intervention], Callable[[], AbstractContextManager[None]]]


@settings(max_examples=5, deadline=None)
@given(drawn=st.lists(changes, min_size=1, max_size=5))
def test_a_change_of_each_step_is_the_same_change_in_pytorch(
    served: Served, drawn: list[tuple[str, int, int, int, float]]
) -> None:
    instances = [each for each, _ in zip(itertools.cycle(served.trained.examples), drawn, strict=False)]
    rows = [(each, *changed_row(served, each, *change)) for each, change in zip(instances, drawn, strict=True)]
    asked = [with_interventions(instance_to_wire(each), interventions) for each, interventions, _ in rows]
    together = served.client.attend(served.kind, asked, outputs=["scores"])
    alone = served.client.attend(served.kind, asked[:1], outputs=["scores"])
    for answer, (instance, _, in_pytorch) in zip((*together, *alone), (*rows, rows[0]), strict=True):
        tokens = answer.prediction.sequences[0].token_ids
        with in_pytorch():
            wanted = served.expected(instance, tokens)
        scores = wanted.outputs["scores"]
        np.testing.assert_allclose(answer.prediction.outputs["scores"], scores, rtol=1e-5, atol=1e-5)
        for each in answer.maps:
            np.testing.assert_allclose(each.weights, wanted.maps[each.name].weights, rtol=1e-5, atol=1e-5)
        chosen = scores[np.arange(len(tokens)), tokens]
        np.testing.assert_allclose(chosen, scores.max(-1), rtol=0, atol=1e-4)  # PyTorch puts the same out


def changed_row(
    served: Served, instance: Instance, kind: str, place: int, head: int, step: int, factor: float
) -> Changed:
    name, path = [*KINDS[served.kind].items()][place % len(KINDS[served.kind])]
    module = served.trained.model.get_submodule(path)
    assert isinstance(module, Attention)
    described = next(each for each in served.trained.card.description.maps if each.name == name)
    labels, head = served.preprocessor.row(instance).labels, min(head, described.heads - 1)
    if kind == "none":
        return (), nullcontext
    if kind == "scale":
        factors = torch.ones(described.heads)
        factors[head] = factor
        scaled = limelight.scale_heads(name, {head: factor})
        return (scaled,), lambda: changed(module, factors=factors)
    of_steps = described.query_labels not in labels
    count = 1 if of_steps else labels[described.query_labels].size
    query = step if of_steps or step < 0 else step % count
    queries = () if query < 0 else (query,)
    if kind == "keys":  # the first, which every step has, and the last that the source has
        keys = [0, labels[described.key_labels].size - 1] if described.key_labels in labels else [0]
        replaced, new = limelight.scale_keys(name, keys, abs(factor), heads=head, queries=queries), None
    elif kind == "uniform":
        replaced, new = limelight.replace(name, "uniform", heads=head, queries=queries), None
    else:  # without a step named, the only key that every step of a decoder's attention to itself has
        keys = labels[described.key_labels].size if described.key_labels in labels else 1 + max(0, query)
        new = np.random.default_rng(0).dirichlet(np.ones(keys), (1, 1 if queries else count)).astype(np.float32)
        replaced = limelight.replace(name, new, heads=head, queries=queries)

    def in_pytorch() -> AbstractContextManager[None]:
        steps = itertools.count()  # an attention over the source is computed once

        def altered(weights: Tensor, mask: Tensor | None) -> Tensor:
            if of_steps and next(steps) != query and queries:
                return weights
            rows = slice(None) if of_steps or not queries else slice(query, query + 1)
            weights = weights.clone()
            if kind == "keys":
                weights[:, head, rows] = multiplied(weights[:, head, rows], keys, abs(factor))
            elif new is None:
                weights[:, head, rows] = uniform(weights, mask)[:, head, rows]
            else:
                weights[:, head, rows] = 0
                weights[:, head, rows, : new.shape[-1]] = torch.from_numpy(new)
            return weights

        return changed(module, weights=altered)

    return (replaced,), in_pytorch


recurrent = pytest.mark.parametrize("served", ["bahdanau"], indirect=True)


@recurrent
def test_a_stream_is_changed_as_an_answer_is(served: Served) -> None:
    asked = [limelight.scale_heads("decoder.cross", {0: -2}), limelight.replace("decoder.cross", "uniform", queries=1)]
    *_, end = served.client.generate("bahdanau", served.client.model("bahdanau").examples[0], interventions=asked)
    assert isinstance(end, limelight.GenerationEnd)
    assert end.text == served.looks(*asked).prediction.text != served.looks().prediction.text


@recurrent
def test_later_changes_replace_earlier_ones_of_the_same_steps(served: Served) -> None:
    keys = served.looks()["decoder.cross"].weights.shape[2]
    first, last = np.eye(keys, dtype=np.float32)[[[0]]], np.eye(keys, dtype=np.float32)[[[keys - 1]]]
    asked = [
        limelight.replace("decoder.cross", first, queries=0),
        limelight.replace("decoder.cross", "uniform", queries=[2, 3]),
        limelight.replace("decoder.cross", last, queries=3),
    ]
    weights = served.looks(*asked)["decoder.cross"].weights
    np.testing.assert_array_equal(weights[:, [0, 3]], np.concatenate([first, last], axis=1))
    np.testing.assert_allclose(weights[:, 2], 1 / keys, atol=1e-6)
    assert 0.01 < weights[:, 1].max() < 0.999 and 0.01 < weights[:, 4].max() < 0.999
    beams = limelight.Generation(strategy="beam", beams=3, hypotheses=3)
    answer = served.looks(*asked, limelight.replace("decoder.cross", "uniform"), generation=beams, sequences=3)
    assert len(answer.other_sequences) == 2
    for each in (answer, *answer.other_sequences):  # every step of every hypothesis
        np.testing.assert_allclose(each["decoder.cross"].weights, 1 / keys, atol=1e-6)


@pytest.mark.parametrize(
    ("intervention", "field", "said"),
    [
        (limelight.replace("decoder.cross", "uniform", queries=-1), "queries[0]", "steps are counted from the first"),
        (limelight.scale_keys("decoder.cross", 99), "key_factor.keys.indices[0]", "there are 10 source"),
        (limelight.replace("decoder.cross", "uniform", queries=99), "queries[0]", "queries for this instance"),
        (limelight.replace("decoder.cross", [[[1, 0], [0, 1]]]), "weights", "[1, 1, "),
    ],
)
@recurrent
def test_what_no_step_can_have_is_refused(
    served: Served, intervention: limelight.Intervention, field: str, said: str
) -> None:
    with pytest.raises((limelight.InvalidArgument, limelight.OutOfRange)) as refused:
        served.looks(intervention)
    assert f"instances[0].interventions[0].{field}" in str(refused.value)
    assert said in str(refused.value)
    assert served.looks().prediction.provenance.graph == "encoder+step"


@pytest.mark.parametrize("served", ["transformer"], indirect=True)
@pytest.mark.slow
def test_a_step_gets_no_weight_on_what_comes_later(served: Served) -> None:
    both = np.array([[[0, 1, 0], [0, 0.5, 0.5]]], np.float32)
    with pytest.raises(limelight.InvalidArgument, match="weight beyond the 2 keys that step 1 has"):
        served.looks(limelight.replace("decoder.1.self", both[:, ::-1], heads=0, queries=[1, 2]))
    weights = served.looks(limelight.replace("decoder.1.self", both, heads=0, queries=[1, 2]))["decoder.1.self"].weights
    np.testing.assert_array_equal(weights[0, 1:3, :3], both[0])


def test_graphs_without_interventions_stay_as_they_are() -> None:
    model, card = tiny.Writer().eval().requires_grad_(False), tiny.writer_card()
    plain, both = build_graphs(model, card), build_graphs(model, card, interventions=True)
    assert [each.name for each in both] == ["encoder", "step", "intervened_step"]
    for one, other in zip(plain, both, strict=False):
        assert list(map(str, one.model.graph.node)) == list(map(str, other.model.graph.node))


@recurrent
def test_a_changed_row_that_joins_midway_is_answered_as_alone(served: Served) -> None:
    model = open_model(served.folder, choose_provider("cpu", workers=1), Settings(), NullObserver())
    rows = [served.preprocessor.row(each) for each in served.trained.examples]
    keys = [len(row.tensors["source_ids"]) for row in rows]
    given = np.zeros((1, 3, keys[0]), np.float32)
    given[:, 0, 0] = given[:, 1, -1] = 1
    behind_2 = np.array([[[0], [0], [1]]], np.float32)
    changes = (
        {"replacement": given, "replaced": 1 - behind_2},
        {"scales": np.array([-1], np.float32), "uniform": behind_2},
        {"uniform": 1 - behind_2},
    )
    jobs = []
    for row, change in zip(rows, changes, strict=True):
        tensors = row.tensors | {f"decoder.cross:{name}": tensor for name, tensor in change.items()}
        jobs += jobs_of(model, Query((replace(row, tensors=tensors),), weights_of("decoder.cross")))
    together, alone = Driver(batch_of(model)), Driver(batch_of(model))
    for job in jobs:
        together.join([job])
        together.step(2)
    together.finish()
    answers = [together.answer(job) for job in jobs]
    assert answers[0].batch_rows == 3
    found = []
    for job, answer in zip(jobs, answers, strict=True):
        alone.join([job])
        alone.finish()
        (each,), (wanted,) = answer.maps.values(), alone.answer(job).maps.values()
        np.testing.assert_allclose(each.weights, wanted.weights, rtol=1e-5, atol=1e-5)
        found.append(each.weights)
    np.testing.assert_array_equal(found[0][:, :2], given[:, :2])
    np.testing.assert_allclose(found[1][:, 2:], 1 / keys[1], atol=1e-6)
    np.testing.assert_allclose(found[2][:, :2], 1 / keys[2], atol=1e-6)
