"""Graves, Wayne & Danihelka (2014), §3, eq. 2 to 9: a token, a head and a slot at a time."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, sigmoid, softmax


def softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


def address(own: Any, said: Array, memory: Array, before: Array) -> Array:
    """A head's weights over the slots, of what it says: key, strength, and where it knows places gate, shifts, γ."""
    width, count = memory.shape[1], len(memory)
    key, strength, where = said[:width], softplus(said[width]), said[width + 1 :]
    cosines = np.array([key @ row / (np.linalg.norm(key) * np.linalg.norm(row)) for row in memory])  # eq. 6
    content = softmax(strength * cosines)  # eq. 5
    if not own.located:
        return content
    gate, shift, sharpness = sigmoid(where[0]), softmax(where[1:4]), 1 + softplus(where[4])
    gated = gate * content + (1 - gate) * before  # eq. 7
    moved = np.zeros(count)
    for i in range(count):
        for j in range(count):
            for by, part in zip((1, 0, -1), shift, strict=True):  # eq. 8
                moved[i] += gated[j] * part * ((i - j - by) % count == 0)
    return moved**sharpness / (moved**sharpness).sum()  # eq. 9


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    own, d = network.memory, network.config.d
    w, u, b, c = (array(getattr(network.controller, name)) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    state = cell = np.zeros(d)
    heads = range(network.config.heads)
    found = np.zeros(0)
    if own is not None:
        memory = array(own.begun)
        read, write = softmax(array(own.focus))
        found = np.zeros(len(heads) * memory.shape[1])
    put_in = [*array(network.tokens.weight)[tensors["source_ids"]], array(network.delimiter)]
    put_in += [np.zeros(d)] * (len(tensors["target_ids"]) - 1)
    scores, reads, writes = [], [], []
    for x in put_in:
        enter, forget, candidate, leave = np.split(w @ np.concatenate([x, found]) + b + u @ state + c, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        state = sigmoid(leave) * np.tanh(cell)
        if own is not None:
            said = np.split(linear(own.write.asks, state), len(heads))
            write = np.array([address(own.write, said[h], memory, write[h]) for h in heads])
            changes = [np.split(each, 2) for each in np.split(linear(own.change, state), len(heads))]
            for h in heads:
                memory = memory * (1 - np.outer(write[h], sigmoid(changes[h][0])))  # eq. 3
            for h in heads:
                memory = memory + np.outer(write[h], np.tanh(changes[h][1]))  # eq. 4
            said = np.split(linear(own.read.asks, state), len(heads))
            read = np.array([address(own.read, said[h], memory, read[h]) for h in heads])
            found = np.concatenate([read[h] @ memory for h in heads])  # eq. 2
            reads.append(read)
            writes.append(write)
        scores.append(linear(network.scores, np.concatenate([state, found])))
    count = len(tensors["source_ids"])
    maps = {}
    for name, rows in (("read", reads), ("write", writes)):
        if rows:
            maps[f"encoder.{name}"], maps[f"decoder.{name}"] = np.split(np.stack(rows, 1), [count], 1)
    return {"scores": np.stack(scores[count:]), **maps}
