"""What coverage costs in training."""

import pytest
import torch

from limelight_models.network import Answer
from tests.kit import small


def test_weight_that_goes_where_weight_had_been_costs_its_share() -> None:
    """The signal of each row, from its map by plain loops; padding of targets costs nothing."""
    torch.manual_seed(0)
    network = small.make("pointer-generator").train()
    lengths = torch.tensor([4, 2])
    tensors = {
        "source_ids": torch.randint(1, 9, (2, 5)),
        "source_mask": torch.ones(2, 5, dtype=torch.bool),
        "target_ids": torch.randint(1, 9, (2, 4)),
        "target_mask": torch.arange(4) < lengths.unsqueeze(1),
    }
    answer = network(**tensors)
    for row, length in enumerate(lengths.tolist()):
        weights = answer.maps["decoder.cross"][row, 0].tolist()
        covered, again = [0.0] * 5, 0.0
        for step in weights[:length]:
            again += sum(min(new, old) for new, old in zip(step, covered, strict=True))
            covered = [old + new for new, old in zip(step, covered, strict=True)]
        assert answer.signals["again"][row].item() == pytest.approx(again) and again > 0


def test_without_its_coverage_only_tokens_cost() -> None:
    answer = Answer({}, {}, {"again": torch.tensor([0.5, 1.0])})
    losses, target = torch.tensor([1.0, 2.0]), torch.tensor([3, 4])
    for name, cost in (("pointer-generator", 4.5), ("pointer-generator-uncovered", 3.0)):
        assert small.build(name).objective(losses, answer, target).item() == cost
