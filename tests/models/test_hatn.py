"""The hierarchical attention transfer network: what pivots are, what is hidden, and what learns from which domain."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy

from limelight_bundle.values import Text
from limelight_models.blocks.reversal import reverse
from limelight_models.data import folder, reviews
from limelight_models.data.dataset import DataError
from limelight_models.recipes.settings import Preset, Settings
from limelight_models.zoo.hierarchical import hatn
from limelight_models.zoo.hierarchical.hatn import HATN, Hatn
from tests.kit import small

IDS = small.stack([small.document([4, 2], 1), small.document([3], 2), small.document([5, 1, 2], 3)])


def test_pivots_are_the_words_of_opinion_that_both_domains_have() -> None:
    torch.manual_seed(0)
    made = reviews.dataset(training=500, held_out=40)
    sizes = {"d_embedding": 16, "d": 16, "pivots": 4, "search": 6, "dropout": 0.0}
    blueprint = HATN.prepare(made, Preset(settings=Settings(), sizes=sizes, vocabulary=200))
    network = Hatn(blueprint.config)
    hatn.start(network, made, blueprint)
    words = Tokenizer.from_str(blueprint.files["tokenizer.json"])
    for label, marked in zip(blueprint.labels, network.is_pivot, strict=True):
        assert {words.id_to_token(number) for number in marked.nonzero()[:, 0].tolist()} == set(reviews.SHARED[label])


def test_pivots_are_hidden_from_the_second_network_alone() -> None:
    model = small.make("hatn")
    assert isinstance(model, Hatn)
    model.is_pivot[1, IDS[0, 1, 0]] = model.is_pivot[2, IDS[0, 1, 1]] = True  # all of the first document's second
    maps = model(token_ids=IDS, token_mask=IDS != 0).maps
    pivot = model.is_pivot.any(0)[IDS]
    assert not maps["others.word"][:, 0][pivot].any() and (maps["pivots.word"][:, 0][pivot] > 0).all()
    assert maps["others.sentence"][0, 0, 0, 1] == 0 < maps["pivots.sentence"][0, 0, 0, 1]
    assert torch.allclose(maps["others.sentence"].sum(-1), torch.ones(3, 1, 1).double())


def test_each_part_of_the_loss_is_of_its_own_reviews() -> None:
    """Sentiment of those with a class, their mean; domains and pivots of all."""
    model = small.build("hatn").double().train()
    assert isinstance(model, Hatn)
    model.dropout.p = model.classify.dropout.p = 0.0
    model.is_pivot[0, IDS[0, 0, 0]] = True
    answer = model(token_ids=IDS, token_mask=IDS != 0)
    target = torch.tensor([2, -1, 0])
    losses = cross_entropy(answer.outputs["logits"], target, reduction="none", ignore_index=-1)
    there = torch.tensor([[bool((row == IDS[0, 0, 0]).any()), False, False] for row in IDS])
    assert torch.equal(answer.signals["there"].bool(), there) and there[0, 0]
    which = answer.signals["which"].sigmoid()
    wanted = losses.sum() * 3 / 2 + cross_entropy(answer.signals["domain"], torch.tensor([1, 0, 1]), reduction="sum")
    wanted = wanted - torch.where(there, which, 1 - which).log().sum()
    assert torch.allclose(model.objective(losses, answer, target), wanted)
    plain = replace(answer, signals={})
    assert torch.allclose(model.objective(losses, plain, target), losses.sum() * 3 / 2)


def test_a_reversed_gradient_grows_with_training() -> None:
    features = torch.ones(3, requires_grad=True)
    same = reverse(features, torch.tensor(0.5))
    assert torch.equal(same, features)
    same.sum().backward()
    assert features.grad is not None and features.grad.tolist() == [-0.5] * 3
    model = small.build("hatn").train()
    assert isinstance(model, Hatn)
    strengths = []
    for steps in (0, model.config.ramp // 10 - 1, 10 * model.config.ramp):
        model.steps.fill_(steps)
        strengths.append(float(model.strength()))
        model(token_ids=IDS, token_mask=IDS != 0)
        assert int(model.steps) == steps + 1
    assert strengths == pytest.approx([0, 2 / (1 + math.exp(-1)) - 1, 1], abs=0.02)


def test_reviews_of_two_domains_from_two_folders(tmp_path: Path) -> None:
    source, target = tmp_path / "films", tmp_path / "food"
    for path, rows_ in (
        (source, [{"label": 1, "text": "Great."}, {"label": "neg", "sentences": ["Bad.", "Dull."]}]),
        (
            target,
            [
                {"left": "the", "target": "soup", "right": "and the bread were fine", "label": "positive"},
                {"left": "the soup and the", "target": "bread", "right": "were fine", "label": "neutral"},
                {"left": "good", "target": "tea", "right": ", bad cake", "label": "positive"},
                {"left": "good tea , bad", "target": "cake", "right": "", "label": "negative"},
                {"left": "a", "target": "table", "right": "", "label": "neutral"},
            ],
        ),
    ):
        path.mkdir()
        for part in reviews.PARTS:
            (path / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_))
    made = folder.load(tmp_path / "films+food", folder.TRANSFER)
    assert [each.label for each in made.train] == ["positive", "negative", ""]
    assert [each.label for each in made.dev] == ["positive", "negative"] and made.labels == ("negative", "positive")
    (held,) = made.test
    assert held.instance == {"document": Text("the soup and the bread were fine")} and held.label == "positive"
    for name, message in (("films", "names no two folders"), ("films+none", "has 0 files train")):
        with pytest.raises(DataError, match=message):
            folder.load(tmp_path / name, folder.TRANSFER)
    (source / "dev.jsonl").write_text('{"label": "great", "text": "Hm."}')
    with pytest.raises(DataError, match="line 1: has the class 'great'"):
        folder.load(tmp_path / "films+food", folder.TRANSFER)
