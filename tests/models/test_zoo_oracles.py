"""Published models against transcriptions of their papers in NumPy (`tests/oracles/zoo`)."""

import ast
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tests.oracles
import tests.oracles.zoo
from limelight_models.index import ZOO, published, variants
from limelight_models.network import Answer
from limelight_models.zoo.long.routing_transformer import Routing
from limelight_models.zoo.reading.qanet import EncoderBlock
from limelight_models.zoo.sentences.diversity import conicity, pairwise_cosine
from limelight_models.zoo.sentences.structured import redundancy
from tests.kit import small

FILES = {path.stem for path in Path(tests.oracles.zoo.__file__).parent.glob("[a-z]*.py")}
MODELS = {name: file for name, entry in ZOO.items() if (file := entry.module.rpartition(".")[2]) in FILES}
SIGNAL = "signal."


def transcription(name: str) -> Any:
    """The file of a model's paper, or of that whose variant it is."""
    return import_module(f"tests.oracles.zoo.{MODELS[published(name)]}")


def test_every_transcription_is_of_a_model() -> None:
    assert set(MODELS.values()) == FILES


def test_no_oracle_imports_what_it_judges() -> None:
    imported = set[str]()
    for path in Path(tests.oracles.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            imported |= {*names, node.module or ""} if isinstance(node, ast.ImportFrom) else set(names)
    assert {"numpy", "tests.oracles.zoo"} <= imported
    assert not [name for name in imported if name.startswith(("limelight", "importlib"))]


def no_module(*_: object, **__: object) -> None:
    """Take the place of a call of any module."""
    raise AssertionError("an oracle asks a module of the network")


@pytest.mark.parametrize("name", [name for model in MODELS for name in (model, *variants(model))])
def test_a_model_answers_as_its_paper_says(name: str) -> None:
    oracle = transcription(name)
    network, card = small.make(name), small.card(name)
    for example in small.data(name).test:
        read = small.batch(card, [card.preprocessor().row(example.instance)])
        batch = {each: tensor.double() if tensor.is_floating_point() else tensor for each, tensor in read.items()}
        found = network(**batch)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.nn.Module, "__call__", no_module)  # for its parameters alone
            wanted = oracle.answer(network, {each: tensor[0].numpy() for each, tensor in batch.items()})
        signals = {f"{SIGNAL}{each}": value for each, value in found.signals.items()}
        hidden = {each.name for each in card.description.hidden}  # tests/end_to_end/test_zoo_hidden.py has these
        outputs = {each: value for each, value in found.outputs.items() if each not in hidden}
        given = {**outputs, **found.maps, **signals}
        assert set(given) == set(wanted)
        for each, value in wanted.items():
            np.testing.assert_allclose(given[each][0].numpy(), value, rtol=1e-10, atol=1e-12, err_msg=each)


def test_rows_on_one_word_each_and_apart_cost_nothing_and_others_are_part_of_what_is_learned() -> None:
    apart = torch.eye(3)[None, :2]
    assert redundancy(apart).tolist() == [0.0] and redundancy(apart[:, [0, 0]]).tolist() == [2.0]
    answer = Answer({}, {}, {"penalty": torch.tensor([1.0, 2.0])})
    losses, target = torch.tensor([0.5, 0.5]), torch.tensor([0, 1])
    price = small.config("structured").penalty
    for name, cost in (("structured", 3 * price), ("structured-free", 0.0)):
        assert small.build(name).objective(losses, answer, target).item() == pytest.approx(1.0 + cost)


def test_looking_back_far_costs_its_price_by_the_mean_span_of_a_text() -> None:
    spans = {
        "span.0.self": torch.tensor([[[[2.0], [4.0], [0.0]]]]),
        "span.1.self": torch.tensor([[[[6.0], [4.0], [0.0]]]]),
    }
    losses, price = torch.tensor([0.5]), small.config("dynamic-span").price
    for maps, cost in ((spans, 4 * price), ({}, 0.0)):
        found = small.build("dynamic-span").objective(losses, Answer({}, maps), torch.tensor([0]))
        assert found.item() == pytest.approx(0.5 + cost)


def test_without_attention_within_sentences_the_order_of_words_says_nothing() -> None:
    first, second = small.text(5, 1)[None], small.text(3, 2)[None]
    pair = {"first_mask": first != 0, "second_ids": second, "second_mask": second != 0}
    for name, blind in (("decomposable-attention", True), ("decomposable-attention-within", False)):
        model = small.make(name)
        said, turned = (model(first_ids=ids, **pair).outputs["logits"] for ids in (first, first.flip(1)))
        assert torch.allclose(said, turned) == blind


def test_a_long_state_hides_from_conicity_that_the_others_are_alike() -> None:
    """Ten states of length 1 point one way, one of length 100 the other: their mean is the long one's."""
    states = torch.tensor([[[1.0, 0.0]] * 10 + [[-100.0, 0.0]] + [[3.0, 4.0]]])
    mask = torch.arange(12)[None] < 11
    assert conicity(states * mask.unsqueeze(-1), mask).item() == pytest.approx((1 - 10) / 11)
    assert pairwise_cosine(states, mask).item() == pytest.approx((45 - 10) / 55)
    assert pairwise_cosine(states, mask & (torch.arange(12) < 1)).item() == 0


def test_centroids_of_routing_move_towards_what_is_nearest_to_them_in_training_alone() -> None:
    """Two normalised features are 1 and -1: the query is nearest to the first centroid, the key to the other."""
    routing = Routing(heads=1, d=2, clusters=2)
    routing.centroids.copy_(torch.eye(2))
    query, key = torch.tensor([[[[3.0, 1.0]]]]), torch.tensor([[[[1.0, 3.0]]]])
    routing.eval().prepare(query, key, None)
    torch.testing.assert_close(routing.centroids[0], torch.eye(2))
    routing.train().prepare(query, key, None)
    torch.testing.assert_close(routing.centroids[0], torch.tensor([[1, -5e-4], [-5e-4, 1]]), atol=1e-6, rtol=0)


def test_later_sublayers_of_qanet_are_left_out_more_often() -> None:
    """Three of them, with p_L = 0.4 left out in 0.2, 0.4 and 0.6 of the steps, each by itself."""
    torch.manual_seed(0)
    config = replace(small.config("qanet"), survival=0.4, dropout=0.0)
    block = EncoderBlock(config, convolutions=1, width=3)
    x, mask = torch.randn(1, 5, config.d), torch.ones(1, 5, dtype=torch.bool)
    with torch.no_grad():
        many, _ = block.train()(x.expand(4000, -1, -1), mask.expand(4000, -1))
        kinds, counts = (many - x).sum(-1).unique(dim=0, return_counts=True)
        whole, _ = block.eval()(x, mask)
        config = replace(config, survival=1.0)
        again = EncoderBlock(config, convolutions=1, width=3)
        again.load_state_dict(block.state_dict())
        every, _ = again.train()(x, mask)
    wanted = [first * second * third for first in (0.2, 0.8) for second in (0.4, 0.6) for third in (0.6, 0.4)]
    assert len(kinds) == 8 and sorted((counts / 4000).tolist()) == pytest.approx(sorted(wanted), abs=0.02)
    torch.testing.assert_close(every, whole)


def test_a_transcription_notices_what_a_model_does_otherwise() -> None:
    """The sabotage that the test above must notice: weights of another question."""
    network, card = small.make("memn2n"), small.card("memn2n")
    row = card.preprocessor().row(small.data("memn2n").test[0].instance)
    batch = small.batch(card, [row])
    wanted = transcription("memn2n").answer(network, {each: tensor[0].numpy() for each, tensor in batch.items()})
    batch["question_ids"] = torch.flip(batch["question_ids"], [1])
    assert not np.allclose(network(**batch).maps["hops"][0].numpy(), wanted["hops"])
