"""Attentive pooling against a transcription of its paper, in NumPy."""

import numpy as np

from tests.kit import small
from tests.oracles.cases import array
from tests.oracles.zoo import both_ways, linear, relu, softmax

FIRST, SECOND = small.text(5, 1)[None], small.text(3, 2)[None]


def test_the_network_is_that_of_the_paper() -> None:
    model = small.make("attentive-pooling")
    found = model(first_ids=FIRST, first_mask=FIRST != 0, second_ids=SECOND, second_mask=SECOND != 0)
    q, a = (both_ways(model.encoder, array(model.embedding.weight)[ids[0]]).T for ids in (FIRST, SECOND))
    g = np.tanh(q.T @ array(model.pool.attention.score.query_map.weight)[0] @ a)  # §4, states as columns
    assert np.allclose(found.maps["affinity"][0, 0], g)
    of_q, of_a = softmax(g.max(1)), softmax(g.max(0))
    assert np.allclose(found.maps["first"][0, 0, 0], of_q)
    assert np.allclose(found.maps["second"][0, 0, 0], of_a)
    r_q, r_a = q @ of_q, a @ of_a
    hidden = linear(model.compare[0], np.concatenate([r_q, r_a, r_q - r_a, r_q * r_a]))
    assert np.allclose(found.outputs["logits"][0], linear(model.compare[3], relu(hidden)))
