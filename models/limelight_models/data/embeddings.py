"""Embeddings of words that are counted, not learned: from what stands beside them, and from how they are spelled."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from limelight_bundle.values import Array

WINDOW = 5  # words to either side
SMOOTHING = 0.75  # exponent of the contexts' counts: rare contexts say less than their few counts claim
SHORTEST, LONGEST = 3, 5  # characters of an n-gram, < and > around a word counting as such
_ROUNDS, _EXTRA = 4, 16  # of the randomised decomposition


def of_neighbours(texts: Iterable[Sequence[int]], *, vocabulary: int, d: int) -> Tensor:
    """Positive pointwise mutual information with the words beside, decomposed (Levy, Goldberg & Dagan 2015, eq. 1–3).

    M_wc = max(0, log(p(w, c) / (p(w) p'(c)))), p' smoothed;  E = U √Σ of M ≈ U Σ Vᵀ

    Shapes: texts of token ids -> [vocabulary, d]; zeros for a word that stands in no text, or always alone.
    """
    pairs = [
        first * vocabulary + second
        for text in map(np.asarray, texts)
        for step in range(1, WINDOW + 1)
        for first, second in ((text[:-step], text[step:]), (text[step:], text[:-step]))
        if len(text) > step
    ]
    if not pairs:
        return torch.zeros(vocabulary, d)
    places, counts = np.unique(np.concatenate(pairs), return_counts=True)
    words, contexts = places // vocabulary, places % vocabulary
    of_word = np.bincount(words, counts, vocabulary)
    smoothed = np.bincount(contexts, counts, vocabulary) ** SMOOTHING
    expected = of_word[words] * smoothed[contexts] / smoothed.sum()
    information = np.log(counts / expected)
    kept = information > 0
    return decomposed(words[kept], contexts[kept], information[kept], (vocabulary, vocabulary), d)


def of_spelling(words: Mapping[int, str], *, vocabulary: int, d: int) -> Tensor:
    """Character n-grams of each word (Bojanowski et al. 2017, §3.2), weighted by how few words have them, decomposed.

    Shapes: token id -> word -> [vocabulary, d]; zeros for an id without a word.
    """
    grams: dict[str, list[int]] = {}
    for number, word in words.items():
        for gram in sorted(ngrams(word)):
            grams.setdefault(gram, []).append(number)
    shared = [owners for owners in grams.values() if len(owners) > 1]
    rows = np.array([number for owners in shared for number in owners], np.int64)
    columns = np.repeat(np.arange(len(shared)), [len(owners) for owners in shared])
    rarity = np.array([np.log(len(words) / len(owners)) for owners in shared for _ in owners])
    return decomposed(rows, columns, rarity, (vocabulary, max(1, len(shared))), d)


def ngrams(word: str) -> set[str]:
    """The n-grams of a word, with its ends marked."""
    marked = f"<{word}>"
    sizes = range(SHORTEST, LONGEST + 1)
    return {marked[place : place + size] for size in sizes for place in range(len(marked) - size + 1)}


def decomposed(rows: Array, columns: Array, values: Array, shape: tuple[int, int], d: int) -> Tensor:
    """Row vectors U √Σ of a sparse matrix, scaled so that the square of a number in a filled row is 1 on average.

    Numbers are drawn from torch's generator (Halko et al. 2011). Shapes: -> [rows, d], filled up with zeros where the
    matrix is too small to have that many dimensions.
    """
    vectors = torch.zeros(shape[0], d)
    if len(rows):
        matrix = torch.sparse_coo_tensor(
            torch.from_numpy(np.stack([rows, columns])),
            torch.from_numpy(values).float(),
            shape,
            check_invariants=True,
        ).coalesce()
        left, weight, _ = torch.svd_lowrank(matrix, min(d + _EXTRA, *shape), _ROUNDS)
        found, filled = (left * weight.sqrt())[:, :d], torch.from_numpy(np.unique(rows))
        vectors[filled, : found.shape[1]] = found[filled] / found[filled].square().mean().sqrt().clamp(min=1e-6)
    return vectors
