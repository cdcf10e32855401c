"""Distillation of MiniLM's student from its teacher."""

import numpy as np
import torch

from limelight_models.index import recipe
from limelight_models.zoo.vision.minilm import Minilm
from tests.kit import small
from tests.oracles.zoo import minilm


def pixels() -> torch.Tensor:
    card = small.card("minilm")
    rows = [card.preprocessor().row(each.instance) for each in small.data("minilm").test]
    return small.batch(card, rows)["pixels"]


def test_weights_and_value_relations_differ_by_what_the_paper_says() -> None:
    network, given = small.build("minilm").double().eval(), pixels().double()
    assert isinstance(network, Minilm)
    wanted = np.mean([minilm.apart(network, each.numpy()) for each in given])
    np.testing.assert_allclose(network.apart(given).item(), wanted, rtol=1e-9)


def test_a_student_comes_nearer_to_a_teacher_that_stays() -> None:
    torch.manual_seed(0)
    chosen, plan = recipe("minilm"), small.blueprint("minilm")
    network = chosen.build(plan).eval()
    assert isinstance(network, Minilm) and chosen.start is not None
    begun = {name: each.clone() for name, each in network.state_dict().items()}
    chosen.start(network, small.data("minilm"), plan)
    learned = network.apart(pixels()).item()
    taught = {name: each for name, each in network.state_dict().items() if name.startswith("teacher")}
    network.load_state_dict({**begun, **taught})
    assert learned < network.apart(pixels()).item()
    assert not any(each.requires_grad for each in network.teacher.parameters())
