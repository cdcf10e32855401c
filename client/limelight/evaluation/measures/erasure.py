"""N8: what does an answer lose without the words that attention names?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limelight.base.strings import word_spans
from limelight.evaluation.measures.measure import (
    Measure,
    Seen,
    Setting,
    Work,
    each_map,
    key_weights,
    means,
    moved,
    probability_of,
)
from limelight.evaluation.replies import Reply
from limelight.evaluation.statistics import rank_correlation
from limelight.maps import AttentionMap
from limelight.v1 import values_pb2

NAME = "erasure"
SHARE = 0.2  # of the words that comprehensiveness and sufficiency take
MOST_WORDS = 24  # of a row that are left out one by one
BETWEEN = "\x1e"  # the sentences of a list; white space, such that no word spans two

Words = Sequence[tuple[int, int]]


def _lacks(setting: Setting) -> str:
    if setting.model.task != "classification" and not setting.forces:
        return f"answers of {setting.model.task} have no probabilities by class to compare"
    if _input(setting) is None:
        return "words can be left out of models with one required input that is a text or a document"
    return "" if setting.maps else "no map of the model has weights without a sign"


def _input(setting: Setting) -> str | None:
    """Return the name of the only text input."""
    texts = [each.name for each in setting.model.required_inputs if each.kind in ("text", "document")]
    return texts[0] if len(texts) == len(setting.model.required_inputs) == 1 else None


def _text(value: values_pb2.Value) -> str:
    """Return a text, or that of a document; sentences of a list with a separator between them."""
    if value.WhichOneof("kind") != "document":
        return value.text
    sentences = value.document.sentences.texts
    return BETWEEN.join(sentences) if sentences else value.document.text


def _write(text: str, value: values_pb2.Value) -> None:
    """Replace what `_text` returns; sentences of which nothing is left go."""
    if value.WhichOneof("kind") != "document":
        value.text = text
    elif value.document.sentences.texts:
        sentences = text.split(BETWEEN)
        value.document.sentences.texts[:] = [each for each in sentences if each.strip()] or sentences
    else:
        value.document.text = text


def without(text: str, words: Words, left_out: Iterable[int]) -> str:
    """Return a text without some of its words; what stands between words stays."""
    for place in sorted(left_out, reverse=True):
        start, end = words[place]
        text = text[:start] + text[end:]
    return text


def word_weights(
    found: AttentionMap, name: str, words: Words, text: str = "", maps: Sequence[AttentionMap] = ()
) -> NDArray[np.float64] | None:
    """Return the weight of each word, summed over its keys; None if the keys are no parts of the text.

    maps: of the answer, among them the level above of a nested one.

    Places in a list of sentences, `text` with separators, count from the start of each.
    """
    labels, starts = found.key, found.key.starts
    if labels.kind != "tokens" or len(labels.starts) != len(labels) or set(labels.origins) - {name}:
        return None
    weights = np.where(labels.special, 0.0, key_weights(found, maps))
    if BETWEEN in text and len(labels.parents):
        lengths = [0, *(len(each) + 1 for each in text.split(BETWEEN))]
        if not ((labels.parents >= 0) & (labels.parents < len(lengths))).all():
            return None
        starts = starts + np.cumsum(lengths)[labels.parents]
    # A key belongs to the word in which it begins.
    ends = np.array([end for _, end in words])
    places = np.minimum(np.searchsorted(ends, starts, side="right"), len(words) - 1)
    return np.asarray(np.bincount(places, weights, len(words)), np.float64)


@dataclass(frozen=True)
class _Row:
    """A row of at least two words. weights: by map; single: the words that are left out one by one."""

    seen: Seen
    text: str
    words: Words
    weights: Mapping[str, NDArray[np.float64]]
    single: tuple[int, ...]
    by_chance: tuple[int, ...]

    def top(self, subject: str) -> tuple[int, ...]:
        """Return the words with the largest weights, the largest first."""
        count = len(self.by_chance)
        return tuple(np.argsort(-self.weights[subject], kind="stable")[:count].tolist())

    def sets(self) -> list[frozenset[int]]:
        """Return every set of words to leave out."""
        found = dict.fromkeys(frozenset([place]) for place in self.single)
        for chosen in (*map(self.top, self.weights), self.by_chance):
            found |= dict.fromkeys([frozenset(chosen), frozenset(range(len(self.words))) - frozenset(chosen)])
        return list(found)


def _row(seen: Seen, work: Work) -> _Row | None:
    name = _input(work.setting) or ""
    text = _text(seen.row.instance.inputs[name])
    words = word_spans(text)
    if len(words) < 2:
        return None
    found = {
        info.name: word_weights(each, name, words, text, seen.answer.maps)
        for info, each in each_map(seen, work.setting.maps)
    }
    weights = {name: each for name, each in found.items() if each is not None}
    if not weights:
        return None
    count = max(1, round(SHARE * len(words)))
    order = work.chance.permutation(len(words)).tolist()
    single = {*order[:MOST_WORDS], *(int(each.argmax()) for each in weights.values())}
    return _Row(seen, text, words, weights, tuple(sorted(single)), tuple(order[:count]))


def _add(seen: Sequence[Seen], work: Work) -> None:
    rows = [each for one in seen if (each := _row(one, work)) is not None]
    name = _input(work.setting) or ""
    asked, places = [], []
    for each in rows:
        for left_out in each.sets():
            asked.append((each.seen, _erased(each, name, left_out)))
            places.append((each, left_out))
    replies: dict[int, dict[frozenset[int], Reply]] = {each.seen.row.number: {} for each in rows}
    for (each, left_out), reply in zip(places, work.forced(asked), strict=True):
        if reply is not None:
            replies[each.seen.row.number][left_out] = reply
    for each in rows:
        _add_row(each, replies[each.seen.row.number], work)


def _erased(row: _Row, name: str, left_out: frozenset[int]) -> values_pb2.Instance:
    instance = values_pb2.Instance()
    instance.CopyFrom(row.seen.row.instance)
    _write(without(row.text, row.words, left_out), instance.inputs[name])
    return instance


def _add_row(row: _Row, replies: Mapping[frozenset[int], Reply], work: Work) -> None:
    number, before, add = row.seen.row.number, row.seen.reply, work.samples.add
    alone = {place: moved(before, reply) for place in row.single if (reply := replies.get(frozenset([place])))}
    if len(alone) != len(row.single):
        return
    everything = frozenset(range(len(row.words)))

    def lost(left_out: frozenset[int]) -> float:
        reply = replies.get(left_out)
        return float("nan") if reply is None else before.probability - probability_of(reply, before)

    add(NAME, "random words", "one word moves the answer by", number, float(np.mean(list(alone.values()))))
    add(NAME, "most moving word", "one word moves the answer by", number, max(alone.values()))
    add(NAME, "random words", "comprehensiveness", number, lost(frozenset(row.by_chance)))
    add(NAME, "random words", "sufficiency", number, lost(everything - frozenset(row.by_chance)))
    for subject, weights in row.weights.items():
        add(NAME, subject, "one word moves the answer by", number, alone[int(weights.argmax())])
        add(NAME, subject, "comprehensiveness", number, lost(frozenset(row.top(subject))))
        add(NAME, subject, "sufficiency", number, lost(everything - frozenset(row.top(subject))))
        correlation = rank_correlation(weights[list(alone)], list(alone.values()))
        add(NAME, subject, "correlation with leave-one-out", number, correlation)


MEASURE = Measure(
    name=NAME,
    title="Erasure of words",
    source="Serrano and Smith 2019, DeYoung et al. 2020, Jain and Wallace 2019",
    summary="The word with the largest weight is left out, beside a random word and the most moving word. "
    f"Comprehensiveness: probability lost without the top {SHARE:.0%} of the words (large is good); sufficiency: "
    "probability lost with these words alone (small is good).",
    lacks=_lacks,
    add=_add,
    finish=means(NAME),
    changes=True,
)
