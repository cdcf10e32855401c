"""Published models written once more from their papers, in NumPy with plain loops, an instance at a time.

A file is called as the model's file in `models/limelight_models/zoo`; its function `answer` takes the network, for its
parameters alone, and the tensors of one instance without batch axis and padding, and gives every output and map by
name. Nothing here calls the project's own code.
"""

from math import erf
from typing import Any

import numpy as np

from tests.oracles.cases import Array, array

Tensors = dict[str, Array]


def softmax(scores: Array) -> Array:
    """Over the last axis."""
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def relu(values: Array) -> Array:
    """max(0, x)."""
    return np.maximum(values, 0)


def sigmoid(values: Array) -> Array:
    """1 / (1 + e⁻ˣ)."""
    return 1 / (1 + np.exp(-values))


def linear(layer: Any, values: Array) -> Array:
    """W x, and b where there is one, for each row."""
    made = values @ array(layer.weight).T
    return made if layer.bias is None else made + array(layer.bias)


def layernorm(layer: Any, x: Array) -> Array:
    """(x - mean) / deviation, scaled and shifted (Ba et al. 2016)."""
    away = x - x.mean(-1, keepdims=True)
    return away / np.sqrt((away**2).mean(-1, keepdims=True) + layer.eps) * array(layer.weight) + array(layer.bias)


def gelu(x: Array) -> Array:
    """x Φ(x) (Hendrycks & Gimpel 2016)."""
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def sines(places: Any, d: int) -> Array:
    """sin and cos of place / 10000^(2i/d), sines first (Vaswani et al. 2017, §3.5), for each place."""
    angles = np.array([[place / 10_000 ** (2 * i / d) for i in range(d // 2)] for place in places])
    return np.concatenate([np.sin(angles), np.cos(angles)], -1)


def multi_head(layer: Any, query: Array, key: Array) -> tuple[Array, Array]:
    """Scaled dot products, head by head (Vaswani et al. 2017, §3.2): the output, and weights [head, query, key]."""
    q, k, v = linear(layer.query_map, query), linear(layer.key_map, key), linear(layer.value_map, key)
    maps, found = [], []
    for q_h, k_h, v_h in zip(*(np.split(each, layer.heads, -1) for each in (q, k, v)), strict=True):
        maps.append(softmax(q_h @ k_h.T / np.sqrt(q_h.shape[1])))
        found.append(maps[-1] @ v_h)
    return linear(layer.merge, np.concatenate(found, -1)), np.array(maps)


def patches(pixels: Array, size: int) -> Array:
    """The patches of [channel, row, column], row by row."""
    rows, columns = (range(0, side, size) for side in pixels.shape[1:])
    return np.array([pixels[:, y : y + size, x : x + size].ravel() for y in rows for x in columns])


def lstm(layer: Any, inputs: Array) -> Array:
    """The states of an LSTM (Hochreiter & Schmidhuber 1997); gates in the order of PyTorch's weights."""
    w, u, b, c = (array(getattr(layer, f"{name}_l0")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    state = cell = np.zeros(u.shape[1])
    states = []
    for x in inputs:
        enter, forget, candidate, leave = np.split(w @ x + b + u @ state + c, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        state = sigmoid(leave) * np.tanh(cell)
        states.append(state)
    return np.stack(states)


def gru(layer: Any, inputs: Array) -> Array:
    """The states of a GRU."""
    state, states = np.zeros(array(layer.weight_hh_l0).shape[1]), []
    for x in inputs:
        state = gru_step(layer, x, state, "_l0")
        states.append(state)
    return np.stack(states)


def gru_step(layer: Any, x: Array, state: Array, ending: str = "") -> Array:
    """The next state of a GRU (Cho et al. 2014); gates in the order of PyTorch's weights, whose names end so."""
    names = (f"{name}{ending}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    w, u, b, c = (array(getattr(layer, name)) for name in names)
    (reset, update, new), (of_reset, of_update, kept) = np.split(w @ x + b, 3), np.split(u @ state + c, 3)
    share = sigmoid(update + of_update)
    return (1 - share) * np.tanh(new + sigmoid(reset + of_reset) * kept) + share * state


def both_ways_gru(encoder: Any, inputs: Array) -> Array:
    """A bidirectional GRU: onward and backward states side by side."""
    return np.concatenate([gru(encoder.onward, inputs), gru(encoder.reverse, inputs[::-1])[::-1]], -1)


def both_ways(encoder: Any, inputs: Array) -> Array:
    """A bidirectional LSTM: onward and backward states side by side."""
    return np.concatenate([lstm(encoder.onward, inputs), lstm(encoder.reverse, inputs[::-1])[::-1]], -1)


def rms_norm(layer: Any, x: Array) -> Array:
    """x / √(mean x² + ε), scaled (Zhang & Sennrich 2019)."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + layer.eps) * array(layer.weight)


def silu(x: Array) -> Array:
    """x σ(x)."""
    return x * sigmoid(x)


def short_convolution(layer: Any, x: Array) -> Array:
    """silu(Σ_k w_k x_{t-K+1+k} + b), feature by feature: of rows x, each with those before it."""
    w, b = array(layer.convolution.weight)[:, 0].T, array(layer.convolution.bias)
    before = np.concatenate([np.zeros((len(w) - 1, x.shape[1])), x])
    return silu(np.array([(w * before[t : t + len(w)]).sum(0) + b for t in range(len(x))]))


def long_layers(network: Any, tensors: Tensors, run: Any) -> dict[str, Array]:
    """Layers over a text, read at its last token, whose tokens are embedded with those before them.

    run(layer, x): a layer of one instance: what it gives of rows x, and its weights [head, token, token].
    """
    tokens = array(network.embedding.weight)[tensors["token_ids"]]
    x = tokens + linear(network.before, np.concatenate([np.zeros_like(tokens[:1]), tokens[:-1]]))
    x, maps = x + sines(range(len(x)), x.shape[1]) * network.config.placed, {}
    for number, layer in enumerate(network.layers):
        x, maps[f"encoder.{number}.self"] = run(layer, x)
    return {"logits": linear(network.classify, x[-1]), **maps}


def post_norm(layer: Any, x: Array, attended: Array) -> Array:
    """A Transformer's layer behind its attention (Vaswani et al. 2017, Fig. 1, left)."""
    x = layernorm(layer.after_attention.norm, x + attended)
    return layernorm(layer.after_hidden.norm, x + linear(layer.hidden[2], relu(linear(layer.hidden[0], x))))


def split(layer: Any, x: Array, heads: int) -> Array:
    """W x + b in heads: [head, token, d_head]."""
    return np.stack(np.split(linear(layer, x), heads, -1))


def long_encoder(network: Any, tensors: Tensors, attend: Any) -> dict[str, Array]:
    """A Transformer's encoder of a text (`long_layers`).

    attend(attention, q, k, v): a layer's attention of one instance, whose tensors are [head, token, d_head]; it gives
    the weights [head, token, token], which are multiplied by v here. Where tokens have gates, k is [k; g].
    """

    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own = layer.attention
        q, k, v = (split(each, x, own.heads) for each in (own.query_map, own.key_map, own.value_map))
        if hasattr(own, "gate_map"):
            k = np.concatenate([k, split(own.gate_map, x, own.heads)], -1)
        weights = attend(own.attention, q, k, v)
        return post_norm(layer, x, linear(own.merge, np.concatenate([*(weights @ v)], -1))), weights

    return long_layers(network, tensors, run)


def pre_norm(layer: Any, x: Array, name: str) -> tuple[Array, dict[str, Array]]:
    """A layer with norms in front (Dosovitskiy et al. 2021, eq. 2, 3), and what it looks at by the name of its map.

    Those are weights, scores and norms (Kobayashi et al. 2020, eq. 4), each [head, …].
    """
    own, normed = layer.attention, layernorm(layer.attention_norm, x)
    parts = [linear(each, normed) for each in (own.query_map, own.key_map, own.value_map)]
    parts.append(array(own.merge.weight))
    made, found = array(own.merge.bias), []
    for q, k, v, w in zip(*(np.split(each, own.heads, -1) for each in parts), strict=True):
        scores = q @ k.T / np.sqrt(q.shape[1])
        weights, vectors = softmax(scores), v @ w.T
        made = made + weights @ vectors
        found.append((weights, scores, weights * np.linalg.norm(vectors, axis=1)))
    x = x + made
    x = x + linear(layer.hidden[2], gelu(linear(layer.hidden[0], layernorm(layer.hidden_norm, x))))
    looks = zip((name, f"{name}:scores", f"{name}:norms"), zip(*found, strict=True), strict=True)
    return x, {each: np.array(heads) for each, heads in looks}


def lstm_cell(layer: Any, x: Array, state: Array, cell: Array) -> tuple[Array, Array]:
    """One step of an LSTM: the next state, and what the cell holds; gates in the order of PyTorch's weights."""
    w, u, b, c = (array(getattr(layer, name)) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    enter, forget, candidate, leave = np.split(w @ x + b + u @ state + c, 4)
    cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
    return sigmoid(leave) * np.tanh(cell), cell


def heard(features: Array) -> Array:
    """Frames [frame, mel] up to the last that is louder than the silence behind it, by filter normalised."""
    last = max(t for t in range(features.shape[1]) if (features[:, t] > features.min()).any())
    x = features[:, : last + 1].T
    return (x - x.mean(0)) / (x.std(0) + 1e-3)


def located(score: Any, s: Array, h: Array, aligned: Array) -> Array:
    """wᵀ tanh(W s + V h_j + U f_j + b), f = F * α (Chorowski et al. 2015, eq. 8 and 9): of each h. aligned: α."""
    filters = array(score.convolution.weight)[:, 0]
    reach = filters.shape[1] // 2
    around = np.pad(aligned, reach)
    w, v, importance = (array(each.weight)[0] for each in (score.query_map, score.key_map, score.importance))
    energies = []
    for j, key in enumerate(h):
        f = filters @ around[j : j + 2 * reach + 1]
        hidden = np.tanh(s @ w + array(score.query_map.bias).ravel() + key @ v + linear(score.location_map, f))
        energies.append(hidden @ importance[:, 0])
    return np.array(energies)
