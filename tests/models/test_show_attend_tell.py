"""Show, attend and tell: what its training minimises, and that hard attention learns from draws."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from limelight_models.tasks.generate import Generate
from limelight_models.tasks.task import Batch
from limelight_models.zoo.captioning.show_attend_tell import ShowAttendTell
from tests.kit import examples, small


def batch() -> Batch:
    torch.manual_seed(1)
    target = small.stack([small.text(length, length) for length in (2, 5, 3)])
    tensors = {"pixels": torch.rand(3, 1, *examples.SIZE), "target_ids": target, "target_mask": target != 0}
    return Batch(tensors, (0, 1, 2), torch.zeros(3, 0))


def model(**changes: object) -> ShowAttendTell:
    torch.manual_seed(0)
    return ShowAttendTell(replace(small.config("show-attend-tell"), dropout=0.0, **changes)).train()


def test_regions_looked_at_too_much_cost_in_training_and_padding_looks_at_none() -> None:
    """Xu et al. 2015, eq. 14."""
    network, given = model(doubly=0.5), batch()
    answer = network(**given.tensors)
    losses, target = Generate().losses(answer, given)
    looked = answer.maps["decoder.cross"].detach()
    per_row = [float((1 - looked[row, 0, :length].sum(0)).square().sum()) for row, length in enumerate((2, 5, 3))]
    found = network.objective(losses, answer, target)
    assert float(found.detach()) == pytest.approx(float(losses.detach().sum()) + 0.5 * sum(per_row), rel=1e-5)
    assert torch.equal(network.eval().objective(losses, answer, target), losses.sum())


def of_scores(network: ShowAttendTell) -> Tensor:
    gradient = network.prepared.score.importance.weight.grad
    return torch.zeros(1) if gradient is None else gradient


@pytest.mark.parametrize(("reinforce", "learns"), [(0.0, False), (1.0, True)])
def test_scores_learn_from_draws_by_reinforce_alone(reinforce: float, learns: bool) -> None:
    network = model(hard=True, expected=0.0, reinforce=reinforce, entropy=0.0, doubly=0.0)
    loss, _ = Generate().loss(network, batch())
    loss.backward()
    assert bool(of_scores(network).any()) == learns
