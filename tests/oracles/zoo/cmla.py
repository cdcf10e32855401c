"""Wang et al. (2017), §3: two attentions whose prototypes meet each word, layer by layer."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways_gru, gru, linear, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table, ids, mask = array(network.embedding.weight), tensors["token_ids"], tensors["token_mask"]
    h = both_ways_gru(network.encoder, np.stack([table[w[m]].mean(0) for w, m in zip(ids, mask, strict=True)]))
    a, p = network.sides["aspect"], network.sides["opinion"]
    u = [array(side.prototype.query)[0, 0] for side in (a, p)]
    maps, r = {"aspect": [], "opinion": []}, []
    for _ in range(network.config.layers):
        r, following = [], []
        for name, side, own, other in (("aspect", a, *u), ("opinion", p, *u[::-1])):
            beta = []
            for h_i in h:
                compared = [h_i @ g @ own for g in array(side.tensors)[0]]
                if network.config.coupled:
                    compared += [h_i @ g @ other for g in array(side.tensors)[1]]
                beta.append(np.tanh(compared))
            r.append(gru(side.reads, np.array(beta)))
            alpha = softmax(r[-1] @ array(side.looks.query)[0, 0])
            maps[name].append(alpha)
            following.append(np.tanh(linear(side.on, own)) + alpha @ h)
        u = following
    logits = linear(network.classify.linear, np.concatenate(r, -1))
    return {"logits": logits, **{name: np.array(each)[None] for name, each in maps.items()}}
