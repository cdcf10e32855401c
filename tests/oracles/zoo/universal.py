"""Dehghani et al. (2019), §2.1, §2.2 and appendix C: a token, a step and a head at a time."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, relu, sigmoid, sines, softmax


def attended(heads: Any, x: Array, y: Array, *, back: bool = False) -> tuple[Array, Array]:
    """Multi-head attention of x to y (eq. 1, 2); back: to none that comes later. Outputs, and weights by head."""
    q, k, v = linear(heads.query_map, x), linear(heads.key_map, y), linear(heads.value_map, y)
    size = q.shape[1] // heads.heads
    output, weights = np.zeros_like(q), np.zeros((heads.heads, len(x), len(y)))
    for head in range(heads.heads):
        part = slice(head * size, (head + 1) * size)
        for i in range(len(x)):
            seen = i + 1 if back else len(y)
            weights[head, i, :seen] = softmax(k[:seen, part] @ q[i, part] / np.sqrt(size))
            output[i, part] = weights[head, i] @ v[:, part]
    return linear(heads.merge, output), weights


def normed(layer: Any, x: Array) -> Array:
    """Layer normalisation, row by row."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * array(layer.weight) + array(layer.bias)


def transition(layer: Any, x: Array) -> Array:
    """LayerNorm(x + W₂ relu(W₁ x)) (eq. 5)."""
    first, _, second = layer.hidden
    return normed(layer.after_hidden.norm, x + linear(second, relu(linear(first, x))))


def repeated(halting: Any, states: Array, steps: int, layer: Any) -> tuple[Array, Array, list[Any]]:
    """Final state of each token, the weight of each step in it, and what `layer` shows of each step."""
    d, count = states.shape[1], len(states)
    result, counts = np.zeros_like(states), np.zeros((count, steps))
    halted, done, shown = np.zeros(count), [False] * count, []
    for t in range(steps):
        entered = states + sines(range(count), d) + sines([t + 1], d)  # eq. 6, 7
        made, maps = layer(entered)
        shown.append(maps)
        if halting.copied:
            made = np.array([states[i] if done[i] else made[i] for i in range(count)])
        states = made
        for i in range(count):
            p = 1.0 if halting.stop is None else float(sigmoid(linear(halting.stop, entered[i]))[0])
            if halting.stop is not None and halted[i] + p > halting.threshold:
                p = 1 - halted[i]
                stops = True
            else:
                stops = False
            p = 0.0 if done[i] else p
            done[i] = done[i] or stops
            halted[i] += p
            result[i] = p * states[i] + (1 - p) * result[i]
            counts[i] *= 1 - p
            counts[i, t] = p
    return result, counts, shown


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def embedded(embedding: Any, ids: Any) -> Array:
        table = array(embedding.weight)
        return np.sqrt(table.shape[1]) * table[ids]

    def reading(x: Array) -> tuple[Array, Any]:
        layer = network.encoder[0]
        found, weights = attended(layer.attention, x, x)
        return transition(layer, normed(layer.after_attention.norm, x + found)), weights

    source, encoder_steps, read = repeated(
        network.encoder_halting, embedded(network.source_embedding, tensors["source_ids"]), network.steps, reading
    )

    def writing(x: Array) -> tuple[Array, Any]:
        layer = network.decoder[0]
        found, own = attended(layer.itself.attention, x, x, back=True)
        x = normed(layer.after_itself.norm, x + found)
        found, cross = attended(layer.cross.attention, x, source)
        return transition(layer, normed(layer.after_cross.norm, x + found)), (own, cross)

    put_in = [network.config.begin, *tensors["target_ids"][:-1].tolist()]
    result, decoder_steps, written = repeated(
        network.decoder_halting, embedded(network.target_embedding, put_in), network.steps, writing
    )
    maps = {"encoder.steps": encoder_steps[None], "decoder.steps": decoder_steps[None]}
    for t, (weights, (own, cross)) in enumerate(zip(read, written, strict=True)):
        maps |= {f"encoder.{t}.self": weights, f"decoder.{t}.self": own, f"decoder.{t}.cross": cross}
    return {"scores": result @ array(network.target_embedding.weight).T, **maps}
