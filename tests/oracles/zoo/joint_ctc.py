"""Kim et al. (2017), §2 and §3: location-aware attention, and CTC on the same encoder."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, heard, linear, located, lstm_cell, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config = network.config
    h = heard(tensors["features"])
    for number, layer in enumerate(network.encoder.layers):
        h = both_ways(layer, h[::2] if number >= config.layers - config.halving else h)
    steps = tensors["features"].shape[1] // 2**config.halving
    letters, score = array(network.letters.weight), network.attention.score.score
    q, cell, aligned = np.zeros(config.d_decoder), np.zeros(config.d_decoder), np.zeros(steps)
    y, rows, scores = letters[config.begin], [], []
    for token in tensors["target_ids"]:
        a = softmax(located(score, q, h, aligned))
        aligned = np.concatenate([a, np.zeros(steps - len(h))])
        q, cell = lstm_cell(network.decoder, np.concatenate([y, a @ h]), q, cell)
        rows.append(aligned)
        scores.append(linear(network.scores, q))
        y = letters[token]
    ctc = np.full((steps, config.vocabulary), -1e4)
    ctc[:, 0] = 0
    ctc[: len(h)] = np.log(softmax(linear(network.ctc, h)))
    return {"scores": np.stack(scores), "ctc": ctc, "decoder.cross": np.stack(rows)[None]}


def path_loss(probabilities: Array, letters: list[int], blank: int) -> float:
    """-log P(letters): the sum over every path whose repeats and blanks, left out, leave the letters (Graves 2006)."""
    steps, symbols = probabilities.shape
    total = 0.0
    for path in np.ndindex(*([symbols] * steps)):
        kept = [each for place, each in enumerate(path) if each != blank and (place == 0 or path[place - 1] != each)]
        if kept == letters:
            total += float(np.prod([probabilities[t, each] for t, each in enumerate(path)]))
    return -float(np.log(total))
