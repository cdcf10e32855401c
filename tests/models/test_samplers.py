"""Networks whose samplers choose words (RBAN, ReSAN): what is chosen, and what samplers learn from."""

import pytest
import torch
from torch import Tensor

from limelight_models.network import Answer
from limelight_models.zoo.disan.resan import SIDES
from tests.kit import small


def pair(*kinds: str, noise: float = 0.5, extra: tuple[int, int] = (0, 0)) -> dict[str, Tensor]:
    """Two texts of four tokens, padded by so many, with draws of every kind."""
    texts = zip(SIDES, extra, strict=True)
    ids = {side: small.stack([small.text(4, seed)], more) for seed, (side, more) in enumerate(texts)}
    found = {f"{side}_ids": each for side, each in ids.items()} | {f"{side}_mask": ids[side] != 0 for side in SIDES}
    drawn = {f"{side}_{kind}noise": torch.full(ids[side].shape, noise).double() for side in SIDES for kind in kinds}
    return found | drawn


def tensors(name: str, noise: float = 0.5) -> dict[str, Tensor]:
    """Tensors of a model."""
    return pair("", noise=noise) if name == "rban" else pair("heads_", "dependents_", noise=noise, extra=(1, 3))


def test_what_keeping_words_is_compared_with_keeps_them_all_alike() -> None:
    given = tensors("rban") | {"second_noise": torch.full((1, 4), 0.999)}
    maps = small.make("rban-uniform")(**given).maps
    for name in ("question", "answer"):
        assert torch.allclose(maps[name], torch.full((1, 1, 1, 4), 0.25, dtype=torch.float64))


def test_words_that_a_sampler_does_not_keep_have_no_weight() -> None:
    model, given = small.make("rban"), tensors("rban")
    every, none, some = torch.zeros(1, 4), torch.ones(1, 4), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    for noise, kept in ((every, 4), (some, 2), (none, 0)):
        answer = model(**given | {"second_noise": noise, "first_noise": every})
        weights = answer.maps["answer"][0, 0, 0]
        assert torch.equal(weights > 0, noise[0] == 0) and torch.isfinite(answer.outputs["logits"]).all()
        assert float(weights.sum()) == pytest.approx(float(kept > 0))
        assert not answer.maps["affinity"][0, 0][:, noise[0] == 1].any()
        assert float(answer.maps["question"].sum()) == pytest.approx(1)


def test_heads_look_at_dependents_alone_and_never_at_themselves() -> None:
    network, given = small.make("resan"), tensors("resan", noise=0.0)
    given["first_heads_noise"] = torch.tensor([[0, 1, 0, 1, 0]]).double()
    given["first_dependents_noise"] = torch.tensor([[0, 0, 1, 1, 0]]).double()
    weights = network(**given).maps["first.self"][0, 0]
    seen = torch.tensor([[0, 1, 0, 0, 0], [0] * 5, [1, 1, 0, 0, 0], [0] * 5, [0] * 5], dtype=torch.bool)
    assert torch.equal((weights != 0).all(-1), seen) and torch.equal((weights != 0).any(-1), seen)


def test_the_directions_of_disan_look_back_and_ahead_and_never_at_the_token_itself() -> None:
    maps = small.make("disan")(**pair()).maps
    before, after = (maps[f"first.{name}"][0, 0].sum(-1) > 0 for name in ("forward", "backward"))
    assert torch.equal(before, torch.ones(4, 4).tril(-1).bool())
    assert torch.equal(after, torch.ones(4, 4).triu(1).bool())
    sums = maps["first.source"][0, 0, 0].sum(0)
    assert torch.allclose(sums, torch.ones_like(sums))


def test_with_every_token_chosen_it_is_the_soft_network() -> None:
    network, soft = small.make("resan"), small.make("resan-soft")
    soft.load_state_dict({name: each for name, each in network.state_dict().items() if name in soft.state_dict()})
    every, wanted = network(**tensors("resan", noise=0.0)), soft(**tensors("resan"))
    torch.testing.assert_close(every.outputs, wanted.outputs)
    torch.testing.assert_close(every.maps, wanted.maps)
    assert not torch.allclose(network(**tensors("resan", noise=1.0)).outputs["logits"], wanted.outputs["logits"])


@pytest.mark.parametrize(
    ("name", "costs"),
    [
        ("rban", {"first": (1.0, 0.5), "second": (0.0, 1.0)}),
        ("resan", {"": (0.5, 1.0)}),
    ],
)
def test_a_draw_is_made_likelier_where_it_is_better_than_choosing_every_word_and_less_likely_where_it_is_worse(
    name: str, costs: dict[str, tuple[float, float]]
) -> None:
    """Losses 0.5 and 2 of the draws, log 2 with every word, and costs that are paid for."""
    model = small.build(name)
    logs = {f"log.{of}".strip("."): torch.tensor([-1.0, -1.0], requires_grad=True) for of in costs}
    paid = {f"cost.{of}".strip("."): torch.tensor(cost) for of, cost in costs.items()}
    losses = torch.tensor([0.5, 2.0], requires_grad=True)
    loss = model.objective(losses, Answer({}, {}, {**logs, **paid, "soft": torch.zeros(2, 2)}), torch.tensor([0, 1]))
    loss.backward()
    price, soft = small.config(name).price, float(torch.log(torch.tensor(2.0)))
    spared = [len(costs) - sum(cost[row] for cost in costs.values()) for row in range(2)]
    advantages = [soft - wrong + price * less for wrong, less in zip((0.5, 2.0), spared, strict=True)]
    for each in logs.values():
        assert each.grad is not None and each.grad.tolist() == pytest.approx([-one for one in advantages])
    assert losses.grad is not None and losses.grad.tolist() == [0.5, 0.5]
    assert float(loss.detach()) == pytest.approx((2.5 + 2 * soft) / 2 + len(costs) * sum(advantages), rel=1e-5)


@pytest.mark.parametrize("name", ["rban", "rban-soft", "resan", "resan-soft"])
def test_samplers_learn_in_training_alone_and_the_soft_model_has_none(name: str) -> None:
    model, given = small.build(name).double().train(), tensors(name.removesuffix("-soft"))
    model.steps.fill_(model.config.soft - 1)
    assert not model(**given).signals, "samplers wait"
    answer = model(**given)
    losses = answer.outputs["logits"].logsumexp(-1)
    model.objective(losses, answer, torch.tensor([1])).backward()
    learning = {key.split(".")[0] for key, each in model.named_parameters() if each.grad is not None}
    assert ("samplers" in learning) == (not name.endswith("soft")) == bool(answer.signals)
    assert not model.eval()(**given).signals
