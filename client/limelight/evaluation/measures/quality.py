"""N1: right answers."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import sacrebleu
from numpy.typing import NDArray

from limelight.evaluation.asking import forced
from limelight.evaluation.measures.measure import NO_LABELS, Measure, Seen, Setting, Work
from limelight.evaluation.measures.texts import are_phones, meteor
from limelight.evaluation.replies import COMPARED
from limelight.evaluation.samples import FEWER_RESAMPLES, Curve, Figure, figure

NAME = "answers"


def _lacks(setting: Setting) -> str:
    if setting.model.task not in COMPARED:
        return f"answers of {setting.model.task} are not compared"
    return "" if setting.has_labels else NO_LABELS


def _add(seen: Sequence[Seen], work: Work) -> None:
    task = work.setting.model.task
    name = "accuracy" if task == "classification" else "exact match"
    asked = []
    for each in seen:
        if each.row.expected is None:
            continue
        work.samples.add(NAME, "", name, each.row.number, float(each.reply.text == each.row.expected))
        if task == "spans":
            overlap = token_f1(each.reply.text.split(), each.row.expected.split())
            work.samples.add(NAME, "", "F1 of words", each.row.number, overlap)
        if work.setting.model.target_input and each.row.expected:
            asked.append((each.row.number, forced(each.row.instance, work.setting.model, each.row.expected)))
    if asked:
        for (number, _), reply in zip(asked, work.replies(asked), strict=True):
            if reply is not None and reply.chances is not None:
                work.samples.add(NAME, "", "log-probability", number, math.log(max(reply.probability, 1e-300)))
                work.samples.add(NAME, "", "tokens", number, float(len(reply.chances)))


def token_f1(found: Sequence[str], expected: Sequence[str]) -> float:
    """Return the harmonic mean of precision and recall of words, as bags; 1 for two empty texts."""
    if not found or not expected:
        return float(not found and not expected)
    common = sum(min(found.count(word), expected.count(word)) for word in set(found))
    return 2 * common / (len(found) + len(expected))


def macro_f1(found: NDArray[np.str_], expected: NDArray[np.str_]) -> float:
    """Return the mean, over classes that are expected or answered, of the harmonic mean of precision and recall.

    A class that is answered and never expected counts with 0, as in scikit-learn.
    """
    values = []
    for label in np.union1d(found, expected):
        both = ((found == label) & (expected == label)).sum()
        values.append(2 * both / ((found == label).sum() + (expected == label).sum()))
    return float(np.mean(values))


def edits(found: Sequence[str], expected: Sequence[str]) -> int:
    """Return the number of insertions, deletions and substitutions between two sequences (Levenshtein 1966)."""
    row = list(range(len(expected) + 1))
    for place, one in enumerate(found, 1):
        before, row[0] = row[0], place
        for column, other in enumerate(expected, 1):
            before, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, before + (one != other))
    return row[-1]


def _finish(work: Work) -> tuple[Iterable[Figure], Iterable[Curve]]:
    pairs = [(reply.text, row.expected) for row, reply in work.seen if row.expected is not None]
    found, expected = (np.array(side, str) for side in zip(*pairs, strict=True)) if pairs else (np.empty(0, str),) * 2
    hidden = ("log-probability", "tokens")
    figures = [each for each in work.samples.means(NAME) if each.name not in hidden]
    if work.setting.model.task == "classification":
        figures.append(figure(NAME, "", "macro F1", len(pairs), lambda at: macro_f1(found[at], expected[at])))
    if work.setting.model.task == "generation":
        figures += _of_texts(pairs)
        figures += _perplexity(work)
    return figures, ()


def _of_texts(pairs: Sequence[tuple[str, str]]) -> list[Figure]:
    units = "phone" if pairs and all(map(are_phones, (expected for _, expected in pairs))) else "word"
    wrong = np.array([edits(found.split(), expected.split()) for found, expected in pairs])
    sizes = np.array([len(expected.split()) for _, expected in pairs])

    def error_rate(at: NDArray[np.int64]) -> float:
        return float(wrong[at].sum() / max(1, sizes[at].sum()))

    figures = [figure(NAME, "", f"{units} error rate", len(pairs), error_rate)]
    values = np.array(meteor(pairs))
    figures.append(figure(NAME, "", "METEOR", len(pairs), lambda at: float(values[at].mean())))

    def corpus(score: Callable[..., Any]) -> Callable[[NDArray[np.int64]], float]:
        def of(at: NDArray[np.int64]) -> float:
            return float(score([pairs[one][0] for one in at], [[pairs[one][1] for one in at]]).score) / 100

        return of

    for name, score in (("BLEU", sacrebleu.corpus_bleu), ("chrF", sacrebleu.corpus_chrf)):
        figures.append(figure(NAME, "", name, len(pairs), corpus(score), resamples=FEWER_RESAMPLES))
    return figures


def _perplexity(work: Work) -> list[Figure]:
    logs, sizes = (work.samples.rows(NAME, "", name) for name in ("log-probability", "tokens"))
    if not logs:
        return []
    total, count = np.array(list(logs.values())), np.array([sizes[row] for row in logs])
    return [
        figure(
            NAME, "", "perplexity", len(total), lambda at: float(np.exp(-total[at].sum() / max(1.0, count[at].sum())))
        )
    ]


MEASURE = Measure(
    name=NAME,
    title="Right answers",
    source="",
    summary="Answers beside those that the data expect. Perplexity is that of the expected text. METEOR matches words "
    "and stems, no synonyms. Words are phones where every expected text is phones of the ARPAbet or of TIMIT.",
    lacks=_lacks,
    add=_add,
    finish=_finish,
)
