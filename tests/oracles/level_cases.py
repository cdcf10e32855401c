"""Oracles of levels, representations and dimensionality, by the mechanism's name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracles import alignments, plain, scores
from tests.oracles.cases import Array, Oracle, Row, array, bias, by_row, linear
from tests.oracles.plain import attend, mean, row, stacked


def via_attention(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Zhao & Zhang 2018: words first, characters with the words' context beside the query."""
    over_words, over_characters, found = plain.additive(module.over_words), plain.additive(module.over_characters), []
    names = ("query", "words", "characters", "word_mask", "character_mask")
    for (q,), words, characters, words_ok, characters_ok in zip(*(inputs[n] for n in names), strict=True):
        a_w, c_w = attend(over_words, q, words, words_ok)
        a_c, c_c = attend(over_characters, np.concatenate([q, c_w]), characters, characters_ok)
        found.append((np.concatenate([c_w, c_c])[None], row(a_w), row(a_c)))
    return stacked(found, "context", "word_weights", "character_weights")


def hierarchical(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Yang et al. 2016: sentence by sentence, then over the sentences that have words."""
    of_word, of_sentence = (plain.self_attentive(p.attention) for p in (module.word, module.sentence))
    nobody, found = np.zeros(0), []
    for document, mask in zip(inputs["words"], inputs["word_mask"], strict=True):
        pairs = [attend(of_word, nobody, words, ok) for words, ok in zip(document, mask, strict=True)]
        sentences = np.array([v for _, v in pairs])
        if module.encode is not None:
            sentences = neighbours(module.encode, sentences, mask.any(-1))
        a, c = attend(of_sentence, nobody, sentences, mask.any(-1))
        found.append((c, np.array([w for w, _ in pairs])[None], row(a)))
    return stacked(found, "document", "word_weights", "sentence_weights")


def target_object(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Ma et al. 2018: the span's vector asks the text."""
    of_target, of_text = plain.self_attentive(module.over_target.attention), plain.general(module.over_text)
    found = []
    for text, span, ok in zip(inputs["text"], inputs["span"], inputs["text_mask"], strict=True):
        a_t, c_t = attend(of_target, np.zeros(0), text, span & ok)
        a, c = attend(of_text, c_t, text, ok)
        found.append((c, row(a_t), row(a)))
    return stacked(found, "context", "target_weights", "text_weights")


def meta_embeddings(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Kiela et al. 2018: token by token, over its embeddings; contextualised, the encoder's states are the keys."""
    score, found = plain.self_attentive(module.pool.attention), []
    for large, small, characters, ok in zip(
        *(inputs[n] for n in ("large", "small", "characters", "mask")), strict=True
    ):
        mapped = [
            x @ array(m.weight).T + array(m.bias) for x, m in zip((large, small, characters), module.maps, strict=True)
        ]
        keys = mapped
        if module.encode is not None:
            keys = [neighbours(module.encode, x, o) for x, o in zip(mapped, ok.T, strict=True)]
        pairs = [
            attend(score, np.zeros(0), np.array([k[t] for k in keys]), ok[t], np.array([x[t] for x in mapped]))
            for t in range(len(large))
        ]
        found.append((np.array([c for _, c in pairs]), np.array([a for a, _ in pairs])[None]))
    return stacked(found, "context", "weights")


def neighbours(encoder: Any, tokens: Array, allowed: Array) -> Array:
    """The registry's encoder in miniature: tanh(W [x; mean] + b)."""
    centre = mean(tokens, allowed)
    w, b = array(encoder.map.weight), array(encoder.map.bias)
    return np.array([np.tanh(w @ np.concatenate([x, centre]) + b) for x in tokens])


def by_feature(e: Array, allowed: Array) -> Array:
    """Softmax over the keys, feature by feature; e [key, feature]."""
    return np.stack([alignments.softmax(e[:, f], allowed) for f in range(e.shape[1])], -1)


def feature_wise(score_of: Callable[[Any], plain.Score]) -> Oracle:
    """BF eq. 30 and 32: each feature has its own view of query and key."""

    def weights(module: Any, r: Row) -> Array:
        s = module.score
        score = score_of(s)
        queries = [linear(s.query_map, f) @ r.query for f in range(s.d_v)]
        e = [[score(queries[f], linear(s.key_map, f) @ k) for f in range(s.d_v)] for k in r.keys]
        return by_feature(np.array(e), r.allowed)

    return by_row(weights)


def token_to_token(s: Any, head: int, q: Array, k: Array) -> Array:
    """Shen et al. 2018a, eq. 15."""
    inner = linear(s.key_map, head) @ k + linear(s.query_map, head) @ q + bias(s.query_map, head)
    return 5 * np.tanh(inner / 5)


def source_to_token(s: Any, head: int, k: Array) -> Array:
    """Shen et al. 2018a, eq. 13: W₂ elu(W₁ k + b₁) + b₂."""
    inner = linear(s.hidden, head) @ k + bias(s.hidden, head)
    activated = np.where(inner > 0, inner, np.exp(np.minimum(inner, 0)) - 1)
    return linear(s.importance, head) @ activated + bias(s.importance, head)


def directional(forward: bool) -> Oracle:
    """Shen et al. 2018a, eq. 14–20: only what came before (or comes after), never the token itself; then a gate."""

    def oracle(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
        w, b = array(module.hidden.weight), array(module.hidden.bias)
        gate = module.attention.combine.gate
        found = []
        for f, ok in zip(inputs["features"], inputs["mask"], strict=True):
            inner = f @ w.T + b
            h = np.where(inner > 0, inner, np.exp(np.minimum(inner, 0)) - 1)
            new, maps = [], []
            for j in range(len(h)):
                allowed = np.array([ok[i] and (i < j if forward else i > j) for i in range(len(h))])
                e = np.array([token_to_token(module.attention.score, 0, h[j], h[i]) for i in range(len(h))])
                p = by_feature(e, allowed)
                s = sum(p[i] * h[i] for i in range(len(h)))
                g = array(gate.weight) @ np.concatenate([s, h[j]]) + array(gate.bias)
                g = np.array([alignments.sigmoid(x) for x in g])
                new.append(g * h[j] + (1 - g) * s)
                maps.append(p)
            found.append((np.array(new), np.array(maps)[None]))
        return stacked(found, "context", "weights")

    return oracle


LEVEL_ORACLES: dict[str, Oracle] = {
    "single-level": by_row(
        lambda m, r: alignments.softmax(
            np.array([scores.general(r.query, k, linear(m.score.query_map, r.head)) for k in r.keys]), r.allowed
        )
    ),
    "attention-via-attention": via_attention,
    "hierarchical": hierarchical,
    "hierarchical, sentences read in order": hierarchical,
    "target-object hierarchy": target_object,
    "single-representational": by_row(
        lambda m, r: alignments.softmax(np.array([plain.additive(m)(r.query, k) for k in r.keys]), r.allowed)
    ),
    "dynamic meta-embeddings": meta_embeddings,
    "contextualised meta-embeddings": meta_embeddings,
    "single-dimensional": by_row(
        lambda m, r: alignments.softmax(np.array([scores.scaled_dot(r.query, k) for k in r.keys]), r.allowed)
    ),
    "feature-wise additive": feature_wise(plain.additive),
    "feature-wise scaled dot": feature_wise(lambda s: scores.scaled_dot),
    "token2token": by_row(
        lambda m, r: by_feature(np.array([token_to_token(m.score, r.head, r.query, k) for k in r.keys]), r.allowed)
    ),
    "source2token": by_row(
        lambda m, r: by_feature(np.array([source_to_token(m.score, r.head, k) for k in r.keys]), r.allowed)
    ),
    "directional self-attention, forward": directional(forward=True),
    "directional self-attention, backward": directional(forward=False),
}
