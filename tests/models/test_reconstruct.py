"""The task of texts that are built again without classes."""

import numpy as np
import pytest
import torch

from limelight_models.network import Answer
from limelight_models.tasks.reconstruct import Reconstruct
from limelight_models.tasks.task import Batch


@pytest.mark.parametrize(
    ("average", "wanted"),
    [([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), ([[1.0, 0.0], [3.0, 3.0]], [0.5**0.5, 0.0]), ([[1.0, 0.0]], [0.0])],
)
def test_a_text_costs_as_much_as_what_is_built_is_like_the_averages_of_others(
    average: list[list[float]], wanted: list[float]
) -> None:
    """What is built is what was found, of any length: 1 - 1 + r·y of the other text."""
    found = torch.tensor([[2.0, 0.0], [0.0, 5.0]])[: len(average)]
    signals = {"rebuilt": 3 * found, "found": found, "average": torch.tensor(average)}
    losses, _ = Reconstruct().losses(
        Answer({}, {}, signals), Batch({}, tuple(range(len(found))), torch.from_numpy(np.zeros((len(found), 0))))
    )
    assert losses.tolist() == pytest.approx(wanted)
