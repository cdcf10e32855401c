"""Dozat & Manning (2017), §3.2: heads by a biaffine form, and relations by another to the mean of the heads."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, linear, relu, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table, ids, mask = array(network.embedding.weight), tensors["token_ids"], tensors["token_mask"]
    states = np.stack([table[word[real]].mean(0) for word, real in zip(ids, mask, strict=True)])
    for layer in network.encoder:
        states = both_ways(layer, states)

    def stripped(part: Any) -> Array:
        return relu(linear(part[0], states)) if network.config.deep else states

    score = network.attention.score
    u, bias = array(score.query_map.weight)[0], array(score.query_map.bias)[0]
    dependents, heads, related, relates = map(
        stripped, (network.dependent, network.head, network.related, network.relates)
    )
    parents = softmax(np.array([[head @ (own @ u + bias[0]) for head in heads] for own in dependents]))  # eq. 6
    relations = []
    for own, row in zip(related, parents, strict=True):
        head = row @ relates
        either = array(network.either.weight) @ np.concatenate([own, head])
        both = [own @ form @ head for form in array(network.relation.weight)]
        relations.append(np.array(both) + either + array(network.relation.bias))  # eq. 3
    return {"parents": parents, "logits": np.stack(relations), "words.self": parents[None]}
