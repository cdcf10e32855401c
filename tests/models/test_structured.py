"""The structured self-attentive embedding against a transcription of its paper, in NumPy."""

import numpy as np
import pytest
import torch

from limelight_models.network import Answer
from limelight_models.zoo.sentences.structured import StructuredEmbedding, redundancy
from tests.kit import small
from tests.oracles.cases import array
from tests.oracles.zoo import both_ways, linear, relu, softmax

IDS = small.text(5, 1)[None]


def test_the_network_is_that_of_the_paper() -> None:
    model = small.make("structured")
    found = model(token_ids=IDS, token_mask=IDS != 0)
    states = both_ways(model.encoder, array(model.embedding.weight)[IDS[0]])
    score = model.pool.attention.score
    hidden = np.tanh(states @ array(score.key_map.weight)[0] + array(score.key_map.bias)[0])
    a = softmax((hidden @ array(score.importance.weight)[0]).T)  # eq. 6: [row, token]
    assert a.shape == (small.config("structured").rows, 5)
    assert np.allclose(found.maps["pool"][0, :, 0], a)
    matrix = a @ states  # eq. 7
    above = relu(linear(model.classify[1], matrix.reshape(-1)))
    assert np.allclose(found.outputs["logits"][0], linear(model.classify[4], above))
    apart = np.linalg.norm(a @ a.T - np.eye(len(a)), "fro") ** 2  # eq. 8
    assert np.allclose(found.signals["penalty"], apart)


def test_rows_on_one_word_each_and_apart_cost_nothing() -> None:
    apart = torch.eye(3)[None, :2]
    assert redundancy(apart).tolist() == [0.0]
    assert redundancy(apart[:, [0, 0]]).tolist() == [2.0]


def test_the_penalty_is_part_of_what_is_learned() -> None:
    answer = Answer({}, {}, {"penalty": torch.tensor([1.0, 2.0])})
    losses, target = torch.tensor([0.5, 0.5]), torch.tensor([0, 1])
    model, free = small.build("structured"), small.build("structured-free")
    assert isinstance(model, StructuredEmbedding) and isinstance(free, StructuredEmbedding)
    assert model.objective(losses, answer, target).item() == pytest.approx(1.0 + 3 * model.config.penalty)
    assert free.objective(losses, answer, target) == 1.0
