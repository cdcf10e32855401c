"""The reinforced bidirectional attention network: what its samplers choose, and what they learn from."""

import pytest
import torch
from torch import Tensor

from limelight_models.network import Answer
from limelight_models.zoo.aspects.rban import Rban
from limelight_models.zoo.disan.disan import SIDES
from tests.kit import small


def with_masks(ids: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the parts of an input, by the names of the card; draws come out as they most likely do."""
    masks = {f"{part}_mask": each != 0 for part, each in ids.items()}
    noise = {f"{part}_noise": torch.full(each.shape, 0.5) for part, each in ids.items()}
    return {f"{part}_ids": each for part, each in ids.items()} | masks | noise


def test_what_keeping_words_is_compared_with_keeps_them_all_alike() -> None:
    tensors = with_masks({side: small.text(4, seed)[None] for seed, side in enumerate(SIDES)})
    maps = small.make("rban-uniform")(**tensors | {"second_noise": torch.full((1, 4), 0.999)}).maps
    for name in ("question", "answer"):
        assert torch.allclose(maps[name], torch.full((1, 1, 1, 4), 0.25, dtype=torch.float64))


def test_words_that_a_sampler_does_not_keep_have_no_weight() -> None:
    model = small.make("rban")
    tensors = with_masks({side: small.text(4, seed)[None] for seed, side in enumerate(SIDES)})
    every, none, some = torch.zeros(1, 4), torch.ones(1, 4), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    for noise, kept in ((every, 4), (some, 2), (none, 0)):
        answer = model(**tensors | {"second_noise": noise, "first_noise": every})
        weights = answer.maps["answer"][0, 0, 0]
        assert torch.equal(weights > 0, noise[0] == 0) and torch.isfinite(answer.outputs["logits"]).all()
        assert float(weights.sum()) == pytest.approx(float(kept > 0))
        assert not answer.maps["affinity"][0, 0][:, noise[0] == 1].any()
        assert float(answer.maps["question"].sum()) == pytest.approx(1)


def test_a_draw_is_made_likelier_where_it_is_better_than_keeping_all_words_and_less_likely_where_it_is_worse() -> None:
    """Losses 0.5 and 2 of the draws, log 2 with every word, and costs that are paid for."""
    model = small.build("rban")
    assert isinstance(model, Rban)
    logs = {f"log.{side}": torch.tensor([-1.0, -1.0], requires_grad=True) for side in SIDES}
    costs = {"cost.first": torch.tensor([1.0, 0.5]), "cost.second": torch.tensor([0.0, 1.0])}
    signals = {**logs, **costs, "soft": torch.zeros(2, 2)}
    losses = torch.tensor([0.5, 2.0], requires_grad=True)
    loss = model.objective(losses, Answer({}, {}, signals), torch.tensor([0, 1]))
    loss.backward()
    price, soft = model.config.price, float(torch.log(torch.tensor(2.0)))
    advantages = [soft - 0.5 + price * (2 - 1), soft - 2 + price * (2 - 1.5)]
    for each in logs.values():
        assert each.grad is not None and each.grad.tolist() == pytest.approx([-one for one in advantages])
    assert losses.grad is not None and losses.grad.tolist() == [0.5, 0.5]
    assert float(loss.detach()) == pytest.approx((2.5 + 2 * soft) / 2 + 2 * sum(advantages), rel=1e-5)


def test_samplers_learn_in_training_alone_and_the_soft_model_has_none() -> None:
    tensors = with_masks({side: small.text(4, seed)[None] for seed, side in enumerate(SIDES)})
    for name in ("rban", "rban-soft"):
        model = small.build(name).train()
        assert isinstance(model, Rban)
        model.steps.fill_(model.config.soft - 1)
        assert not model(**tensors).signals, "samplers wait"
        answer = model(**tensors)
        losses = answer.outputs["logits"].logsumexp(-1)
        model.objective(losses, answer, torch.tensor([1])).backward()
        learning = {key.split(".")[0] for key, each in model.named_parameters() if each.grad is not None}
        assert ("samplers" in learning) == (name == "rban") == bool(answer.signals)
        assert not model.eval()(**tensors).signals
