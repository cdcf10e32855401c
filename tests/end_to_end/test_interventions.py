"""Interventions through the socket: the same change in PyTorch gives the same answer, alone and in a batch."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import limelight
from limelight.interventions import with_interventions
from limelight.v1 import values_pb2
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.rows import Row
from limelight_bundle.values import Array, Instance
from limelight_bundle.wire import instance_to_wire
from limelight_export.execution import pytorch_runner
from limelight_export.execution.random_inputs import collate_rows
from limelight_export.execution.row_answers import single_pass_answers
from limelight_export.pipeline import export_model
from limelight_export.tracing.build import build_graphs
from limelight_models.attention import Attention, edges
from limelight_models.cards.card import TrainedModel
from limelight_models.network import Answer
from tests.kit import small, tiny
from tests.kit.serving import serving

pytestmark = pytest.mark.timeout(900)

# A model of each kind, a map, and the module that makes it.
KINDS: Mapping[str, tuple[str, str]] = {
    "reader": ("encoder.0.self", "attention.attention"),  # a Transformer encoder
    "rnn-capsule": ("capsule", "capsules.capsules.attention"),  # over a recurrent network
    "vit": ("encoder.1.self", "encoder.layers.1.attention.attention"),  # of pictures
    "mcan": ("regions.0.cross", "looking.0.guided.attention"),  # co-attention
    "han": ("sentence", "sentences.attention"),  # hierarchical
}


class CausalReader(tiny.Reader):
    """Each word attends to those before it and to itself."""

    def forward(self, **tensors: Tensor) -> Answer:
        words, mask = self.embedding(tensors["ids"]), self.mask(tensors)
        places = torch.arange(words.shape[1])
        causal = mask & mask.transpose(-2, -1) & (places <= places[:, None])
        read, weights = self.attention(words, words, mask=causal)
        pooled, pool = self.pool(None, read.unsqueeze(1), mask=mask)
        return Answer({"logits": self.classify(pooled[:, 0, 0])}, {"encoder.0.self": weights, "pool": pool[:, :, 0]})


SLOW = [name if name == "reader" else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]


@contextmanager
def changed(
    module: Attention,
    *,
    factors: Tensor | None = None,
    weights: Callable[[Tensor, Tensor | None], Tensor] | None = None,
) -> Iterator[None]:
    """Change an attention in PyTorch: its weights as a function of them and the mask, its results by head."""
    hooks = []
    if factors is not None:
        hooks.append(
            module.combine.register_forward_hook(lambda _, arguments, found: found * factors[None, :, None, None])
        )
    if weights is not None:
        hooks.append(module.align.register_forward_hook(lambda _, arguments, found: weights(found, arguments[1])))
    try:
        yield
    finally:
        for each in hooks:
            each.remove()


def uniform(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Equal weights over the keys that a mask allows."""
    allowed = torch.ones_like(weights) if mask is None else mask.expand_as(weights).to(weights.dtype)
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)


def multiplied(weights: Tensor, keys: list[int], factor: float) -> Tensor:
    """Weights multiplied on some keys, and all of a query so that their sum stays."""
    factors = torch.ones(weights.shape[-1])
    factors[keys] = factor
    scaled = weights * factors
    after = scaled.sum(-1, keepdim=True)
    return torch.where(after > 1e-30, scaled * weights.sum(-1, keepdim=True) / after.clamp(min=1e-30), weights)


@dataclass(frozen=True)
class Served:
    """A server of one model, and the model in PyTorch."""

    client: limelight.Client
    kind: str
    trained: TrainedModel
    preprocessor: Preprocessor

    def expected(self, instance: Instance) -> dict[str, Array]:
        """PyTorch's outputs and maps for an instance alone."""
        row = self.preprocessor.row(instance)
        return pytorch_runner.run_model(self.trained.model, self.trained.card, collate_rows(self.trained.card, [row]))

    def shape(self, instance: Instance) -> tuple[int, int, int]:
        """The shape of the map: heads, queries, keys."""
        described = next(each for each in self.trained.card.description.maps if each.name == KINDS[self.kind][0])
        labels = self.preprocessor.row(instance).labels
        return described.heads, labels[described.query_labels].size, labels[described.key_labels].size


@pytest.fixture(scope="module", params=SLOW)
def served(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Served]:
    kind, repository = request.param, tmp_path_factory.mktemp("interventions")
    torch.manual_seed(0)
    texts = ("the cat sat on a mat .", "dog", "a dog ran on the mat")
    trained = tiny.trained(CausalReader(), tiny.reader_card(), *texts) if kind == "reader" else small.trained(kind)
    folder = export_model(trained, repository)
    with serving(repository) as running, limelight.Client(running.server.address) as client:
        yield Served(client, kind, trained, Preprocessor(folder))


@dataclass(frozen=True)
class Change:
    """A change of the attention of one row. head: the one that changes. keys: marked, of those there are."""

    kind: str
    head: int
    factor: float
    keys: list[bool]


changes = st.builds(
    Change,
    st.sampled_from(["none", "scale", "uniform", "given", "keys"]),
    st.integers(0, 1),
    st.floats(-2, 2, width=32),
    st.lists(st.booleans(), min_size=2, max_size=5),
)


@settings(max_examples=4, deadline=None)
@given(drawn=st.lists(changes, min_size=1, max_size=4))
def test_a_change_over_the_socket_is_the_same_change_in_pytorch(served: Served, drawn: list[Change]) -> None:
    asked, wanted = [], []
    for place, change in enumerate(drawn):
        instance = served.trained.examples[place % len(served.trained.examples)]
        message, answered = changed_row(served, instance, change)
        asked.append(message)
        wanted.append(answered)
    together, (alone,) = served.client.attend(served.kind, asked), served.client.attend(served.kind, asked[:1])
    for answer, row in zip((*together, alone), (*wanted, wanted[0]), strict=True):
        for output, array in answer.prediction.outputs.items():
            np.testing.assert_allclose(array, row[output][0], rtol=1e-5, atol=1e-5)
        found = answer[KINDS[served.kind][0]].weights
        np.testing.assert_allclose(found, row[KINDS[served.kind][0]].reshape(found.shape), rtol=1e-5, atol=1e-5)


def changed_row(served: Served, instance: Instance, change: Change) -> tuple[values_pb2.Instance, dict[str, Array]]:
    """A request for a change of one row, and PyTorch's answer with the same change."""
    name, path = KINDS[served.kind]
    module, shape = served.trained.model.get_submodule(path), served.shape(instance)
    assert isinstance(module, Attention)
    usual, head = served.expected(instance), min(change.head, shape[0] - 1)
    sharper = usual[name].reshape(shape)[[head]] ** 2  # attends to the same keys
    sharper /= sharper.sum(-1, keepdims=True)
    keys = [place for place in range(shape[2]) if change.keys[place % len(change.keys)]] or [0]

    def altered(weights: Tensor, mask: Tensor | None) -> Tensor:
        weights = weights.clone()
        if change.kind == "keys":
            weights[:, head] = multiplied(weights[:, head], keys, abs(change.factor))
            return weights
        new = uniform(weights, mask)[:, head] if change.kind == "uniform" else torch.from_numpy(sharper)
        weights[:, head] = new
        return weights

    match change.kind:
        case "none":
            return instance_to_wire(instance), usual
        case "scale":
            factors = torch.ones(shape[0])
            factors[head] = change.factor
            intervention = limelight.scale_heads(name, {head: change.factor})
            with changed(module, factors=factors):
                answered = served.expected(instance)
        case "keys":
            intervention = limelight.scale_keys(name, keys, abs(change.factor), heads=head)
            with changed(module, weights=altered):
                answered = served.expected(instance)
        case _:
            new = "uniform" if change.kind == "uniform" else sharper
            intervention = limelight.replace(name, new, heads=head)
            with changed(module, weights=altered):
                answered = served.expected(instance)
    return with_interventions(instance_to_wire(instance), [intervention]), answered


ROW = np.full((1, 1, 4), 0.25, np.float32)  # a row of "the cat sat on" that is as it should be


@pytest.mark.parametrize(
    ("intervention", "field", "said"),
    [
        (limelight.scale_heads("nothing", {0: 0}), "interventions[0].map", "encoder.0.self, pool"),
        (limelight.scale_heads("encoder.0.self", {2: 0}), "interventions[0].heads[0]", "has 2 heads"),
        (limelight.scale_heads("encoder.0.self", {0: np.nan}), "interventions[0].head_scales", "not finite"),
        (limelight.replace("encoder.0.self", ROW, heads=0), "interventions[0].weights", "[1, 4, 4]"),
        (limelight.replace("encoder.0.self", "uniform", queries=4), "interventions[0].queries[0]", "has 4 queries"),
        (limelight.replace("encoder.0.self", ROW / 2, heads=0, queries=0), "interventions[0].weights", "sums to 0.5"),
        (limelight.replace("encoder.0.self", -ROW, heads=0, queries=0), "interventions[0].weights", "negative"),
        (limelight.replace("encoder.0.self", ROW * np.nan, heads=0, queries=0), "interventions[0].weights", "finite"),
        (limelight.replace("encoder.0.self", "uniform", heads=[1, -1]), "interventions[0].heads", "twice"),
        (limelight.scale_keys("encoder.0.self", 4), "interventions[0].key_factor.keys.indices[0]", "there are 4 words"),
        (limelight.scale_keys("encoder.0.self", []), "interventions[0].key_factor.keys", "names no entry"),
        (limelight.scale_keys("encoder.0.self", 0, -1), "interventions[0].key_factor.factor", "from 0 to 1,000,000"),
        (limelight.scale_keys("encoder.0.self", 0, np.nan), "interventions[0].key_factor.factor", "from 0 to"),
        (limelight.replace("encoder.0.self", ROW, heads=0, queries=1), "interventions", "a weight of 0.25 on a key of"),
    ],
)
@pytest.mark.parametrize("served", ["reader"], indirect=True)
def test_what_cannot_be_changed_is_refused_and_the_next_call_answered(
    served: Served, intervention: limelight.Intervention, field: str, said: str
) -> None:
    text = {"text": "the cat sat on"}
    with pytest.raises((limelight.InvalidArgument, limelight.OutOfRange)) as refused:
        served.client.predict("reader", text, interventions=[intervention])
    assert f"instances[0].{field}" in str(refused.value)
    assert said in str(refused.value)
    right = limelight.replace("encoder.0.self", ROW, heads=0, queries=-1)
    answer = served.client.attend("reader", text, interventions=[right])
    np.testing.assert_allclose(answer["encoder.0.self"].weights[0, 3], 0.25, atol=1e-6)
    assert answer.prediction.provenance.graph == "intervened"
    assert served.client.predict("reader", text).provenance.graph == "main"


@pytest.mark.parametrize("served", ["reader"], indirect=True)
def test_the_description_says_which_maps_can_be_changed(served: Served) -> None:
    maps = served.client.model("reader").maps
    assert {each.name: each.interventions for each in maps} == dict.fromkeys(
        ("encoder.0.self", "pool"), ("head_scales", "weights", "key_factor")
    )


@pytest.mark.parametrize("served", ["reader"], indirect=True)
def test_a_span_of_the_text_is_looked_away_from_by_every_map(served: Served) -> None:
    maps = ("encoder.0.self", "pool")
    away = [limelight.scale_keys(name, limelight.TextSpan(4, 7)) for name in maps]
    twice = [limelight.scale_keys("pool", slice(1, 3), 2), limelight.scale_keys("pool", [2], 1.5)]
    usual, looked, doubled = (
        served.client.attend("reader", {"text": "the cat sat on"}, interventions=each) for each in ([], away, twice)
    )
    weights = looked["encoder.0.self"].weights
    assert not weights[:, 1:, 1].any() and not looked["pool"].weights[..., 1].any()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    np.testing.assert_array_equal(weights[:, 0], usual["encoder.0.self"].weights[:, 0])  # it has nothing else
    by_hand = usual["pool"].weights * [1, 2, 3, 1]
    np.testing.assert_allclose(doubled["pool"].weights, by_hand / by_hand.sum(-1, keepdims=True), rtol=1e-5)


def test_weights_that_a_loop_makes_take_none_and_are_exported() -> None:
    trained = small.trained("word-by-word")
    assert [each.name for each in build_graphs(trained.model, trained.card, interventions=True)] == ["main"]


# Of models with maps of edges: their maps.
EDGES = {"gat": ("layer.0", "layer.1"), "han": ("word",)}


@dataclass(frozen=True)
class EdgeChange:
    """A change of every kind: weights are given to a query of the first head, and equal in the last head."""

    keys: list[int]
    factor: float
    query: int
    new: Array
    scale: float

    def asked(self, name: str) -> list[limelight.Intervention]:
        """What a client asks for."""
        return [
            limelight.scale_keys(name, self.keys, self.factor),
            limelight.replace(name, "uniform", heads=-1),
            limelight.replace(name, self.new[np.newaxis], heads=0, queries=self.query),
            limelight.scale_heads(name, {0: self.scale}),
        ]

    def of(self, weights: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Change weights [edge, head]. query, key: of each edge."""
        changed = weights.clone()
        for one in query.unique().tolist():
            own = (query == one).nonzero()[:, 0]
            own = own[key[own].argsort()]
            changed[own, -1] = 1 / len(own)
            if one == self.query:
                changed[own, 0] = torch.from_numpy(self.new)
            scaled = (
                changed[own] * torch.where(torch.isin(key[own], torch.tensor(self.keys)), self.factor, 1.0)[:, None]
            )
            left = scaled.sum(0)
            changed[own] = torch.where(left > 1e-30, scaled / left.clamp(min=1e-30), changed[own])
        return changed

    @contextmanager
    def in_pytorch(self, served: TrainedModel, name: str, row: Row) -> Iterator[None]:
        """Change a map in PyTorch, of a row alone."""
        if name == "word":
            mask = torch.from_numpy(row.tensors["token_mask"])
            query, key = mask.nonzero()[:, 0], torch.arange(int(mask.sum()))

            def altered(weights: Tensor, _: Tensor | None) -> Tensor:
                made = torch.zeros_like(weights)
                made[:, 0, 0][mask] = self.of(weights[:, 0, 0][mask][:, None], query, key)[:, 0]
                return made

            attention = served.model.get_submodule("words.attention")
            assert isinstance(attention, Attention)
            with changed(attention, factors=torch.tensor([self.scale]), weights=altered):
                yield
            return
        layer, softmax, weighted_sum = int(name[-1]), edges.softmax, edges.weighted_sum
        calls, sums, sources = itertools.count(), itertools.count(), torch.from_numpy(row.tensors["sources"])

        def softmax_changed(scores: Tensor, query_index: Tensor, queries: int) -> Tensor:
            weights = softmax(scores, query_index, queries)
            return self.of(weights, query_index, sources) if next(calls) == layer else weights

        def sum_changed(weights: Tensor, *others: Any) -> Tensor:
            scales = torch.ones(weights.shape[1])
            scales[0] = self.scale if next(sums) == layer else 1
            return weighted_sum(weights * scales, *others)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(edges, "softmax", softmax_changed)
            patch.setattr(edges, "weighted_sum", sum_changed)
            yield


@pytest.mark.parametrize("name", EDGES)
def test_changes_of_edges_are_those_in_pytorch(name: str, tmp_path: Path) -> None:
    """Of each map of edges, for one row of a batch with others, and alone."""
    torch.manual_seed(0)
    trained, random = small.trained(name), np.random.default_rng(0)
    preprocessor = Preprocessor(export_model(trained, tmp_path))
    with serving(tmp_path) as running, limelight.Client(running.server.address) as client:
        asked = [instance_to_wire(each) for each in trained.examples[:3]]
        kinds = {each.name: each.interventions for each in client.model(name).maps}
        for map_name, place in itertools.product(EDGES[name], (0, len(asked) - 1)):
            assert kinds[map_name] == ("head_scales", "weights", "key_factor")
            usual = client.attend(name, asked[place])[map_name]
            assert usual.edges is not None
            query = int(usual.edges.query_index[-1])
            new = random.dirichlet(np.ones((usual.edges.query_index == query).sum())).astype(np.float32)
            change = EdgeChange([0, int(usual.edges.key_index[-1])], 0.25, query, new, -0.5)
            sent = [*asked]
            sent[place] = with_interventions(asked[place], change.asked(map_name))
            together, alone = client.attend(name, sent), client.attend(name, sent[place])
            for number, answer in [*enumerate(together), (place, alone)]:
                row = preprocessor.row(trained.examples[number])
                with change.in_pytorch(trained, map_name, row) if number == place else nullcontext():
                    wanted = pytorch_runner.run_model(trained.model, trained.card, collate_rows(trained.card, [row]))
                (expected,) = single_pass_answers(trained.card, wanted, [row])
                for each in answer.maps:
                    np.testing.assert_allclose(each.weights, expected.maps[each.name].weights, atol=1e-5)
                for output, array in answer.prediction.outputs.items():
                    np.testing.assert_allclose(array, expected.outputs[output], rtol=1e-5, atol=1e-5)
        refused = limelight.replace(EDGES[name][0], np.ones((1, 2)), heads=0)
        with pytest.raises(limelight.InvalidArgument, match=r"it takes FLOAT32 \[head, edge\] = "):
            client.predict(name, asked[0], interventions=[refused])
