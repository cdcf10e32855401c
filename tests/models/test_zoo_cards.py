"""A card says what the model does."""

import numpy as np
import pytest

from limelight_bundle.checks.features import used_features
from limelight_bundle.maps import WEIGHTS, bound_maps, canonical, cut, map_key, map_quantities, nested_mask_name
from limelight_bundle.rows import Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Text
from limelight_export.interface import map_binding
from limelight_models.cards.card import Card
from limelight_models.network import GeneratingNetwork
from tests.kit import small
from tests.kit.small import NAMES, PUBLISHED


def rows_of(name: str) -> tuple[Card, list[Row]]:
    """A card, and the examples as it reads them."""
    card = small.card(name)
    return card, [card.preprocessor().row(each.instance) for each in small.data(name).test]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_the_outputs_and_maps_of_its_card_as_large_as_the_labels_say(name: str) -> None:
    card, rows = rows_of(name)
    description, batch = card.description, small.batch(card, rows)
    answer = small.make(name).float()(**batch)
    assert set(answer.outputs) == {each.name for each in description.outputs}
    assert list(answer.maps) == [map_key(each.name, quantity) for each, quantity in map_quantities(description.maps)]
    assert [each.name for each in description.maps] == list(card.map_axes)
    steps = {each.name for each in description.label_sets if each.name not in rows[0].labels}
    assert bool(steps) == (card.generation is not None), "only what is put out is not known before the model runs"
    for each in description.maps:
        if each.name in card.edges:
            continue  # below
        whole = canonical(answer.maps[each.name].numpy(), card.map_axes[each.name])
        assert whole.shape[1] == each.heads and whole.shape[4:] == ((each.features,) if each.features else ())
        if each.query_labels in steps:
            assert whole.shape[2] == batch["target_ids"].shape[1]
            assert each.key_labels in steps or whole.shape[3] == max(row.labels[each.key_labels].size for row in rows)
            continue
        for number, row in enumerate(rows):
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


@pytest.mark.parametrize("name", [name for name in NAMES if small.recipe(name).data == "graphs"])
def test_a_network_of_graphs_gives_edges_with_what_they_lead_from_and_to(name: str) -> None:
    """0 -> 1 <- 2, and a node alone: with opposites and loops 7 edges and 1; what is normalised sums to 1 a node."""
    card, rows = rows_of(name)
    rows = rows[:2]
    tensors = small.batch(card, rows)
    assert not {each.name for each in card.description.outputs} & set(tensors)
    answer = small.make(name).float()(**tensors)
    assert answer.outputs["logits"].shape == (4, len(small.blueprint(name).labels))
    assert list(answer.maps) == [each.name for each in card.description.maps] == list(card.edges)
    bundle = card.bundle()
    bundle.maps.extend(map_binding(card, each, WEIGHTS, "main") for each in answer.maps)
    found = {each: tensor.numpy() for each, tensor in {**answer.maps, **answer.edges}.items()}
    for bound in bound_maps(bundle, "main", card.bound()).values():
        first, second = bound.rows(found, rows)
        assert first.query_index is not None and first.key_index is not None and second.query_index is not None
        pairs = list(zip(first.query_index.tolist(), first.key_index.tolist(), strict=True))
        assert pairs == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]
        assert first.weights.shape == (bound.description.heads, 7)
        assert second.query_index.tolist() == [0]
        if bound.description.normalised:
            for head in first.weights:
                assert np.allclose(np.bincount(first.query_index, head), 1, atol=1e-5)
            assert np.allclose(second.weights, 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_card_says_where_the_model_stands(name: str) -> None:
    description = small.card(name).description
    columns = [list(getattr(description.taxonomy, field.name)) for field in description.taxonomy.DESCRIPTOR.fields]
    assert all(columns) and len(columns) == 8
    assert description.title and description.citation.year and description.summary.endswith(".")
    names = {each.name for each in description.label_sets}
    assert all({each.query_labels, each.key_labels} <= names for each in description.maps)
    assert all(each.summary.endswith(".") for each in description.maps)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if "pairs" in str(small.recipe(name).data)])
def test_the_states_of_a_decoder_are_those_of_its_card(name: str) -> None:
    card, rows = rows_of(name)
    model = small.make(name)
    generation = card.generation
    if generation is None:
        assert not isinstance(model, GeneratingNetwork)
        return
    assert isinstance(generation, bundle_pb2.Generation) and isinstance(model, GeneratingNetwork)
    encoded = model.float().encode(**small.batch(card, rows[:1]))
    assert {state.encoder_output for state in generation.states if state.encoder_output} <= set(encoded)
    assert rows[0].tensors["target_ids"][-1] == generation.end_token


def test_a_network_for_program_code_reads_lines_and_its_bundle_requires_that() -> None:
    text = "def half(x):\n    # Of x. Or less.\n    return x / 2\n"
    card = small.card("han-code")
    labels = card.preprocessor().row({"document": Text(text)}).labels["sentences"]
    lines = [text[start:end] for start, end in zip(labels.starts, labels.ends, strict=True)]
    assert lines == ["def half(x):", "# Of x. Or less.", "return x / 2"]
    assert used_features(card.bundle()) == ["lines"]


def test_two_results_can_be_read_from_one_output() -> None:
    description = small.card("rnn-capsule").description
    assert [each.name for each in description.outputs] == ["logits"]
    assert [(each.name, each.classes.output) for each in description.results] == [
        ("class", "logits"),
        ("capsules", "logits"),
    ]
