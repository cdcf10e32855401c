"""What a card says is what the model does."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image as Picture

from bundle.checks.features import used_features
from bundle.maps import WEIGHTS, bound_maps, canonical, cut, map_key, map_quantities, nested_mask_name
from bundle.v1 import bundle_pb2
from bundle.values import Graph, Image, Instance, Pair, Sentences, Text
from export.interface import map_binding
from models.cards.card import Card
from models.data import tokenizers
from models.training.recipe import Blueprint
from models.zoo.index import recipe
from tests.models import small
from tests.models.small import TEXT

ASKED = ("hiecoatt", "hiecoatt-alternating", "mcan", "psac")


def png(seed: int, size: tuple[int, int] = (9, 7)) -> Image:
    buffer = io.BytesIO()
    Picture.fromarray(np.random.default_rng(seed).integers(0, 256, size, np.uint8)).save(buffer, "PNG")
    return Image(buffer.getvalue())


def graph(nodes: int, edges: list[tuple[int, int]]) -> Graph:
    features = np.random.default_rng(nodes).random((nodes, small.GAT.features), np.float32)
    return Graph(features, np.array(edges, np.int64).reshape(-1, 2).T.copy())


def case(name: str) -> tuple[Card, list[Instance]]:
    """A card, and instances of different lengths."""
    written: list[Instance] = [
        {"text": Text("rains"), "target": Text("cats")},
        {"text": Text("a"), "target": Text("stac")},
    ]
    instances: dict[str, list[Instance]] = {
        "han": [{"document": Text(each)} for each in TEXT],
        **dict.fromkeys(("bahdanau", "luong", "transformer", "gpt"), written),
        "rnn-capsule": [{"text": Text(each)} for each in TEXT],
        "dme": [{"text": Text(each)} for each in TEXT],
        "disan": [{"pair": Pair(TEXT[0], TEXT[1])}, {"pair": Pair(TEXT[1], TEXT[1])}],
        "mme": [{"document": Sentences(("cats", "sat"))}, {"document": Text("the cat sat")}],
        "lcr-rot-hop": [
            {"left": Text("It rains"), "target": Text("all day"), "right": Text(". We stay at home!")},
            {"left": Text("."), "target": Text("The cat"), "right": Text("sat")},
        ],
        "rban": [{"pair": Pair(TEXT[1], TEXT[0])}, {"pair": Pair(TEXT[1], TEXT[1])}],
        "hatn": [{"document": Text(each)} for each in TEXT],
        "gat": [{"graph": graph(3, [(0, 1), (2, 1)])}, {"graph": graph(1, [])}],
        **{name: [{"image": png(seed)} for seed in range(2)] for name in ("vit", "cct", "attention-unet")},
        "sagan": [{"class": Text(each)} for each in ("cat", "sat")],
        "show-attend-tell": [{"image": png(seed), "target": Text("cats")} for seed in range(2)],
    }
    for asked in ASKED:
        instances[asked] = [{"image": png(seed), "question": Text(each)} for seed, each in enumerate(TEXT)]
    return small.card(name), instances[name if name in instances else small.base(name)]


@pytest.mark.parametrize(
    "name",
    [
        "han",
        "bahdanau",
        "luong",
        "vit",
        "cct",
        "rnn-capsule",
        "dme",
        "mme",
        "attention-unet",
        "lcr-rot-hop",
        "hatn",
        *ASKED,
    ],
)
def test_a_model_gives_the_outputs_and_maps_of_its_card_as_large_as_the_labels_say(name: str) -> None:
    card, instances = case(name)
    description = card.description
    rows = [card.preprocessor().row(instance) for instance in instances]
    batch = card.collate(rows)
    answer = small.make(name).float()(**{key: torch.from_numpy(array) for key, array in batch.items()})
    assert set(answer.outputs) == {each.name for each in description.outputs}
    assert list(answer.maps) == [map_key(each.name, quantity) for each, quantity in map_quantities(description.maps)]
    assert [each.name for each in description.maps] == list(card.map_axes)
    for each in description.maps:
        whole = canonical(answer.maps[each.name].numpy(), card.map_axes[each.name])
        assert whole.shape[1] == each.heads
        if name in ("bahdanau", "luong"):  # output steps are not known before the model runs
            assert whole.shape[2] == batch["target_ids"].shape[1]
            assert whole.shape[3] == max(row.labels["source"].size for row in rows)
            continue
        for number, row in enumerate(rows):
            weights = cut(whole[number], each, row.labels, row, nested_mask_name(description, each, card.bound()))
            queries, keys = row.labels[each.query_labels].size, row.labels[each.key_labels].size
            if weights.query_index is None:
                assert weights.weights.shape == (each.heads, queries, keys)
                assert not each.normalised or np.allclose(weights.weights.sum(-1), 1, atol=1e-5)
            else:
                assert weights.weights.shape == (1, keys) and weights.query_index.max() == queries - 1
                sums = np.bincount(weights.query_index, weights.weights[0])
                assert np.allclose(sums, 1, atol=1e-5)


def test_a_network_for_program_code_reads_lines_and_its_bundle_requires_that() -> None:
    text = "def half(x):\n    # Of x. Or less.\n    return x / 2\n"
    pieces = tokenizers.pieces([text] * 9, vocabulary=60, output=False)
    config = replace(small.HAN, vocabulary=tokenizers.size(pieces), lines=True)
    blueprint = Blueprint(config, ("a", "b", "c"), {"tokenizer.json": pieces})
    chosen = recipe("han-code")
    card = chosen.card(chosen.build(blueprint), blueprint)
    labels = card.preprocessor().row({"document": Text(text)}).labels["sentences"]
    lines = [text[start:end] for start, end in zip(labels.starts, labels.ends, strict=True)]
    assert lines == ["def half(x):", "# Of x. Or less.", "return x / 2"]
    assert used_features(card.bundle()) == ["lines"]


def test_a_network_of_graphs_gives_edges_with_what_they_lead_from_and_to() -> None:
    """0 -> 1 <- 2, and a node alone: with opposites and loops 7 edges and 1, each node's weights summing to 1."""
    card, instances = case("gat")
    rows = [card.preprocessor().row(instance) for instance in instances]
    tensors = {name: torch.from_numpy(array) for name, array in card.collate(rows).items()}
    assert not {each.name for each in card.description.outputs} & set(tensors)
    answer = small.make("gat").float()(**tensors)
    assert answer.outputs["logits"].shape == (4, 3)
    assert list(answer.maps) == [each.name for each in card.description.maps] == list(card.edges)
    bundle = card.bundle()
    bundle.maps.extend(map_binding(card, name, WEIGHTS, "main") for name in answer.maps)
    found = {name: tensor.numpy() for name, tensor in {**answer.maps, **answer.edges}.items()}
    for bound in bound_maps(bundle, "main", card.bound()).values():
        first, second = bound.rows(found, rows)
        assert first.query_index is not None and first.key_index is not None and second.query_index is not None
        pairs = list(zip(first.query_index.tolist(), first.key_index.tolist(), strict=True))
        assert pairs == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]
        assert first.weights.shape == (bound.description.heads, 7)
        for head in first.weights:
            assert np.allclose(np.bincount(first.query_index, head), 1, atol=1e-5)
        assert second.query_index.tolist() == [0] and np.allclose(second.weights, 1)


@pytest.mark.parametrize(
    "name",
    [
        "han",
        "bahdanau",
        "luong",
        "gat",
        "vit",
        "rnn-capsule",
        "disan",
        "dme",
        "mme",
        "show-attend-tell",
        "attention-unet",
        "sagan",
        "lcr-rot-hop",
        "rban",
        "hatn",
        "cct",
        *ASKED,
    ],
)
def test_a_card_says_where_the_model_stands(name: str) -> None:
    description = case(name)[0].description
    columns = [list(getattr(description.taxonomy, field.name)) for field in description.taxonomy.DESCRIPTOR.fields]
    assert all(columns) and len(columns) == 8
    assert description.citation.year and description.summary.endswith(".")
    names = {each.name for each in description.label_sets}
    assert all({each.query_labels, each.key_labels} <= names for each in description.maps)


@pytest.mark.parametrize("name", ["bahdanau", "luong"])
def test_the_states_of_the_decoder_are_those_of_its_card(name: str) -> None:
    card, instances = case(name)
    model = small.make(name)
    generation = card.generation
    assert isinstance(generation, bundle_pb2.Generation)
    row = card.preprocessor().row(instances[0])
    encoded = model.float().encode(**{key: torch.from_numpy(array)[None] for key, array in row.tensors.items()})
    assert {state.encoder_output for state in generation.states} <= set(encoded)
    assert row.tensors["target_ids"][-1] == generation.end_token


def test_two_results_can_be_read_from_one_output() -> None:
    description = case("rnn-capsule")[0].description
    assert [each.name for each in description.outputs] == ["logits"]
    assert [(each.name, each.classes.output) for each in description.results] == [
        ("class", "logits"),
        ("capsules", "logits"),
    ]
