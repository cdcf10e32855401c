"""Effective maps while a model learns: computed for those alone who are taught where to look."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from limelight_bundle.values import Text
from limelight_models.attention.effective.core import Effective, without_maps
from limelight_models.attention.effective.kernel import Features, LinearAttention
from limelight_models.data import recall
from limelight_models.data.dataset import Example
from limelight_models.data.gold import word_spans
from limelight_models.training import session
from limelight_models.training.batches import Batches
from limelight_models.training.session import Order
from limelight_models.training.stop import Stop
from limelight_models.training.trainer import Trainer
from tests.kit import small

# Of each kind of network that has such maps, one; what is special to attention is in `tests/attention`.
KINDS = ("linear-transformer", "deepseek-sparse", "reformer", "gated-deltanet", "linear-gpt", "stand-alone", "axial")


@pytest.mark.parametrize("name", KINDS)
def test_a_network_answers_the_same_without_its_maps(name: str) -> None:
    made = small.trained(name)
    assert any(isinstance(each, Effective) for each in made.model.modules())
    task, labels = small.task(name), small.blueprint(name).labels
    (batch, *_) = Batches(made.card, task, small.data(name).test, labels=labels, batch_size=2).in_order()
    with torch.no_grad():
        wanted, whole = task.loss(made.model, batch)[0], made.model(**batch.tensors).maps
        with without_maps(made.model):
            found, none = task.loss(made.model, batch)[0], made.model(**batch.tensors).maps
    torch.testing.assert_close(found, wanted, atol=0, rtol=0)
    assert whole and not [name for name in whole if name in none and none[name].numel()]


def asking(example: Example) -> Example:
    """The key at the end is what ought to look at its value."""
    text = example.instance["text"]
    assert isinstance(text, Text)
    (gold,) = example.gold
    return replace(example, gold=(replace(gold, of=word_spans("text", text.text)[-1]),))


@pytest.mark.parametrize("supervision", [0.0, 0.5])
def test_a_run_computes_them_for_who_is_taught_where_to_look(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supervision: float
) -> None:
    """And for all when it measures what it has learned."""
    rows, learn, asked = LinearAttention.rows, Trainer.run, Counter[str]()

    def counting(attention: LinearAttention, prepared: Features, index: Tensor) -> Tensor:
        asked["rows"] += len(index)
        return rows(attention, prepared, index)

    def learning(trainer: Trainer, stop: Stop) -> None:
        learn(trainer, stop)
        asked["rows while learning"] = asked["rows"]

    monkeypatch.setattr(LinearAttention, "rows", counting)
    monkeypatch.setattr(Trainer, "run", learning)
    made = recall.dataset("one", tokens=16, training=200, held_out=10)
    made = replace(made, train=[asking(each) for each in made.train])
    monkeypatch.setattr(session, "load", lambda source, chosen: made)
    order = Order(model="linear-transformer", out=tmp_path / "run", changes={"epochs": 1, "supervision": supervision})
    session.train(order, stop=Stop(), told=lambda progress, batches: None, said=lambda line: None)
    assert bool(asked["rows while learning"]) == bool(supervision)
    assert asked["rows"] > asked["rows while learning"]
