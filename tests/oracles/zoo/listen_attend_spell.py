"""Chan et al. (2016), §3, eq. 4 to 11; Chorowski et al. (2015), eq. 8 and 9."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, heard, linear, located, lstm_cell, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config = network.config
    x = heard(tensors["features"])
    h = both_ways(network.listener.base, x)
    for layer in network.listener.pyramid:
        if config.halving:
            padded = np.concatenate([h, np.zeros((len(h) % 2, h.shape[1]))])
            h = np.array([np.concatenate([padded[2 * i], padded[2 * i + 1]]) for i in range(len(padded) // 2)])
        h = both_ways(layer, h)
    score = network.attention.score.score
    keys = tensors["features"].shape[1] // (2 ** len(network.listener.pyramid) if config.halving else 1)
    letters = array(network.letters.weight)
    states = [(np.zeros(config.d_decoder), np.zeros(config.d_decoder)) for _ in network.cells]
    context, aligned, y = np.zeros(h.shape[1]), np.zeros(keys), letters[config.begin]
    rows, scores = [], []
    for token in tensors["target_ids"]:
        s = np.concatenate([y, context])
        for number, cell in enumerate(network.cells):
            states[number] = lstm_cell(cell, s, *states[number])
            s = states[number][0]
        if config.location:
            energies = located(score, s, h, aligned)
        else:
            energies = np.tanh(linear(score.psi[0], h)) @ np.tanh(linear(score.phi[0], s))
        aligned = np.concatenate([softmax(energies), np.zeros(keys - len(h))])
        context = aligned[: len(h)] @ h
        rows.append(aligned)
        scores.append(linear(network.scores, np.tanh(linear(network.hidden, np.concatenate([s, context])))))
        y = letters[token]
    return {"scores": np.stack(scores), "decoder.cross": np.stack(rows)[None]}
