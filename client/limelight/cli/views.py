"""What there is to see in a map: rows of words, a grid of cells, a matrix. How it is drawn is not decided here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limelight.attended import Attended
from limelight.labels import LabelSet, Token
from limelight.maps import AttentionMap

Weights = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Row:
    """Words with their weights."""

    words: tuple[str, ...]
    weights: Weights
    """[word]."""
    joined: tuple[bool, ...]
    """True where a word follows the one before without a space."""
    label: str = ""
    """What attends: an output token. Empty where that is plain."""
    weight: float | None = None
    """The row's own weight among the rows: a sentence's."""


@dataclass(frozen=True, eq=False)
class Heat:
    """Weights over the cells of a grid [row, column], and over the entries before them."""

    cells: Weights
    leading: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Weights [query, key], and what stands beside the rows and above the columns."""

    weights: Weights
    queries: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """One picture: a title, and rows, a grid or a matrix."""

    title: str
    rows: tuple[Row, ...] = ()
    heat: Heat | None = None
    matrix: Matrix | None = None
    notes: tuple[str, ...] = ()


def blocks(
    answer: Attended,
    *,
    each_head: bool = False,
    each_query: bool = False,
    matrices: bool = False,
    reduced: Mapping[str, str] | None = None,
) -> Iterator[Block]:
    """The pictures of an answer, in the order of its maps.

    each_head: a picture a head, instead of their mean. each_query: a row a query, where a map has many, instead of
    their mean. matrices: a matrix, where a map has many queries, instead of rows. reduced: what the server has made of
    the heads of a map, by its name.
    """
    weights_of_rows = {
        each.key.name: each.mean_over_heads()[0] for each in answer.maps if len(each.query) == 1 and each.edges is None
    }
    for each in answer.maps:
        dense = each.dense()
        dense = dense.mean(axis=3) if dense.ndim == 4 else dense
        if each_head and len(dense) > 1:
            for head, weights in zip(each.heads or range(len(dense)), dense, strict=True):
                yield _block(each, weights, f"head {head}", each_query, matrices, weights_of_rows)
        else:
            of = f"mean of {len(dense)} heads" if len(dense) > 1 else _one_head(each, reduced or {})
            yield _block(each, dense.mean(axis=0), of, each_query, matrices, weights_of_rows)


def _one_head(each: AttentionMap, reduced: Mapping[str, str]) -> str:
    if not each.heads:
        return reduced.get(each.name, "")
    return f"head {each.heads[0]}" if each.heads[0] else ""


def _block(
    each: AttentionMap,
    weights: Weights,
    of: str,
    each_query: bool,
    matrices: bool,
    weights_of_rows: dict[str, Weights],
) -> Block:
    """The picture of one map. Shapes: weights [query, key]."""
    query, key = each.query, each.key
    if key.grid is not None:
        row, what = _grid_row(each, weights)
        return Block(_title(each, of, what), heat=_heat(key, row))
    if key.parent and key.parent == query.name:
        rows = _nested(query, key, weights, weights_of_rows.get(query.name))
        return Block(_title(each, of), rows=rows)
    if len(query) == 1:
        if key.kind == "sentences":
            rows = tuple(_sentence(label, float(weight)) for label, weight in zip(key.labels, weights[0], strict=True))
            return Block(_title(each, of), rows=rows)
        label = query.labels[0] if query.indices else ""
        return Block(_title(each, of), rows=(_words(key, weights[0], label=label),))
    if matrices:
        queries, keys = (tuple(_shown(label, False) for label in labels.labels) for labels in (query, key))
        return Block(_title(each, of), matrix=Matrix(weights, queries, keys))
    if each_query or query.name != key.name or query.indices is not None:
        rows = tuple(_words(key, row, label=label) for label, row in zip(query.labels, weights, strict=True))
        return Block(_title(each, of), rows=rows)
    return Block(
        _title(each, of, f"mean over {len(query)} queries"),
        rows=(_words(key, weights.mean(axis=0)),),
        notes=("strongest: " + ", ".join(_strongest(query, key, weights)),),
    )


def _title(each: AttentionMap, *parts: str) -> str:
    return " · ".join((each.name, *(part for part in parts if part)))


def _grid_row(each: AttentionMap, weights: Weights) -> tuple[Weights, str]:
    """The one row of weights to lay over the grid, and what it is."""
    if len(weights) == 1:
        return weights[0], f"{each.query.labels[0]}'s row" if each.query.indices else ""
    if each.query.grid is not None and each.query.grid.leading:
        return weights[0], f"{each.query.grid.leading[0]}'s row"
    return weights.mean(axis=0), f"mean over {len(weights)} queries"


def _heat(key: LabelSet, row: Weights) -> Heat:
    assert key.grid is not None
    before = len(key.grid.leading)
    leading = tuple((name, float(weight)) for name, weight in zip(key.grid.leading, row[:before], strict=True))
    return Heat(row[before:].reshape(key.grid.rows, key.grid.columns), leading)


def _nested(query: LabelSet, key: LabelSet, weights: Weights, own: Weights | None) -> tuple[Row, ...]:
    """A row a sentence, of its own words."""
    # A selection renumbers the sentences; a word's parent is a number of the whole set.
    numbers = query.indices if query.indices is not None else range(len(query))
    parents = np.array([token.parent for token in key.tokens])
    rows = []
    for position, number in enumerate(numbers):
        inside = np.flatnonzero(parents == number).tolist()
        weight = None if own is None or len(own) != len(query) else float(own[position])
        rows.append(_words(key.take(inside), weights[position, inside], weight=weight))
    return tuple(rows)


def _sentence(label: str, weight: float) -> Row:
    return Row((label,), np.array([weight], np.float32), (False,), weight=weight)


def _words(key: LabelSet, weights: Weights, *, label: str = "", weight: float | None = None) -> Row:
    joined = [False] * len(key)
    for index in range(1, len(key.tokens)):
        joined[index] = _follows(key.tokens[index - 1], key.tokens[index])
    words = [_shown(word, join) for word, join in zip(key.labels, joined, strict=True)]
    return Row(tuple(words), weights, tuple(joined), _shown(label, False), weight)


def _follows(one: Token, other: Token) -> bool:
    return not one.special and not other.special and one.end == other.start and one.end > one.start


def _shown(word: str, joined: bool) -> str:
    """A token without its vocabulary's marks for the beginning or inside of a word, and without what breaks a line."""
    word = word.lstrip("▁Ġ") or word
    word = word.removeprefix("##") if joined and len(word) > 2 else word
    if word.isspace():
        return "␣" * len(word)
    return "".join(character if character.isprintable() else "␣" for character in word)


def _strongest(query: LabelSet, key: LabelSet, weights: Weights, most: int = 3) -> Iterator[str]:
    """The largest weights between entries that stand for parts of the input."""
    special = np.array(query.special)[:, None] | np.array(key.special)
    scores = np.where(special, -1.0, np.abs(weights))
    for place in np.argsort(-scores, axis=None, kind="stable")[:most].tolist():
        row, column = divmod(place, len(key))
        if scores[row, column] > 0:
            yield f"{_shown(query.labels[row], False)} → {_shown(key.labels[column], False)} {weights[row, column]:.2f}"


def relative(weights: Weights) -> Weights:
    """Weights over the largest of them, from -1 to 1; zeros where all are zero."""
    largest = np.abs(weights).max(initial=0.0)
    return weights / largest if largest > 0 else np.zeros_like(weights)


def strengths(rows: tuple[Row, ...]) -> list[Weights]:
    """How strongly to shade each word: over the largest of its row, or of all rows where each is a single entry."""
    if len(rows) > 1 and all(len(row.words) == 1 for row in rows):
        together = relative(np.concatenate([row.weights for row in rows]))
        return [together[index : index + 1] for index in range(len(rows))]
    return [relative(row.weights) for row in rows]
