"""Zhang et al. (2018), §2: spans, their head words, mentions, and antecedents by a biaffine form."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, linear, relu, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table, ids, mask = array(network.embedding.weight), tensors["token_ids"], tensors["token_mask"]
    x = np.stack([table[word[real]].mean(0) for word, real in zip(ids, mask, strict=True)])
    h, parts, n = both_ways(network.encoder, x), network.antecedents, len(x)
    score = network.candidates.attention.score
    v, w = array(score.importance.weight)[0][:, 0], array(score.key_map.weight)[0]
    b = array(score.key_map.bias).reshape(-1)
    spans = [(begin, end) for end in range(n) for begin in range(max(0, end - network.config.longest + 1), end + 1)]
    alphas, made = {}, {}
    for begin, end in spans:
        alphas[begin, end] = softmax(np.array([v @ relu(h_t @ w + b) for h_t in h[begin : end + 1]]))
        length = array(network.candidates.length.weight)[end - begin]
        made[begin, end] = np.concatenate([h[begin], h[end], alphas[begin, end] @ x[begin : end + 1], length])

    def of(part: Any, span: tuple[int, int]) -> Array:
        return relu(linear(part[0], made[span]))

    s_m = {span: float(linear(parts.mentioned, of(parts.mention, span))[0]) for span in spans}
    form, either = array(parts.form.weight), array(parts.either.weight)[0]
    found, heads, tags = np.zeros((n, n)), np.zeros((n, n)), []
    for word in range(n):
        own = [span for span in spans if span[1] == word]
        sums = np.zeros(n)
        sums[word] = 1  # e⁰: a new mention
        for i in own:
            for j in spans:
                if j[1] < i[0]:
                    later = of(parts.anaphora, i)
                    sums[j[1]] += np.exp(s_m[i] + s_m[j] + of(parts.antecedent, j) @ form @ later + either @ later)
        found[word] = sums / sums.sum()
        for span, share in zip(own, softmax(np.array([s_m[span] for span in own])), strict=True):
            heads[word, span[0] : word + 1] += share * alphas[span]
        tags.append(linear(network.classify, np.array([np.log(sum(np.exp(s_m[span]) for span in own))])))
    outputs = {"antecedents": found, "logits": np.array(tags)}
    return {**outputs, "words.self": found[None], "mention.self": heads[None]}
