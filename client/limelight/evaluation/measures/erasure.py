"""N8: what does an answer lose without the words that attention names?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limelight.base.strings import word_spans
from limelight.evaluation.measures.measure import Measure, Seen, Setting, Work, each_map, key_weights, means
from limelight.evaluation.rows import Span
from limelight.evaluation.statistics import rank_correlation
from limelight.groups import Groups, TextSpan
from limelight.maps import AttentionMap
from limelight.v1 import values_pb2

NAME = "erasure"
SHARE = 0.2  # of the words that comprehensiveness and sufficiency take
MOST_WORDS = 24  # of a row that are erased one by one
_TEXTS = ("text", "document", "pair")

Places = frozenset[int]
"""Indices of words."""


def _lacks(setting: Setting) -> str:
    if setting.model.task != "classification" and not setting.forces:
        return f"answers of {setting.model.task} have no probabilities by class to compare"
    if _input(setting) is None:
        return "words can be erased for models with one required input that is a text, a document or a pair"
    return "" if setting.maps else "no map of the model has weights without a sign"


def _input(setting: Setting) -> str | None:
    """Return the name of the only required input of texts."""
    texts = [each.name for each in setting.model.required_inputs if each.kind in _TEXTS]
    return texts[0] if len(texts) == 1 else None


def words_of(name: str, value: values_pb2.Value) -> list[Span]:
    """Return the words, which white space parts, of the texts of an input, in order."""
    texts: list[tuple[str, int | None, str]] = [(name, None, value.text)]
    match value.WhichOneof("kind"):
        case "pair":
            texts = [(f"{name}.first", None, value.pair.first), (f"{name}.second", None, value.pair.second)]
        case "document":
            sentences = value.document.sentences.texts
            texts = [(name, place, text) for place, text in enumerate(sentences)] or [(name, None, value.document.text)]
    return [Span(place, *span, sentence) for place, sentence, text in texts for span in word_spans(text)]


def word_weights(
    found: AttentionMap, words: Sequence[Span], maps: Sequence[AttentionMap] = ()
) -> NDArray[np.float64] | None:
    """Return the weight of each word, summed over its keys; NaN for a word that the model does not read.

    None if the keys are no parts of the texts. maps: of the answer, among them the level above of a nested one.
    """
    labels = found.key
    if (
        labels.kind != "tokens"
        or len(labels.starts) != len(labels)
        or set(labels.origins) - {one.input for one in words}
    ):
        return None
    weights, origins = np.where(labels.special, 0.0, key_weights(found, maps)), np.array(labels.origins, str)
    summed = np.full(len(words), np.nan)
    texts = dict.fromkeys((each.input, each.sentence) for each in words)
    for name, sentence in texts:
        own = np.array([at for at, each in enumerate(words) if (each.input, each.sentence) == (name, sentence)])
        inside = (origins == name) & ~labels.special
        if sentence is not None:
            inside &= labels.parents == sentence if len(labels.parents) else False
        # A key belongs to the word in which it begins.
        ends = np.array([words[at].end for at in own])
        places = np.minimum(np.searchsorted(ends, labels.starts[inside], side="right"), len(own) - 1)
        sums = np.bincount(places, weights[inside], len(own))
        summed[own] = np.where(np.bincount(places, minlength=len(own)) > 0, sums, np.nan)
    return summed


@dataclass(frozen=True)
class _Row:
    """A row of at least two words. weights: by map; single: the words that are erased one by one."""

    seen: Seen
    words: Sequence[Span]
    weights: Mapping[str, NDArray[np.float64]]
    single: tuple[int, ...]
    by_chance: tuple[int, ...]

    def top(self, subject: str) -> tuple[int, ...]:
        """Return the words with the largest weights, the largest first."""
        return tuple(np.argsort(-self.weights[subject], kind="stable")[: len(self.by_chance)].tolist())

    def sets(self) -> list[Places]:
        """Return every set of words to erase, beside the single ones."""
        everything = frozenset(range(len(self.words)))
        chosen = [frozenset(each) for each in (*map(self.top, self.weights), self.by_chance)]
        return list(dict.fromkeys(places for each in chosen for places in (each, everything - each)))

    def units(self, sets: Sequence[Places]) -> Groups:
        """Return sets of words as units."""
        return {str(number): [_span(self.words[at]) for at in sorted(places)] for number, places in enumerate(sets)}


def _span(word: Span) -> TextSpan:
    part = word.input.rpartition(".")[2]
    return TextSpan(word.start, word.end, word.sentence, part=part if part in ("first", "second") else "")


def _row(seen: Seen, work: Work) -> _Row | None:
    name = _input(work.setting) or ""
    words = words_of(name, seen.row.instance.inputs[name])
    found = {info.name: word_weights(each, words, seen.answer.maps) for info, each in each_map(seen, work.setting.maps)}
    weights = {name: each for name, each in found.items() if each is not None}
    # Of a text that is cut, the words that the model reads.
    read = np.flatnonzero(np.any([~np.isnan(each) for each in weights.values()], axis=0)) if weights else ()
    if len(read) < 2:
        return None
    weights = {name: np.nan_to_num(each[read]) for name, each in weights.items()}
    count = max(1, round(SHARE * len(read)))
    order = work.chance.permutation(len(read)).tolist()
    single = {*order[:MOST_WORDS], *(int(each.argmax()) for each in weights.values())}
    return _Row(seen, [words[at] for at in read], weights, tuple(sorted(single)), tuple(order[:count]))


def _add(seen: Sequence[Seen], work: Work) -> None:
    rows = [each for one in seen if (each := _row(one, work)) is not None]
    model = work.setting.model
    of_words = {each.name for each in model.label_sets if each.kind in ("tokens", "input_steps")}
    looks = any("key_factor" in each.interventions and each.key in of_words for each in model.maps)
    asked: list[tuple[_Row, Sequence[Places], Sequence[str]]] = []
    for row in rows:
        asked.append((row, [frozenset([at]) for at in row.single], ("erase", "look_away") if looks else ("erase",)))
        asked.append((row, row.sets(), ("erase",)))
    explained = work.explained([(row.seen.row, row.units(sets), ways) for row, sets, ways in asked])
    chances: dict[int, dict[tuple[str, Places], float]] = {row.seen.row.number: {} for row in rows}
    for (row, sets, ways), parts in zip(asked, explained, strict=True):
        if parts is not None:
            own = chances[row.seen.row.number]
            own["", frozenset()] = math.exp(parts[0].target.score)
            for way in ways:
                found = np.exp(np.concatenate([each.target.score + each[way] for each in parts])).tolist()
                own |= {(way, places): chance for places, chance in zip(sets, found, strict=True)}
    for row in rows:
        _add_row(row, chances[row.seen.row.number], work)


def _add_row(row: _Row, chances: Mapping[tuple[str, Places], float], work: Work) -> None:
    """Add the figures of a row. chances: probability of the answer, by way and words; ("", none) is the usual one."""
    number, add = row.seen.row.number, work.samples.add
    everything, before = frozenset(range(len(row.words))), chances.get(("", frozenset()), math.nan)
    written = row.seen.answer.prediction.sequences
    root = 1 / max(1, len(written[0].token_ids)) if written else 1.0

    def moves(way: str) -> NDArray[np.float64]:
        """Return how far the answer's probability, of a text that of a token, moves without each single word."""
        found = np.array([chances.get((way, frozenset([at])), math.nan) for at in row.single])
        return np.asarray(np.abs(before**root - found**root))

    def add_set(subject: str, places: tuple[int, ...]) -> None:
        for name, left_out in (("comprehensiveness", frozenset(places)), ("sufficiency", everything - {*places})):
            add(NAME, subject, name, number, before - chances.get(("erase", left_out), math.nan))

    alone, away = moves("erase"), moves("look_away")
    add(NAME, "random words", "one word moves the answer by", number, float(alone.mean()))
    add(NAME, "most moving word", "one word moves the answer by", number, float(alone.max()))
    add_set("random words", row.by_chance)
    for subject, weights in row.weights.items():
        most = float(alone[row.single.index(int(weights.argmax()))])
        add(NAME, subject, "one word moves the answer by", number, most)
        add_set(subject, row.top(subject))
        own = weights[list(row.single)]
        add(NAME, subject, "correlation with leave-one-out", number, rank_correlation(own, alone))
        add(NAME, subject, "correlation with looking away", number, rank_correlation(own, away))


MEASURE = Measure(
    name=NAME,
    title="Erasure of words",
    source="Serrano and Smith 2019, DeYoung et al. 2020, Jain and Wallace 2019",
    summary="The word with the largest weight is erased, beside a random word and the most moving word. "
    f"Comprehensiveness: probability lost without the top {SHARE:.0%} of the words (large is good); sufficiency: "
    "probability lost with these words alone (small is good). The word moves the answer by the difference of its "
    "probability, of a text that of a token.",
    lacks=_lacks,
    add=_add,
    finish=means(NAME),
)
