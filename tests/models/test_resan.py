"""The reinforced self-attention network: what its samplers choose, and what they learn from."""

import pytest
import torch

from limelight_models.network import Answer
from limelight_models.zoo.disan.resan import SIDES, Resan
from tests.kit import small


def tensors(noise: float = 0.5) -> dict[str, torch.Tensor]:
    """Two sentences of four and three tokens, padded to five and six."""
    ids = {"first": small.stack([small.text(4, 1)], 1), "second": small.stack([small.text(3, 2)], 3)}
    masks = {f"{side}_mask": each != 0 for side, each in ids.items()}
    drawn = {
        f"{side}_{kind}_noise": torch.full(each.shape, noise, dtype=torch.float64)
        for side, each in ids.items()
        for kind in ("heads", "dependents")
    }
    return {f"{side}_ids": each for side, each in ids.items()} | masks | drawn


def test_heads_look_at_dependents_alone_and_never_at_themselves() -> None:
    network, given = small.make("resan"), tensors(noise=0.0)
    given["first_heads_noise"] = torch.tensor([[0, 1, 0, 1, 0]]).double()
    given["first_dependents_noise"] = torch.tensor([[0, 0, 1, 1, 0]]).double()
    weights = network(**given).maps["first.self"][0, 0]
    seen = torch.tensor([[0, 1, 0, 0, 0], [0] * 5, [1, 1, 0, 0, 0], [0] * 5, [0] * 5], dtype=torch.bool)
    assert torch.equal((weights != 0).all(-1), seen) and torch.equal((weights != 0).any(-1), seen)


def test_the_directions_of_disan_look_back_and_ahead_and_never_at_the_token_itself() -> None:
    ids = small.text(4, 1)[None]
    maps = small.make("disan")(first_ids=ids, first_mask=ids != 0, second_ids=ids, second_mask=ids != 0).maps
    before, after = (maps[f"first.{name}"][0, 0].sum(-1) > 0 for name in ("forward", "backward"))
    assert torch.equal(before, torch.ones(4, 4).tril(-1).bool())
    assert torch.equal(after, torch.ones(4, 4).triu(1).bool())
    sums = maps["first.source"][0, 0, 0].sum(0)
    assert torch.allclose(sums, torch.ones_like(sums))


def test_with_every_token_chosen_it_is_the_soft_network() -> None:
    network, soft = small.make("resan"), small.make("resan-soft")
    soft.load_state_dict({name: each for name, each in network.state_dict().items() if name in soft.state_dict()})
    every, wanted = network(**tensors(noise=0.0)), soft(**tensors())
    torch.testing.assert_close(every.outputs, wanted.outputs)
    torch.testing.assert_close(every.maps, wanted.maps)
    assert not torch.allclose(network(**tensors(noise=1.0)).outputs["logits"], wanted.outputs["logits"])


def test_a_draw_is_made_likelier_where_it_is_better_than_choosing_every_token() -> None:
    """Losses 0.5 and 2 of the draws, log 2 with every token, and half of them, or all, paid for."""
    network = small.build("resan")
    log = torch.tensor([-1.0, -1.0], requires_grad=True)
    signals = {"log": log, "cost": torch.tensor([0.5, 1.0]), "soft": torch.zeros(2, 2)}
    losses = torch.tensor([0.5, 2.0], requires_grad=True)
    network.objective(losses, Answer({}, {}, signals), torch.tensor([0, 1])).backward()
    price, soft = small.config("resan").price, float(torch.log(torch.tensor(2.0)))
    assert log.grad is not None and log.grad.tolist() == pytest.approx([0.5 - soft - price / 2, 2 - soft])
    assert losses.grad is not None and losses.grad.tolist() == [0.5, 0.5]


def test_samplers_learn_when_they_draw_and_the_soft_network_has_none() -> None:
    for name in ("resan", "resan-soft"):
        network = small.build(name).double().train()
        assert isinstance(network, Resan)
        network.steps.fill_(network.config.soft - 1)
        assert not network(**tensors()).signals, "samplers wait"
        answer = network(**tensors())
        losses = answer.outputs["logits"].logsumexp(-1)
        network.objective(losses, answer, torch.tensor([1])).backward()
        learning = {key.split(".")[0] for key, each in network.named_parameters() if each.grad is not None}
        assert ("samplers" in learning) == (name == "resan") == bool(answer.signals)
        assert {key for key in tensors() if key.endswith("noise")} == {
            f"{side}_{kind}_noise" for side in SIDES for kind in ("heads", "dependents")
        }
