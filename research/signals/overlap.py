"""Agreement of weights over a movie review with people's marks (catalogue N4, N5).

A word's weight is its weight in its sentence times its sentence's weight: what of it reaches the document. Words are
compared one by one with the annotators' phrases; only the part of a review that the model reads counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score

from limelight_bundle.text import Encoder
from research.signals.reviews import MOVIE_SENTENCES, MOVIE_WORDS, Reviews


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Means over documents.

    correctness: share of all weight that is on marked words (attention correctness, Liu et al. 2017), and
    marked: the share of words that are marked, which equal weights would reach; precision: area under the
    precision-recall curve, which a random order brings to `marked`; correlation: Spearman's, with the marks.
    """

    correctness: float
    marked: float
    precision: float
    correlation: float
    documents: int


def document_weights(maps: dict[str, np.ndarray], mask: np.ndarray) -> list[np.ndarray]:
    """For each document the weights of its words, in order; signed weights by their size.

    maps: canonical `word` [batch, 1, sentence, word] with `sentence` [batch, 1, 1, sentence], or only `word`
    [batch, head, 1, sentence · word] of a model that reads the review as one sequence.
    """
    word = np.abs(maps["word"]).mean(1)
    if word.ndim == 4:
        word = word.mean(-1)
    if "sentence" in maps:
        sentence = np.abs(maps["sentence"])
        if sentence.ndim == 5:
            sentence = sentence.mean(-1)
        word = word * sentence.mean((1, 2))[..., None]
    word = word.reshape(mask.shape)
    return [weights[real] for weights, real in zip(word, mask, strict=True)]


def overlap(data: Reviews, weights: dict[int, np.ndarray]) -> Overlap:
    """Compare the weights of every document that has marks."""
    found = []
    for index, marks in marked(data).items():
        each = weights[index]
        if len(each) != len(marks):
            raise ValueError(f"document {index}: {len(each)} weights for {len(marks)} words")
        if 0 < marks.sum() < len(marks):
            share = each / each.sum() if each.sum() > 0 else np.full(len(each), 1 / len(each))
            found.append(
                (share[marks].sum(), marks.mean(), average_precision_score(marks, share), spearman(share, marks))
            )
    correctness, base, precision, correlation = np.mean(found, axis=0).tolist()
    return Overlap(
        correctness=correctness, marked=base, precision=precision, correlation=correlation, documents=len(found)
    )


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Rank correlation; 0 where all weights are equal, since they order nothing."""
    if np.ptp(first) == 0:
        return 0.0
    return float(spearmanr(first, second).statistic)


def marked(data: Reviews) -> dict[int, np.ndarray]:
    """For each document with rationales, which of the words that the model reads are marked."""
    encoder = Encoder(data.texts.tokenizer, maximum=MOVIE_WORDS)
    return {
        index: document_marks(encoder, document["sentences"], document["evidence"])
        for index, document in enumerate(data.held_out.documents)
        if document["evidence"]
    }


def document_marks(
    encoder: Encoder, sentences: list[str], evidence: Iterable[Iterable[tuple[int, int, int]]]
) -> np.ndarray:
    """True for marked tokens. Marks count words between spaces, the tokenizer splits some of those in several."""
    spans = [span for phrase in evidence for span in phrase]
    marks: list[bool] = []
    for number, (text, encoded) in enumerate(
        zip(sentences[:MOVIE_SENTENCES], encoder.encode(sentences[:MOVIE_SENTENCES]), strict=True)
    ):
        words = {word for sentence, begin, end in spans if sentence == number for word in range(begin, end)}
        marks += [len(text[: start + 1].split()) - 1 in words for start in encoded.starts]
    return np.array(marks, dtype=bool)
