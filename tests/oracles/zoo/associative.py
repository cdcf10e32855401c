"""Le, Tran & Venkatesh (2020), §3: a token, a slot and a row at a time."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, relu, sigmoid, softmax


def related(own: Any, items: Array, slots: int) -> tuple[Array, Array]:
    """SAM: the relations of each slot, and its weights [slot, slot, d]."""
    parts = np.stack([linear(own.parts, column) for column in items.T], 1)
    parts = (parts - parts.mean()) / np.sqrt(parts.var() + own.norm.eps) * array(own.norm.weight) + array(own.norm.bias)
    query, key, value = np.split(parts, 3)
    weights = np.array([[np.tanh(query[s] * key[j]) for j in range(slots)] for s in range(slots)])
    return np.array([sum(np.outer(weights[s, j], value[j]) for j in range(slots)) for s in range(slots)]), weights


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    items, relations, reads, weights = array(network.items), array(network.relations), [], np.zeros(0)
    chooses, alphas = network.read.score.position_map, array(network.alphas)
    tokens = array(network.embedding.weight)[tensors["token_ids"]]
    for number, token in enumerate(tokens):
        x = token + linear(network.before, tokens[number - 1]) * (number > 0)
        first, second = linear(network.first, x), linear(network.second, x)
        gates = [linear(network.of_token, first) + linear(network.of_items, np.tanh(row)) for row in items]
        enter, keep = np.split(np.stack(gates), 2, -1)
        items = sigmoid(keep + 1) * items + sigmoid(enter) * np.tanh(np.outer(first, first))
        reads.append(softmax(x @ array(chooses.weight)[0] + array(chooses.bias).ravel()))
        found = sum(share * second @ each for share, each in zip(reads[-1], relations, strict=True))
        asked = items + alphas[1] * np.outer(found, second)
        made = asked[None]
        if network.relate is not None:
            made, weights = related(network.relate, asked, len(relations))
        stacked = np.concatenate([*made])  # [slot · d, d]
        items = items + alphas[2] * np.stack([linear(network.back, column) for column in stacked.T])
        relations = sigmoid(alphas[0]) * relations + made
    said = linear(network.tell, np.concatenate([linear(network.tell_slot, each.ravel()) for each in relations]))
    logits = linear(network.classify[2], relu(linear(network.classify[0], said)))
    maps = {} if network.relate is None else {"relations": weights[None]}
    return {"logits": logits, "read": np.stack(reads)[None], **maps}
