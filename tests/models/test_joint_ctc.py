"""CTC beside attention: what is learned is their sum, and every path to the letters counts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from limelight_models.network import Answer
from limelight_models.zoo.speech.joint_ctc import JointCtc
from tests.kit import small
from tests.oracles.zoo.joint_ctc import path_loss


def answered(config: object, target: list[int], frames: int = 8) -> tuple[JointCtc, Answer]:
    """A model of five letters that learns from one recording."""
    torch.manual_seed(0)
    made = replace(config, vocabulary=5, begin=1, end=2, frames=frames, dropout=0.0)  # type: ignore[type-var]
    network = JointCtc(made).train()
    sound = torch.randn(1, made.mels, frames)
    ids = torch.tensor([[*target, 2]])
    return network, network(features=sound, target_ids=ids, target_mask=ids > 0)


@pytest.mark.parametrize("letters", [[3], [3, 4], [3, 3]])
def test_ctc_costs_the_sum_over_all_paths(letters: list[int]) -> None:
    _, answer = answered(small.config("joint-ctc"), letters)
    probabilities = answer.outputs["ctc"][0].exp().detach().double().numpy()
    np.testing.assert_allclose(answer.signals["ctc"].item(), path_loss(probabilities, letters, 0), rtol=1e-4)


def test_letters_for_which_the_sound_is_too_short_cost_nothing() -> None:
    _, answer = answered(small.config("joint-ctc"), [3, 3, 4, 4, 3])
    assert answer.signals["ctc"].item() == 0


def test_what_is_learned_is_a_share_of_each_loss_and_of_attention_alone_without_ctc() -> None:
    losses, target = torch.tensor([1.0, 3.0]), torch.tensor([3, 2])
    for name, cost in (("joint-ctc", 0.2 * 10 + 0.8 * 4), ("joint-ctc-attention", 4.0)):
        network = small.build(name)
        answer = Answer({}, {}, {"ctc": torch.tensor([4.0, 6.0])})
        assert network.objective(losses, answer, target).item() == pytest.approx(cost)
        assert network.objective(losses, Answer({}, {}), target).item() == 4
