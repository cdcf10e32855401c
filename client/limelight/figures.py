"""Figures of a map: rows of words, a grid of cells, or a matrix; independent of rendering."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from limelight.base.counts import counted
from limelight.descriptions import MapInfo, Model
from limelight.labels import LabelSet, Region
from limelight.scale import Scale, scale_of
from limelight.v1 import values_pb2

if TYPE_CHECKING:
    from limelight.maps import AttentionMap

Weights = NDArray[np.float32]
"""Float32, NaN where there is no number: no edge, left out by `top_k`, or no attention possible."""


@dataclass(frozen=True, eq=False)
class Row:
    """Words with weights."""

    words: tuple[str, ...]
    weights: Weights
    """[word]."""
    gaps: tuple[str, ...]
    """Text before each word: nothing, a space, or the text as sent with indentation and line ends."""
    pieces: tuple[str, ...]
    """The words as sent, with their spaces and line ends, if known."""
    label: str = ""
    """The query, such as an output token; empty if obvious."""
    weight: float | None = None
    """Weight of the row among the rows, such as a sentence's; None without weights."""
    left_out: float | None = None
    """Sum of the weights that `top_k` omitted from the row; None for none."""
    scale: float = 1.0
    """Weight by which the words' shades are multiplied: a sentence's, or 1."""
    rest: str = ""
    """Text after the last word."""


@dataclass(frozen=True, eq=False)
class GridHeatmap:
    """Weights of the cells of a grid [row, column], and of its leading entries."""

    cells: Weights
    leading: tuple[tuple[str, float], ...]
    region: Region | None = None
    """The part of the sent image that the cells cover."""


@dataclass(frozen=True, eq=False)
class WeightMatrix:
    """Weights [query, key], with labels of rows and columns."""

    weights: Weights
    queries: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure: a title, and rows, a grid or a matrix."""

    title: str
    rows: tuple[Row, ...] = ()
    heat: GridHeatmap | None = None
    matrix: WeightMatrix | None = None
    notes: tuple[str, ...] = ()
    equal: float | None = None
    """The weight of each shaded entry if all had the same; None for values that are no shares of a whole."""
    query: str = ""
    """Name of the label set of the queries."""
    key: str = ""
    """Name of the label set of the keys."""
    value: str = "weight"
    """A kind of number: a weight, a score, a norm, or the length of a value."""
    direction: int = 0
    """For changes of a score the sign of those that are blue, 1 or -1; 0 for other values."""

    @property
    def scale(self) -> Scale:
        """The colour scale of the shaded values."""
        return replace(scale_of(self.largest, signed=self.signed, equal=self.equal), is_falling=self.direction < 0)

    @property
    def shaded(self) -> list[Weights]:
        """The shaded values, in their own shape.

        For rows: one array a row, the words' weights times the row's weight.
        """
        if self.heat is not None:
            return [self.heat.cells]
        if self.matrix is not None:
            return [self.matrix.weights]
        return [row.weights * np.float32(row.scale) for row in self.rows]

    @property
    def largest(self) -> float:
        """The largest magnitude of the shaded values."""
        return max((float(np.nanmax(np.abs(each), initial=0.0)) for each in self.shaded), default=0.0)

    @property
    def signed(self) -> bool:
        """True for changes, and if a shaded value is negative."""
        return bool(self.direction) or any(bool((np.nan_to_num(each) < 0).any()) for each in self.shaded)


@dataclass(frozen=True, eq=False)
class DisplayedMap:
    """A map as displayed: one head, or the mean of several."""

    map: "AttentionMap"
    weights: Weights
    """[query, key]."""
    left_out: Weights | None
    """[query]."""
    heads: str
    """Name of the head or heads; empty if obvious."""


class Shape(TypedDict):
    """Layout options of `figures`."""

    each_head: bool
    each_query: bool
    matrices: bool


def figures(
    maps: Sequence["AttentionMap"],
    *,
    each_head: bool = False,
    each_query: bool = False,
    matrices: bool = False,
    of: str = "",
    sent: values_pb2.Instance | None = None,
    names: Sequence[str] = (),
) -> Iterator[Figure]:
    """Return the figures of the maps of one answer, in order.

    Args:
        each_head: a figure for each head instead of their mean.
        each_query: a row for each query of a map with many queries, instead of their mean.
        matrices: a matrix for a map with many queries, instead of rows.
        of: name of the sequence, before each title.
        sent: the instance, whose texts are shown as sent.
        names: maps to show; others only provide weights. Empty for all.
    """
    seen = [one for each in maps for one in _seen(each, each_head)]
    weights_of_rows = {one.map.key.name: one.weights[0] for one in seen if len(one.map.query) == 1}
    for one in seen:
        if not names or any(fnmatchcase(one.map.name, name) for name in names):
            figure = _figure(one, each_query, matrices, weights_of_rows, of, sent)
            yield replace(
                figure,
                equal=_equal(one, weights_of_rows),
                query=one_line(one.map.query.name),
                key=one_line(one.map.key.name),
                value=one.map.quantity.removesuffix("s"),
            )


def _equal(one: DisplayedMap, weights_of_rows: dict[str, Weights]) -> float | None:
    """Return the weight of each key if all had the same; None for values that are no shares of a whole."""
    each = one.map
    if each.quantity != "weights" or each.signed or not each.normalised or not len(each.key):
        return None
    if each.key.parent and each.key.parent == each.query.name and len(each.key.parents):
        own = weights_of_rows.get(each.query.name)
        if own is None or not np.isclose(np.nansum(own), 1.0, atol=1e-3):
            return None
    return 1.0 / len(each.key)


def parent_maps(model: Model, names: Sequence[str]) -> tuple[str, ...]:
    """Return the maps that weight the rows of the named maps, such as lines for the words of lines."""
    parents = {each.name: each.parent for each in model.label_sets if each.parent}
    asked = [each for each in model.maps if any(fnmatchcase(each.name, name) for name in names)]
    nested = {each.query for each in asked if parents.get(each.key) == each.query}
    return tuple(each.name for each in model.maps if each.key in nested and each not in asked)


def main_map(model: Model) -> MapInfo:
    """Return the map that shows most at once, as the page opens it, of a model that has maps.

    The words of a document; else one without queries, over a picture where there is one; else one that looks across.
    """
    sets = {each.name: each for each in model.label_sets}
    nested = [each for each in model.maps if each.key in sets and sets[each.key].parent == each.query != ""]
    pooled = [each for each in model.maps if each.query in sets and sets[each.query].kind == "one"]
    pictures = [each for each in pooled if each.key in sets and sets[each.key].grid]
    across = [each for each in model.maps if each.kind == "cross"]
    return (nested[:1] or pictures[-1:] or pooled[-1:] or across[-1:] or model.maps[-1:])[0]


def _seen(each: "AttentionMap", each_head: bool) -> Iterator[DisplayedMap]:
    weights = np.where(each.present(), each.without_features(), np.float32(np.nan))
    # The sum of left-out scores has no meaning.
    left_out = None if each.quantity == "scores" else each.left_out
    if each_head and len(weights) > 1:
        for index, head in enumerate(each.heads):
            left = None if left_out is None else left_out[index]
            yield DisplayedMap(each, weights[index], left, _head(each, head))
        return
    mean = None if left_out is None else left_out.mean(axis=0)
    yield DisplayedMap(each, _mean(weights, each), mean, _heads(each))


def _mean(weights: Weights, each: "AttentionMap") -> Weights:
    """Average over the first axis. A missing weight counts as 0; a missing score is not counted."""
    there = ~np.isnan(weights)
    number = np.maximum(there.sum(axis=0), 1) if each.quantity == "scores" else len(weights)
    mean = np.where(there, weights, 0).sum(axis=0) / number
    return np.where(there.any(axis=0), mean, np.nan).astype(np.float32)


def _heads(each: "AttentionMap") -> str:
    if len(each.heads) > 1:
        return f"{each.head_reduction or 'mean'} of {counted(len(each.heads), 'head')}"
    return _head(each, each.heads[0]) if each.heads and (each.heads[0] or each.head_labels) else ""


def _head(each: "AttentionMap", index: int) -> str:
    return each.head_labels.labels[index] if each.head_labels else f"head {index}"


def _figure(
    one: DisplayedMap,
    each_query: bool,
    matrices: bool,
    weights_of_rows: dict[str, Weights],
    of: str,
    sent: values_pb2.Instance | None,
) -> Figure:
    """Return the figure of one map."""
    query, key, weights = one.map.query, one.map.key, one.weights
    quantity = {"weights": "", "values": "lengths of values"}.get(one.map.quantity, one.map.quantity)
    title = (of, one.map.name, quantity, one.heads)
    if key.grid is not None and key.indices is None:
        row, what = _grid_row(one)
        return Figure(_title(*title, what), heat=heat_of(key, row.weights[0]), notes=_left_out(row))
    if key.parent and key.parent == query.name and len(key.parents):
        own = weights_of_rows.get(query.name)
        of_rows = f"{query.kind.removesuffix('s')}" if query.kind == "sentences" else "row"
        note = f"words: the weight of a word in its {of_rows}, times that of the {of_rows}"
        if own is None or len(own) != len(query):
            note = f"words: the weight of a word in its {of_rows}, whose own weight is not here"
        return Figure(_title(*title), rows=_sentence_rows(one, own, sent), notes=(note,))
    if len(query) == 1:
        if key.kind == "sentences":
            rows = tuple(
                _sentence(label, float(weight), _indentation(key, place, sent))
                for place, (label, weight) in enumerate(zip(key.labels, weights[0], strict=True))
            )
            return Figure(_title(*title), rows=rows, notes=_left_out(one))
        return Figure(
            _title(*title), rows=_each_row(one, sent, labelled=query.indices is not None or query.kind == "groups")
        )
    if matrices:
        queries, keys = (tuple(one_line(label) for label in labels.labels) for labels in (query, key))
        return Figure(_title(*title), matrix=WeightMatrix(weights, queries, keys), notes=_left_out(one))
    if each_query or query.name != key.name or query.indices is not None:
        return Figure(_title(*title), rows=_each_row(one, sent))
    return Figure(
        _title(*title, f"mean over {counted(len(query), 'query', 'queries')}"),
        rows=(_words(key, _mean(weights, one.map), sent),),
        notes=("strongest: " + ", ".join(_strongest(query, key, weights)), *_left_out(one)),
    )


def _left_out(one: DisplayedMap) -> tuple[str, ...]:
    """Describe the weights that `top_k` left out, for figures whose rows cannot show it."""
    if one.left_out is None:
        return ()
    each = "" if len(one.left_out) == 1 else ", mean over queries"
    return (f"left out: {float(one.left_out.mean()):.4f}{each}",)


def _each_row(one: DisplayedMap, sent: values_pb2.Instance | None, *, labelled: bool = True) -> tuple[Row, ...]:
    """Return a row for each query."""
    labels = one.map.query.labels if labelled else [""] * len(one.weights)
    return tuple(
        _words(
            one.map.key,
            weights,
            sent,
            label=label,
            left_out=None if one.left_out is None else float(one.left_out[index]),
        )
        for index, (label, weights) in enumerate(zip(labels, one.weights, strict=True))
    )


def _title(*parts: str) -> str:
    return " · ".join(one_line(part) for part in parts if part)


def _grid_row(one: DisplayedMap) -> tuple[DisplayedMap, str]:
    """Return the row of weights to lay over the grid, and its label."""
    query, weights, left_out = one.map.query, one.weights, one.left_out
    if len(weights) == 1:
        return one, f"{query.labels[0]}'s row" if query.indices else ""
    if query.grid is not None and query.indices is None and query.grid.leading:
        first = replace(one, weights=weights[:1], left_out=None if left_out is None else left_out[:1])
        return first, f"{query.grid.leading[0]}'s row"
    mean = None if left_out is None else left_out.mean(keepdims=True)
    return replace(
        one, weights=_mean(weights, one.map)[None], left_out=mean
    ), f"mean over {counted(len(weights), 'query', 'queries')}"


def heat_of(key: LabelSet, row: Weights) -> GridHeatmap:
    """Lay the weights of the entries of a grid over its cells."""
    assert key.grid is not None
    before = len(key.grid.leading)
    names = map(one_line, key.grid.leading)
    leading = tuple((name, float(weight)) for name, weight in zip(names, row[:before], strict=True))
    return GridHeatmap(row[before:].reshape(key.grid.rows, key.grid.columns), leading, key.grid.region)


def _sentence_rows(one: DisplayedMap, own: Weights | None, sent: values_pb2.Instance | None) -> tuple[Row, ...]:
    """Return a row for each sentence, with the words of the sentence."""
    query, key = one.map.query, one.map.key
    # Parents refer to the whole set of sentences, not to the selected ones.
    numbers = query.indices if query.indices is not None else range(len(query))
    rows = []
    for position, number in enumerate(numbers):
        inside = np.flatnonzero(key.parents == number)
        weight = None if own is None or len(own) != len(query) else float(own[position])
        # Rows that `top_k` left out have no weight for their words.
        counts = 1.0 if weight is None else float(np.nan_to_num(weight))
        left_out = None if one.left_out is None else float(one.left_out[position]) * counts
        row = _words(key.take(inside), one.weights[position, inside], sent, weight=weight, left_out=left_out)
        row = row if len(key.words) else _joined(row)
        first = (_indentation(query, position, sent),) if row.gaps else ()
        rows.append(replace(row, scale=counts, gaps=(*first, *row.gaps[1:])))
    return tuple(rows)


def _joined(row: Row) -> Row:
    """Join the pieces of words of a row whose label set states no words: letters of both cases, digits and `_`."""
    starts = [
        place
        for place, (gap, piece) in enumerate(zip(row.gaps, row.pieces, strict=True))
        if not place or gap or not (_is_in_word(row.pieces[place - 1][-1:]) and _is_in_word(piece[:1]))
    ]
    spans = list(zip(starts, [*starts[1:], len(row.words)], strict=True))
    weights = [row.weights[begin:end] for begin, end in spans]
    return replace(
        row,
        words=tuple("".join(row.words[begin:end]) for begin, end in spans),
        pieces=tuple("".join(row.pieces[begin:end]) for begin, end in spans),
        gaps=tuple(row.gaps[begin] for begin, _ in spans),
        weights=np.array([np.nan if np.isnan(each).all() else np.nansum(each) for each in weights], np.float32),
    )


def _is_in_word(letter: str) -> bool:
    """Return whether a letter is part of a word that blanks end; those of scripts without cases may be words alone."""
    return letter == "_" or letter.isdigit() or letter.lower() != letter.upper()


def _sentence(label: str, weight: float, lead: str) -> Row:
    # All words on one line.
    word = one_line(" ".join(label.split()))
    return Row((word,), np.array([weight], np.float32), (lead,), (as_sent(label),), weight=weight)


def _words(
    key: LabelSet,
    weights: Weights,
    sent: values_pb2.Instance | None,
    *,
    label: str = "",
    weight: float | None = None,
    left_out: float | None = None,
) -> Row:
    words = tuple(one_line(word) for word in key.labels)
    follows, texts = _follows(key).tolist(), sent_texts(sent)
    gaps, pieces, text = [], [], key.kind == "tokens" and len(key.starts) > 0
    for place, word in enumerate(key.labels):
        gap, piece = "" if place == 0 or follows[place] else " ", words[place]
        if text and not key.special[place]:
            piece = as_sent(word)
            source = _source_of(key, place, texts)
            if source and _is_next(key, place) and _source_of(key, place - 1, texts) is source:
                gap = as_sent(source[int(key.ends[place - 1]) : int(key.starts[place])])
        gaps.append(gap)
        pieces.append(piece)
    return Row(words, weights, tuple(gaps), tuple(pieces), one_line(label), weight, left_out)


def _is_next(key: LabelSet, place: int) -> bool:
    """Return whether the previous token directly precedes the token in the text."""
    if not place or key.special[place - 1] or (key.indices and key.indices[place] != key.indices[place - 1] + 1):
        return False
    return bool(key.starts[place] >= key.ends[place - 1])


def _indentation(rows: LabelSet, place: int, sent: values_pb2.Instance | None) -> str:
    """Return the text before a sentence at the start of a line: empty lines and indentation."""
    if not len(rows.starts):
        return ""
    source = _source_of(rows, place, sent_texts(sent))
    if not source:
        return ""
    start = int(rows.starts[place])
    before = source[:start]
    lead = before[len(before.rstrip()) :]
    if lead != before and "\n" not in lead:
        return ""  # on the same line as the previous sentence
    _, line_end, indentation = lead.rpartition("\n")
    empty = max(0, lead.count("\n") - 1) if place and line_end else 0
    return "\n" * empty + as_sent(indentation)


def sent_texts(sent: values_pb2.Instance | None) -> dict[str, str]:
    """Return the sent texts by the inputs that tokens name, without sentences, whose offsets are their own."""
    texts: dict[str, str] = {}
    for name, value in sent.inputs.items() if sent is not None else ():
        match value.WhichOneof("kind"):
            case "text":
                texts[name] = value.text
            case "document" if value.document.HasField("text"):
                texts[name] = value.document.text
            case "pair":
                texts |= {f"{name}.first": value.pair.first, f"{name}.second": value.pair.second}
    return texts


def _source_of(key: LabelSet, place: int, texts: dict[str, str]) -> str:
    if not key.inputs:
        return ""
    return texts.get(key.inputs[int(key.input_indices[place])] if len(key.input_indices) else key.inputs[0], "")


def as_sent(text: str) -> str:
    """Format a text with its spaces and line ends, and a sign for each invisible character."""
    tabs = text.replace("\r\n", "\n").expandtabs(4)
    return "".join(each if each.isprintable() or each == "\n" else "␣" for each in tabs)


def lines_of(row: Row, shades: Sequence[float]) -> list[list[tuple[str, float]]]:
    """Return the pieces of a row by line as sent, each with its shade; gaps have none."""
    lines: list[list[tuple[str, float]]] = [[]]
    words = zip(row.gaps, row.pieces, shades, strict=True)
    texts = [each for gap, piece, shade in words for each in ((gap, 0.0), (piece, shade))]
    for text, strength in (*texts, (row.rest, 0.0)):
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((part, strength))
    return lines


def _follows(key: LabelSet) -> NDArray[np.bool_]:
    """Return bool [entry]: True for a token that directly follows the previous token of the same text."""
    joined = np.zeros(len(key), np.bool_)
    if key.kind in ("tokens", "output_steps") and len(key.starts):
        text = ~key.special & (key.ends > key.starts)
        joined[1:] = text[1:] & text[:-1] & (key.ends[:-1] == key.starts[1:])
        for column in (key.parents, key.input_indices):
            if len(column):
                joined[1:] &= column[1:] == column[:-1]
    return joined


def one_line(word: str) -> str:
    """Format a token on one line."""
    if word.isspace():
        return "␣" * len(word)
    return "".join(character if character.isprintable() else "␣" for character in word)


def _strongest(query: LabelSet, key: LabelSet, weights: Weights, most: int = 3) -> Iterator[str]:
    """Return the largest weights between entries that are parts of the input."""
    special = query.special[:, None] | key.special
    scores = np.where(special | np.isnan(weights), -1.0, np.abs(weights))
    for place in np.argsort(-scores, axis=None, kind="stable")[:most].tolist():
        row, column = divmod(place, len(key))
        if scores[row, column] > 0:
            yield f"{one_line(query.labels[row])} → {one_line(key.labels[column])} {weights[row, column]:.2f}"
