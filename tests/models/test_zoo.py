"""Every published model and every variant by what must hold for all: names, cards, company, controls, steps."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from limelight_bundle.checks.features import used_features
from limelight_bundle.maps import WEIGHTS, bound_maps, canonical, cut, map_key, map_quantities, nested_mask_name
from limelight_bundle.rows import Row
from limelight_bundle.values import Text
from limelight_export.interface import map_binding
from limelight_models import index
from limelight_models.cards.card import Card
from limelight_models.data import rows
from limelight_models.data.dataset import DataError
from limelight_models.index import recipe, variants
from limelight_models.network import Answer, GeneratingNetwork, Network
from limelight_models.recipes import controls
from limelight_models.recipes.alignments import ALIGNMENTS
from limelight_models.recipes.recipe import Recipe
from limelight_models.tasks.generate import greedy
from limelight_models.tasks.stepping import Stepping
from tests.kit import examples, small
from tests.kit.small import NAMES, PUBLISHED

few = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
every = pytest.mark.parametrize("name", NAMES)
published = pytest.mark.parametrize("name", PUBLISHED)
GRAPHS = [name for name in NAMES if small.card(name).edges]
WRITING = [name for name in NAMES if recipe(name).data is rows.PAIRS]  # they put out a text, from one
SCALE = 8  # times as large as the examples' pictures: what the coarsest cells of the papers divide
# Their weights are similarities, a softmax of edges, a gate, windows, drawn, an entmax already, or never formed.
LONG = {name for name, entry in index.ZOO.items() if entry.module.startswith("long.")}
WITHOUT_SOFTMAX = {
    "abcnn",
    "gat",
    "gaan",
    "ggru",
    "dmn",
    "attention-unet",
    "adaptively-sparse",
    "linear-gpt",
    "stand-alone",
    "axial",
    *LONG - {"forgetting-transformer", "differential-transformer", "dynamic-span", "gated-attention", "rotary"},
}


def rows_of(name: str) -> tuple[Card, list[Row]]:
    """A card, and the examples as it reads them."""
    card = small.card(name)
    return card, [card.preprocessor().row(each.instance) for each in small.data(name).test]


def masks(card: Card) -> list[str]:
    """The masks of what a model reads; not of what forces its output."""
    return [each.mask for each in card.tensors if each.mask and each.tensor != "target_ids"]


def size(network: Network) -> int:
    return sum(each.numel() for each in network.parameters())


@every
def test_a_name_leads_to_a_recipe_and_its_card_says_where_the_model_stands(name: str) -> None:
    found, description = recipe(name), small.card(name).description
    assert isinstance(found, Recipe) and {"tiny", "full"} <= set(found.presets)
    assert ("demo" in found.presets) == (found.builtin is not None)
    columns = [list(getattr(description.taxonomy, field.name)) for field in description.taxonomy.DESCRIPTOR.fields]
    assert all(columns) and len(columns) == 8
    assert description.title and description.citation.year and description.summary.endswith(".")
    sets = {each.name for each in description.label_sets}
    assert all({each.query_labels, each.key_labels} <= sets for each in description.maps)
    assert all(each.summary.endswith(".") for each in description.maps)


def test_a_recipe_brings_in_no_other_model() -> None:
    code = "import sys; from limelight_models.index import recipe; recipe('han'); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    assert "limelight_models.zoo.hierarchical.han" in loaded
    others = tuple(f"limelight_models.{each}" for each in ("zoo.vision", "zoo.rnn", "testbed"))
    assert not [name for name in loaded if name.startswith(others)]


@pytest.mark.parametrize(
    ("name", "mechanism", "message"),
    [
        ("bert", "", "there is no model 'bert'; there are bahdanau"),
        ("bert-frozen", "", "there is no model 'bert-frozen'"),
        ("han", "sparsemax", "only the model `mechanism` takes another"),
        ("mechanism", "", "say which mechanism"),
        ("mechanism", "soft", "there is no mechanism 'soft'"),
        ("mechanism", "sparsmax", "did you mean 'sparsemax'"),
        ("mechanism", "coverage penalty", "'coverage penalty' is there to train other mechanisms with"),
    ],
)
def test_what_is_not_there_is_said(name: str, mechanism: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        recipe(name, mechanism)


@published
def test_a_model_has_the_sizes_of_its_paper(name: str) -> None:
    """As data make it, on a device that has shapes alone. The network of lines of code is this project's."""
    chosen = recipe(name)
    assert ("paper" in chosen.presets) == (name != "han-code")
    preset = chosen.presets["paper" if name != "han-code" else "full"]
    blueprint = chosen.prepare(examples.dataset(chosen.data, SCALE), preset)
    assert asdict(blueprint.config).items() >= preset.sizes.items()
    with torch.device("meta"):
        network = chosen.build(blueprint)
    assert all(each.is_meta for each in network.parameters())
    assert chosen.card(network, blueprint).description.maps


@published
def test_controls_and_other_alignments_are_of_equal_size_and_say_what_they_are(name: str) -> None:
    assert set(index.CONTROLS) == set(controls.CONTROLS) and tuple(ALIGNMENTS) == index.ALIGNMENTS
    model, frozen, uniform = (small.build(each) for each in (name, f"{name}-frozen", f"{name}-uniform"))
    still = [{key for key, each in one.named_parameters() if not each.requires_grad} for one in (model, frozen)]
    assert still[0] < still[1] < {key for key, _ in frozen.named_parameters()}
    assert size(model) == size(frozen) and (size(uniform) == size(model) or name == "gat")
    plan, own = small.blueprint(name), small.card(name)
    if name in WITHOUT_SOFTMAX:
        with pytest.raises(DataError, match=f"{name} has no softmax over scores that sparsemax could replace"):
            recipe(name, attention="sparsemax").build(plan)
        return
    for chosen in ALIGNMENTS:
        other = recipe(name, attention=chosen)
        network = other.build(plan)
        described = other.card(network, plan).description
        assert size(network) == size(model) and list(described.taxonomy.alignment) == [chosen]
        sums = [each.normalised for each in described.maps]
        assert sums == [each.normalised for each in own.description.maps] if chosen != "sigmoid" else not all(sums)


@every
def test_a_model_gives_the_outputs_and_maps_of_its_card_as_large_as_the_labels_say(name: str) -> None:
    card, made = rows_of(name)
    description, batch, model = card.description, small.batch(card, made), small.make(name).float()
    assert isinstance(model, GeneratingNetwork) == (card.generation is not None)
    answer = model(**batch)
    assert set(answer.outputs) == {each.name for each in (*description.outputs, *description.hidden)}
    assert list(answer.maps) == [map_key(each.name, quantity) for each, quantity in map_quantities(description.maps)]
    assert [each.name for each in description.maps] == list(card.map_axes)
    steps = {each.name for each in description.label_sets if each.name not in made[0].labels}
    assert bool(steps) == (card.generation is not None), "only what is put out is not known before the model runs"
    for each in description.maps:
        if each.name in card.edges:
            continue  # below
        whole = canonical(answer.maps[each.name].numpy(), card.map_axes[each.name])
        assert whole.shape[1] == each.heads and whole.shape[4:] == ((each.features,) if each.features else ())
        if each.query_labels in steps:
            assert whole.shape[2] == batch["target_ids"].shape[1]
            assert each.key_labels in steps or whole.shape[3] == max(row.labels[each.key_labels].size for row in made)
            continue
        for number, row in enumerate(made):
            weights = cut(whole[number], each, row.labels, row, nested_mask_name(description, each, card.bound()))
            queries, keys = row.labels[each.query_labels].size, row.labels[each.key_labels].size
            if weights.query_index is None:
                assert weights.weights.shape[:3] == (each.heads, queries, keys)
                sums = weights.weights.sum(2)
            else:
                assert weights.weights.shape == (1, keys) and weights.query_index.max() == queries - 1
                sums = np.bincount(weights.query_index, weights.weights[0])
            # What there is nothing to look at for has zeros.
            assert not each.normalised or np.all(np.isclose(sums, 1, atol=1e-5) | (sums == 0))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_network_of_graphs_gives_edges_with_what_they_lead_from_and_to(name: str) -> None:
    """0 -> 1 <- 2, and a node alone: 2 edges and none, with opposites and loops 7 and 1; weights of a node sum to 1."""
    card, made = rows_of(name)
    made = made[:2]
    tensors = small.batch(card, made)
    assert not {each.name for each in card.description.outputs} & set(tensors)
    answer = small.make(name).float()(**tensors)
    assert [len(each) for each in answer.outputs.values()] == [4]
    assert list(answer.maps) == [each.name for each in card.description.maps] == list(card.edges)
    bundle = card.bundle()
    bundle.maps.extend(map_binding(card, each, WEIGHTS, "main") for each in answer.maps)
    found = {each: tensor.numpy() for each, tensor in {**answer.maps, **answer.edges}.items()}
    (step,) = (step.read_graph for each in card.preprocessing for step in each.steps)
    whole = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)] if step.self_loops else [(1, 0), (1, 2)]
    for bound in bound_maps(bundle, "main", card.bound()).values():
        first, second = bound.rows(found, made)
        assert first.query_index is not None and first.key_index is not None and second.query_index is not None
        pairs = list(zip(first.query_index.tolist(), first.key_index.tolist(), strict=True))
        assert pairs == whole
        assert first.weights.shape == (bound.description.heads, len(whole))
        assert second.query_index.tolist() == [0] * step.self_loops
        if bound.description.normalised:
            for head in first.weights:
                assert np.allclose(np.bincount(first.query_index, head)[first.query_index], 1, atol=1e-5)
            assert np.allclose(second.weights, 1)


def answered(model: Network, tensors: dict[str, Tensor]) -> Answer:
    """In float64."""
    doubled = {name: each.double() if each.is_floating_point() else each for name, each in tensors.items()}
    answer: Answer = model(**doubled)
    return answer


@published
@few
@given(data=st.data())
def test_an_instance_is_answered_the_same_in_any_company(name: str, data: st.DataObject) -> None:
    for one in (name, *variants(name), f"{name}-uniform"):
        card, model = small.card(one), small.make(one)
        resembling = examples.resembling(card.description.inputs, small.data(one).test)
        made = [card.preprocessor().row(each) for each in data.draw(st.lists(resembling, min_size=1, max_size=4))]
        alone = [answered(model, small.batch(card, [row])) for row in made]
        batched = answered(model, small.batch(card, made))
        if card.edges:
            check_joined(alone, batched, [len(row.tensors["nodes"]) for row in made])
            continue
        for number, answer in enumerate(alone):
            small.same(answer, batched, number, steps=card.generation is not None or index.published(name) in LONG)
        for each in (each.name for each in card.description.maps if each.normalised):
            for answer in alone:
                sums = answer.maps[each].sum(3)
                assert torch.all(torch.isclose(sums, torch.ones_like(sums), atol=1e-9) | (sums == 0)), each


def check_joined(alone: list[Answer], batched: Answer, nodes: list[int]) -> None:
    """Graphs lie one after the other in a batch; nodes are counted on."""
    for group in ("outputs", "maps", "edges"):
        for each, found in getattr(batched, group).items():
            wanted = torch.cat([getattr(answer, group)[each] for answer in alone])
            if group == "edges":
                before = torch.tensor([0, *nodes[:-1]]).cumsum(0)
                wanted = wanted + before.repeat_interleave(torch.tensor([len(answer.edges[each]) for answer in alone]))
            assert torch.allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if masks(small.card(name))])
def test_without_the_mask_padding_changes_the_answer(name: str) -> None:
    """The sabotage that the test above must notice."""
    (card, made), model = rows_of(name), small.make(name)
    tensors = small.batch(card, made)
    unmasked = {**tensors, **{mask: torch.ones_like(tensors[mask]) for mask in masks(card)}}
    with pytest.raises(AssertionError):
        for number, row in enumerate(made):
            alone = answered(model, small.batch(card, [row]))
            steps = card.generation is not None or index.published(name) in LONG
            small.same(alone, answered(model, unmasked), number, steps=steps)


def writer(name: str) -> tuple[Network, Callable[[Tensor], dict[str, Tensor]]]:
    """A model that writes, and what makes its tensors of token ids."""
    (mask,) = masks(small.card(name))
    return small.make(name), lambda ids: {mask.replace("mask", "ids"): ids, mask: ids != 0}


@pytest.mark.parametrize("name", WRITING)
def test_stepping_gives_what_all_tokens_at_once_give(name: str) -> None:
    """Sources of different lengths share the steps, and what stands in a cache past a row's own says nothing."""
    card, (model, read) = small.card(name), writer(name)
    assert isinstance(model, GeneratingNetwork) and card.generation is not None and card.written is not None
    ids = small.stack([small.text(length, length) for length in (2, 7, 4)], 1)
    target = small.text(4, 9, card.written.tokenizer.vocabulary)  # trees have few symbols
    tensors = read(ids)
    starts = {state.encoder_output for state in card.generation.states if state.encoder_output}
    assert starts <= set(model.encode(**tensors))
    forced = model(**tensors, target_ids=target.expand(3, -1))
    stepping = Stepping(model, card.written, tensors)
    for state in card.written.states:
        if state.cache is not None:
            stepping.states[state.input][:, :, 7:] = 7.0
    for step in range(4):
        answer = stepping.step()
        assert torch.allclose(answer.scores, forced.outputs["scores"][:, step], atol=1e-10)
        for each, vectors in answer.hidden.items():
            assert torch.allclose(vectors, forced.outputs[each][:, step], atol=1e-10)
        for each, row in answer.maps.items():
            whole = forced.maps[each][:, :, step]
            keys = min(row.shape[-1], whole.shape[-1])
            assert torch.allclose(row[..., :keys], whole[..., :keys], atol=1e-10)
            assert not row[..., keys:].any()
        stepping.token = target[step].expand(3)


@pytest.mark.parametrize("name", WRITING)
def test_greedy_decoding_in_a_batch_equals_alone_and_follows_the_best_scores(name: str) -> None:
    (card, made), (model, read) = rows_of(name), writer(name)
    assert isinstance(model, GeneratingNetwork) and card.written is not None
    assert made[0].tensors["target_ids"][-1] == card.written.end
    ids = small.stack([small.text(length, length) for length in (2, 6, 4)])
    for row, tokens in zip(ids, greedy(model, card.written, read(ids)), strict=True):
        alone = read(row[row != 0][None])
        assert greedy(model, card.written, alone) == [tokens]
        forced = model(**alone, target_ids=torch.tensor([tokens]))
        assert forced.outputs["scores"].argmax(-1)[0].tolist() == list(tokens)
        assert len([token for token in tokens if token != card.written.end]) <= card.written.max_new_tokens


def test_a_network_for_program_code_reads_lines_and_its_bundle_requires_that() -> None:
    text = "def half(x):\n    # Of x. Or less.\n    return x / 2\n"
    card = small.card("han-code")
    labels = card.preprocessor().row({"document": Text(text)}).labels["sentences"]
    lines = [text[start:end] for start, end in zip(labels.starts, labels.ends, strict=True)]
    assert lines == ["def half(x):", "# Of x. Or less.", "return x / 2"]
    assert used_features(card.bundle()) == ["lines"]
