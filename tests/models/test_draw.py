"""Drawing: two networks that learn against each other, each from its own loss; how far drawings are from pictures."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from limelight_models.index import recipe
from limelight_models.recipes.settings import Preset
from limelight_models.tasks.draw import Draw
from limelight_models.tasks.frechet import frechet
from limelight_models.tasks.task import Batch
from limelight_models.training import session
from limelight_models.training.runs import load_run
from limelight_models.zoo.generative import sagan
from limelight_models.zoo.generative.sagan import Sagan
from tests.kit import small
from tests.models.runs import order, run

SAGAN = small.config("sagan")


def batch(count: int) -> Batch:
    torch.manual_seed(1)
    ids = torch.randint(2, 5, (count, 1))
    tensors = {"class_ids": ids, "class_mask": ids != 0, "noise": torch.randn(count, SAGAN.d_noise)}
    pictures = torch.rand(count, SAGAN.rows * SAGAN.columns) * 2 - 1
    return Batch(tensors, tuple(range(count)), pictures)


def test_each_side_learns_from_its_own_loss() -> None:
    """L_D and L_G by hand, each differentiated for its own side alone: what the one loss of both gives each."""
    torch.manual_seed(0)
    network, given = Sagan(SAGAN).train(), batch(6)
    # Moments of batches and directions of spectra would move between two calls.
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d) or hasattr(module, "_power_method"):
            module.eval()
    drawn = network(**given.tensors).outputs["values"]
    real, fake = network.critic(given.target, **given.tensors), network.critic(drawn, **given.tensors)
    critic = list(network.critic.parameters())
    own = [each for each in network.parameters() if all(each is not other for other in critic)]
    hinge = (torch.relu(1 - real) + torch.relu(1 + fake)).sum()
    wanted = [*torch.autograd.grad(-fake.sum(), own, retain_graph=True), *torch.autograd.grad(hinge, critic)]
    loss, terms = Draw().loss(network, given)
    loss.backward()
    assert terms == 6 and len(own) > 5
    for parameter, gradient in zip((*own, *critic), wanted, strict=True):
        assert parameter.grad is not None and torch.allclose(parameter.grad, gradient, atol=1e-5)


def test_the_two_sides_learn_at_rates_of_their_own_and_no_parameter_is_left_out() -> None:
    network = Sagan(SAGAN)
    (own, slow), (critic, fast) = network.rates()
    assert fast == network.config.critic_rate * slow
    assert {id(each) for each in (*own, *critic)} == {id(each) for each in network.parameters()}


def test_attention_begins_as_nothing() -> None:
    torch.manual_seed(0)
    network, given = Sagan(SAGAN).eval(), batch(2)
    before = network(**given.tensors).outputs["values"]
    assert network.attention is not None
    network.attention.merge.weight.data += 1
    assert torch.equal(network(**given.tensors).outputs["values"], before)
    network.attention.gamma.data += 1
    assert not torch.allclose(network(**given.tensors).outputs["values"], before)


def test_the_frechet_distance_by_hand() -> None:
    """Moved by d: |d|². Twice as wide in one of two independent features of variance v: (2 - 1)² v."""
    torch.manual_seed(0)
    one = torch.randn(500, 2)
    assert frechet(one, one) == pytest.approx(0, abs=1e-6)
    assert frechet(one, one + torch.tensor([3.0, 4.0])) == pytest.approx(25, rel=1e-5)
    one = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert frechet(one, one * torch.tensor([2.0, 1.0])) == pytest.approx(4 / 3, rel=1e-6)


def test_it_trains_and_is_judged_beside_real_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(sagan.PRESETS["demo"].settings, epochs=1, batch_size=64)
    monkeypatch.setitem(recipe("sagan").presets, "demo", Preset(settings=settings, sizes={"channels": (16, 8, 8)}))
    metrics = run(order("sagan", session.BUILTIN, tmp_path / "run"))
    assert [each.name for each in metrics] == ["drawn as asked", "Fréchet distance"]
    assert metrics[1].value > (metrics[1].baseline or 0) > 0
    shown = load_run(tmp_path / "run").examples
    assert len(shown) == 3 and all(list(each) == ["class"] for each in shown)
