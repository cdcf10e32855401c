"""Interventions on models that generate: the same change in PyTorch, at each step, gives the same answer."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import limelight
from bundle.preprocess import Preprocessor
from bundle.reader import BundleFolder
from bundle.values import Instance
from bundle.wire import instance_to_wire
from export.execution.generation import forced_chooser, run_generation
from export.execution.pytorch_runner import PyTorchGenerationRunner
from export.execution.random_inputs import batch_sizes, collate_rows
from export.execution.row_answers import RowAnswer, generation_answer
from export.pipeline import export_model
from export.tracing.build import build_graphs
from limelight.interventions import with_interventions
from limelight.v1 import values_pb2
from models.attention import Attention
from models.cards.card import TrainedModel
from service.engine.opening import open_model
from service.engine.runtime.providers import choose_provider
from service.engine.types import Query
from service.observability.observer import NullObserver
from service.settings import Settings
from tests.end_to_end.test_interventions import uniform
from tests.export import tiny
from tests.models import small
from tests.service.engine.conftest import jobs_of, weights_of
from tests.service.engine.test_continuous_batch import Driver, batch_of
from tests.service.serving import serving

pytestmark = pytest.mark.timeout(900)

# Of each model, maps and the modules that make them.
KINDS: Mapping[str, Mapping[str, str]] = {
    "bahdanau": {"decoder.cross": "attention"},  # a recurrent decoder
    "transformer": {
        "decoder.1.self": "decoder.1.itself.attention.attention",
        "decoder.0.cross": "decoder.0.cross.attention.attention",
        "encoder.0.self": "encoder.0.attention.attention",
    },
}


@dataclass(frozen=True)
class Served:
    """A server of one model, and the model in PyTorch."""

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

    def shape_of_source(self, example: values_pb2.Instance) -> int:
        """The number of tokens of an example's source."""
        maps = self.client.attend(self.kind, example).maps
        return int(next(each for each in maps if each.name.endswith("cross")).weights.shape[2])


@pytest.fixture(scope="module", params=["bahdanau", pytest.param("transformer", marks=pytest.mark.slow)])
def served(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Served]:
    kind, repository = request.param, tmp_path_factory.mktemp("interventions")
    trained = small.trained(kind)
    folder = export_model(trained, repository, interventions=True)
    with serving(repository) as running, limelight.Client(running.server.address) as client:
        yield Served(client, kind, trained, folder, Preprocessor(folder))


@dataclass(frozen=True)
class Change:
    """A change of one row's attention.

    Attributes:
        kind: `none`, `scale`, `uniform`, `given`.
        place: of the map among those of the model.
        step: at which weights change, of a map of output steps; -1 for every one.
    """

    kind: str
    place: int
    head: int
    step: int
    factor: float


changes = st.builds(
    Change,
    st.sampled_from(["none", "scale", "uniform", "given"]),
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(-1, 4),
    st.floats(-2, 2),
)


@settings(max_examples=8, deadline=None)
@given(drawn=st.lists(changes, min_size=1, max_size=5))
def test_a_change_of_each_step_is_the_same_change_in_pytorch(served: Served, drawn: list[Change]) -> None:
    examples = served.trained.examples
    rows = [changed_row(served, examples[place % len(examples)], change) for place, change in enumerate(drawn)]
    asked = [with_interventions(instance_to_wire(row.instance), row.interventions) for row in rows]
    together = served.client.attend(served.kind, asked, outputs=["scores"])
    alone = served.client.attend(served.kind, asked[:1], outputs=["scores"])
    for answer, row in zip((*together, *alone), (*rows, rows[0]), strict=True):
        tokens = answer.prediction.sequences[0].token_ids
        with row.in_pytorch():
            wanted = served.expected(row.instance, tokens)
        scores = wanted.outputs["scores"]
        np.testing.assert_allclose(answer.prediction.outputs["scores"], scores, rtol=1e-4, atol=1e-5)
        for each in answer.maps:
            np.testing.assert_allclose(each.weights, wanted.maps[each.name].weights, rtol=1e-4, atol=1e-5)
        chosen = scores[np.arange(len(tokens)), tokens]
        np.testing.assert_allclose(chosen, scores.max(-1), rtol=0, atol=1e-4)  # PyTorch puts the same out


@dataclass(frozen=True)
class ChangedRow:
    """A request for a change of one row, and the same change in PyTorch."""

    instance: Instance
    interventions: tuple[limelight.Intervention, ...]
    in_pytorch: Callable[[], AbstractContextManager[None]]


def changed_row(served: Served, instance: Instance, change: Change) -> ChangedRow:
    name, path = [*KINDS[served.kind].items()][change.place % len(KINDS[served.kind])]
    module = served.trained.model.get_submodule(path)
    assert isinstance(module, Attention)
    described = next(each for each in served.trained.card.description.maps if each.name == name)
    labels, head = served.preprocessor.row(instance).labels, min(change.head, described.heads - 1)
    if change.kind == "none":
        return ChangedRow(instance, (), nullcontext)
    if change.kind == "scale":
        factors = torch.ones(described.heads)
        factors[head] = change.factor
        scaled = limelight.scale_heads(name, {head: change.factor})
        return ChangedRow(instance, (scaled,), lambda: hooked(module.combine, lambda found, _: scale(found, factors)))
    of_steps = described.query_labels not in labels
    count = 1 if of_steps else labels[described.query_labels].size
    query = change.step if of_steps or change.step < 0 else change.step % count
    queries = () if query < 0 else (query,)
    if change.kind == "uniform":
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
            if new is None:
                weights[:, head, rows] = uniform(weights, mask)[:, head, rows]
            else:
                weights[:, head, rows] = 0
                weights[:, head, rows, : new.shape[-1]] = torch.from_numpy(new)
            return weights

        return hooked(module.align, altered)

    return ChangedRow(instance, (replaced,), in_pytorch)


@contextmanager
def hooked(module: nn.Module, change: Callable[[Tensor, Tensor | None], Tensor]) -> Iterator[None]:
    """Change what a module returns, as a function of that and its second argument."""
    hook = module.register_forward_hook(lambda _, arguments, found: change(found, arguments[1]))
    try:
        yield
    finally:
        hook.remove()


def scale(found: Tensor, factors: Tensor) -> Tensor:
    return found * factors[None, :, None, None]


@pytest.mark.parametrize("served", ["bahdanau"], indirect=True)
def test_a_stream_is_changed_as_an_answer_is(served: Served) -> None:
    example = served.client.model("bahdanau").examples[0]
    weights = np.zeros((1, 1, served.shape_of_source(example)), np.float32)
    weights[..., 2] = 1
    changed = [limelight.replace("decoder.cross", weights)]
    answer = served.client.attend("bahdanau", example, interventions=changed)
    assert (answer["decoder.cross"].weights[:, :, 2] == 1).all()
    *_, end = served.client.generate("bahdanau", example, interventions=changed)
    assert isinstance(end, limelight.GenerationEnd)
    assert end.text == answer.prediction.text == served.client.predict("bahdanau", example, interventions=changed).text


@pytest.mark.parametrize("served", ["bahdanau"], indirect=True)
def test_later_changes_replace_earlier_ones_of_the_same_steps(served: Served) -> None:
    example = served.client.model("bahdanau").examples[0]
    keys = served.shape_of_source(example)
    first, last = np.eye(keys, dtype=np.float32)[[[0]]], np.eye(keys, dtype=np.float32)[[[keys - 1]]]
    usual = served.client.attend("bahdanau", example)["decoder.cross"].weights
    changed = [
        limelight.replace("decoder.cross", first, queries=0),
        limelight.replace("decoder.cross", "uniform", queries=[2, 3]),
        limelight.replace("decoder.cross", last, queries=3),
    ]
    weights = served.client.attend("bahdanau", example, interventions=changed)["decoder.cross"].weights
    np.testing.assert_array_equal(weights[:, 0], first[:, 0])
    np.testing.assert_allclose(weights[:, 2], 1 / keys, atol=1e-6)
    np.testing.assert_array_equal(weights[:, 3], last[:, 0])
    assert 0.01 < weights[:, 1].max() < 0.999 and 0.01 < weights[:, 4].max() < 0.999
    assert usual.shape[2] == keys
    of_every_step = served.client.attend(
        "bahdanau", example, interventions=[*changed, limelight.replace("decoder.cross", "uniform")]
    )["decoder.cross"].weights
    np.testing.assert_allclose(of_every_step, 1 / keys, atol=1e-6)


@pytest.mark.parametrize("served", ["bahdanau"], indirect=True)
def test_every_beam_is_changed(served: Served) -> None:
    example = served.client.model("bahdanau").examples[0]
    answer = served.client.attend(
        "bahdanau",
        example,
        interventions=[limelight.replace("decoder.cross", "uniform")],
        generation=limelight.Generation(strategy="beam", beams=3, hypotheses=3),
        sequences=3,
    )
    found = [each["decoder.cross"].weights for each in (answer, *answer.other_sequences)]
    assert len(found) == 3
    for weights in found:
        np.testing.assert_allclose(weights, 1 / weights.shape[2], atol=1e-6)


@pytest.mark.parametrize(
    ("intervention", "field", "said"),
    [
        (limelight.replace("decoder.cross", "uniform", queries=-1), "queries[0]", "steps are counted from the first"),
        (limelight.replace("decoder.cross", "uniform", queries=99), "queries[0]", "queries for this instance"),
        (limelight.replace("decoder.cross", [[[1, 0], [0, 1]]]), "weights", "[1, 1, "),
        (limelight.scale_heads("decoder.cross", {1: 0}), "heads[0]", "has 1 heads"),
    ],
)
@pytest.mark.parametrize("served", ["bahdanau"], indirect=True)
def test_what_no_step_can_have_is_refused(
    served: Served, intervention: limelight.Intervention, field: str, said: str
) -> None:
    example = served.client.model("bahdanau").examples[0]
    with pytest.raises((limelight.InvalidArgument, limelight.OutOfRange)) as refused:
        served.client.predict("bahdanau", example, interventions=[intervention])
    assert f"instances[0].interventions[0].{field}" in str(refused.value)
    assert said in str(refused.value)
    assert served.client.predict("bahdanau", example).provenance.graph == "encoder+step"


@pytest.mark.parametrize("served", ["transformer"], indirect=True)
@pytest.mark.slow
def test_a_step_gets_no_weight_on_what_comes_later(served: Served) -> None:
    example = served.client.model("transformer").examples[0]
    both = np.array([[[0, 1, 0], [0, 0.5, 0.5]]], np.float32)
    with pytest.raises(limelight.InvalidArgument, match="weight beyond the 2 keys that step 1 has"):
        changed = [limelight.replace("decoder.1.self", both[:, ::-1], heads=0, queries=[1, 2])]
        served.client.predict("transformer", example, interventions=changed)
    changed = [limelight.replace("decoder.1.self", both, heads=0, queries=[1, 2])]
    answer = served.client.attend("transformer", example, interventions=changed)
    np.testing.assert_array_equal(answer["decoder.1.self"].weights[0, 1:3, :3], both[0])


def test_graphs_without_interventions_stay_as_they_are() -> None:
    torch.manual_seed(0)
    model, card = tiny.Writer().eval().requires_grad_(False), tiny.writer_card()
    plain, both = build_graphs(model, card), build_graphs(model, card, interventions=True)
    assert [each.name for each in both] == ["encoder", "step", "intervened_step"]
    for one, other in zip(plain, both, strict=False):
        for part in ("node", "input", "output"):
            assert [str(each) for each in getattr(one.model.graph, part)] == [
                str(each) for each in getattr(other.model.graph, part)
            ]


@pytest.mark.parametrize("served", ["bahdanau"], indirect=True)
def test_a_changed_row_that_joins_midway_is_answered_as_alone(served: Served) -> None:
    provider = choose_provider("cpu", workers=1)
    model = open_model(served.folder, provider, Settings(), NullObserver())
    rows = [served.preprocessor.row(each) for each in served.trained.examples]
    keys = [len(row.tensors["source_ids"]) for row in rows]
    first = np.zeros((1, 3, keys[0]), np.float32)
    first[:, 0, 0] = first[:, 1, -1] = 1
    scales, uniform_after_2 = np.array([-1], np.float32), np.array([[[0], [0], [1]]], np.float32)
    changes = [
        {"replacement": first, "replaced": np.array([[[1], [1], [0]]], np.float32)},
        {"scales": scales, "uniform": uniform_after_2},
        {"uniform": 1 - uniform_after_2},
    ]
    jobs = []
    for row, change in zip(rows, changes, strict=True):
        tensors = {f"decoder.cross:{name}": tensor for name, tensor in change.items()}
        query = Query((dataclasses.replace(row, tensors={**row.tensors, **tensors}),), weights_of("decoder.cross"))
        (job,) = jobs_of(model, query)
        jobs.append(job)
    together = Driver(batch_of(model))
    for job in jobs:
        together.join([job])
        together.step(2)
    together.finish()
    answers = [together.answer(job) for job in jobs]
    assert answers[0].batch_rows == 3
    for job, answer in zip(jobs, answers, strict=True):
        alone = Driver(batch_of(model))
        alone.join([job])
        alone.finish()
        (weights,), (wanted,) = answer.maps.values(), alone.answer(job).maps.values()
        assert answer.sequences[0].token_ids == alone.answer(job).sequences[0].token_ids
        np.testing.assert_allclose(weights.weights, wanted.weights, rtol=1e-4, atol=1e-5)
    (weights,) = answers[1].maps.values()
    np.testing.assert_allclose(weights.weights[:, 2:], 1 / keys[1], atol=1e-6)
    assert np.abs(weights.weights[:, :2] - 1 / keys[1]).max() > 1e-3
