"""Answers as static HTML for notebooks: shaded words, grids and matrices, with a legend.

Colours are translucent, so that they are right on light and dark pages alike. Styles are inline, since notebooks remove
style sheets of outputs that they do not trust. Every text of an answer is escaped.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limelight.base.png import encode_png
from limelight.base.printing import escape_markup as escape
from limelight.colours import OVER
from limelight.figures import Figure, Row, Weights, figures, one_line
from limelight.scale import FAINT

if TYPE_CHECKING:
    from limelight.maps import AttentionMap

_STRONGEST = 0.85  # opacity of the strongest colour
_OPEN = 3  # figures that are seen at once; others are folded
_MOST = 24  # figures
_MOST_HEADS = 16
_MOST_WORDS = 3000  # of all figures
_MOST_QUERIES = 256  # of a matrix; longer maps are shown as the mean of their rows
_MOST_RECTANGLES = 1600  # cells that state their numbers; more become one picture
_LABELLED = 48  # rows or columns of a matrix with labels
_SIDE = 260  # pixels of a grid or matrix


def page(maps: Sequence["AttentionMap"], heading: str = "", *, fold_heads: bool = False) -> str:
    """Return the HTML of the maps of an answer.

    Args:
        heading: the answer, above its maps.
        fold_heads: add the heads of each map, folded.
    """
    words = _Budget(_MOST_WORDS)
    shown = [words.figure(each) for each in _figures(maps[:_MOST])]
    parts = [f"<div><b>{escape(heading)}</b></div>"] if heading else []
    parts += shown[:_OPEN]
    if len(shown) > _OPEN:
        parts.append(_folded(f"{len(shown) - _OPEN} more maps", shown[_OPEN:]))
    if len(maps) > len(shown):
        parts.append(_small(f"and {len(maps) - len(shown)} more maps; each displays itself, such as answer.maps[-1]"))
    if fold_heads and any(len(each.heads) > 1 and not each.head_reduction for each in maps):
        heads = figures(maps, each_head=True, matrices=True)
        parts.append(_folded("heads", [words.figure(each) for each in islice(heads, _MOST_HEADS)]))
    return _block(parts)


def panel(figures: Iterable[Figure], heading: str, notes: Sequence[str], image: bytes | None = None) -> str:
    """Return the HTML of figures between the answer, as a heading, with the sent image, and notes."""
    words = _Budget(_MOST_WORDS)
    drawn = [words.figure(each) for each in figures]
    if image is not None:  # browsers find out its format by themselves
        data = b64encode(image).decode()
        drawn.insert(0, f'<img alt="the image as sent" style="width:{_SIDE}px" src="data:image/png;base64,{data}">')
    return _block([f"<div><b>{escape(heading)}</b></div>", *drawn, *map(_small, notes)])


def document(body: str, title: str) -> str:
    """Return a page of its own, which loads and runs nothing, for the HTML of an answer."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{escape(title)}</title><body style="font:16px/1.5 system-ui,sans-serif;margin:2rem">{body}</html>\n'
    )


def _block(parts: Iterable[str]) -> str:
    return f'<div style="line-height:1.6;max-width:60em">{"".join(parts)}</div>'


def _figures(maps: Sequence["AttentionMap"]) -> Iterator[Figure]:
    """Yield a figure for each map: a matrix for self attention of moderate length, else rows or a grid."""
    are_matrices = [
        len(each.query) <= _MOST_QUERIES and each.key.grid is None and each.query.labels == each.key.labels
        for each in maps
    ]
    others = figures([each for each, is_matrix in zip(maps, are_matrices, strict=True) if not is_matrix])
    for each, is_matrix in zip(maps, are_matrices, strict=True):
        yield next(figures([each], matrices=True)) if is_matrix else next(others)


class _Budget:
    """Draws figures with a number of words in all, so that no answer makes a page too large for a notebook."""

    def __init__(self, words: int) -> None:
        self._left = words

    def figure(self, figure: Figure) -> str:
        """Draw a figure: title, body, notes, and legend."""
        if figure.matrix is not None:
            labels = figure.matrix.queries, figure.matrix.keys
            body = _cells(figure, figure.matrix.weights, *labels)
        elif figure.heat is not None:
            body = _cells(figure, figure.heat.cells, (), ())
            leading = [f"{name} {weight:.3f}" for name, weight in figure.heat.leading]
            body += _small(", ".join(leading)) if leading else ""
        else:
            body = self._rows(figure)
        notes = "".join(map(_small, figure.notes))
        return f'<div style="margin:0.8em 0">{_small(figure.title)}{body}{notes}{_legend(figure)}</div>'

    def _rows(self, figure: Figure) -> str:
        lines, scale = list[str](), figure.scale
        for row, shaded in zip(figure.rows, figure.shaded, strict=True):
            if self._left <= 0:
                lines.append(_small(f"and {len(figure.rows) - len(lines)} more rows"))
                break
            count = min(len(row.words), self._left)
            self._left -= count
            lines.append(_row(row, scale.strengths(shaded[:count]).tolist()))
        return "".join(lines)


def _row(row: Row, strengths: Sequence[float]) -> str:
    """Draw the first words of a row, as many as there are strengths."""
    parts = [f"<b>{escape(row.label)}</b>  "] if row.label else []
    if row.weight is not None:
        parts.append(f'<span style="opacity:0.6">{_number(row.weight)}</span>  ')
    for gap, piece, weight, strength in zip(row.gaps, row.pieces, row.weights.tolist(), strengths, strict=False):
        shade = "" if abs(strength) < FAINT else f' style="background-color:{_rgba(strength)}"'
        parts.append(f'{escape(gap)}<span title="{_number(weight)}"{shade}>{escape(piece)}</span>')
    if len(strengths) < len(row.words):
        parts.append(f" … {len(row.words) - len(strengths)} more")
    else:
        parts.append(escape(row.rest))
    if row.left_out is not None:
        parts.append(f'<span style="opacity:0.6">  left out: {row.left_out:.3f}</span>')
    return f'<div style="white-space:pre-wrap">{"".join(parts)}</div>'


def _cells(figure: Figure, weights: Weights, queries: Sequence[str], keys: Sequence[str]) -> str:
    """Draw a matrix or a grid as SVG, with labels where there is room for them."""
    rows, columns = weights.shape
    cell = max(1.0, min(24.0, _SIDE / max(rows, columns, 1)))
    labelled = bool(queries) and max(rows, columns) <= _LABELLED
    size = min(12.0, cell * 0.9)
    left, top = (_room(queries, size), _room(keys, size)) if labelled else (0.0, 0.0)
    wide, high = columns * cell, rows * cell
    strengths = figure.scale.strengths(weights)
    if weights.size <= _MOST_RECTANGLES:
        drawn = "".join(_rectangles(weights, strengths, cell, queries, keys))
    else:
        data = b64encode(encode_png(_pixels(strengths))).decode()
        drawn = (
            f'<image width="{wide:g}" height="{high:g}" preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{data}"/>'
        )
    texts = [
        f'<text x="-4" y="{(row + 0.5) * cell:.4g}" text-anchor="end" dominant-baseline="middle">{_short(label)}</text>'
        for row, label in enumerate(queries if labelled else ())
    ]
    texts += [
        f'<text transform="translate({(column + 0.5) * cell:.4g} -4) rotate(-90)" dominant-baseline="middle">'
        f"{_short(label)}</text>"
        for column, label in enumerate(keys if labelled else ())
    ]
    size_in_pixels = f'width="{left + wide + 2:.0f}" height="{top + high + 2:.0f}"'
    return (
        f'<svg role="img" aria-label="{escape(figure.title)}" {size_in_pixels} '
        f'style="display:block;max-width:100%" font-size="{size:.3g}" fill="currentColor">'
        f'<g transform="translate({left + 1:g} {top + 1:g})">{"".join(texts)}{drawn}'
        f'<rect width="{wide:g}" height="{high:g}" fill="none" stroke="currentColor" stroke-opacity="0.3"/></g></svg>'
    )


def _rectangles(
    weights: Weights, strengths: NDArray[np.float32], cell: float, queries: Sequence[str], keys: Sequence[str]
) -> Iterator[str]:
    for (row, column), weight in np.ndenumerate(weights):
        strength = float(strengths[row, column])
        names = f"{queries[row]} → {keys[column]} " if queries else ""
        red, green, blue = OVER[strength < 0]
        opacity = abs(strength) * _STRONGEST if abs(strength) >= FAINT else 0.0
        yield (
            f'<rect x="{column * cell:.4g}" y="{row * cell:.4g}" width="{cell:.4g}" height="{cell:.4g}" '
            f'fill="rgb({red},{green},{blue})" fill-opacity="{opacity:.2g}">'
            f"<title>{escape(names)}{_number(float(weight))}</title></rect>"
        )


def _pixels(strengths: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the colours of cells: uint8 [row, column, red green blue opacity]."""
    pixels = np.empty((*strengths.shape, 4), np.uint8)
    pixels[..., :3] = np.where((strengths < 0)[..., None], OVER[1], OVER[0])
    pixels[..., 3] = np.round(np.abs(strengths) * _STRONGEST * 255)
    return pixels


def _legend(figure: Figure) -> str:
    begin = _rgba(-1.0) if figure.signed else _rgba(0.0)
    ramp = f"linear-gradient(to right,{begin},{_rgba(0.0)},{_rgba(1.0)})" if figure.signed else (
        f"linear-gradient(to right,{begin},{_rgba(1.0)})"
    )  # fmt: skip
    bar = f"display:inline-block;width:7em;height:0.7em;border:1px solid rgba(128,128,128,0.5);background:{ramp}"
    ends = [f'<span style="opacity:0.8">{escape(each)}</span>' for each in figure.scale.ends]
    return f'<div style="font-size:85%">{ends[0]} <span style="{bar}"></span> {ends[1]}</div>'


def _folded(title: str, parts: Iterable[str]) -> str:
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def _small(text: str) -> str:
    return f'<div style="font-size:85%;opacity:0.8">{escape(text)}</div>'


def _rgba(strength: float) -> str:
    red, green, blue = OVER[strength < 0]
    return f"rgba({red},{green},{blue},{abs(strength) * _STRONGEST:.2g})"


def _number(weight: float) -> str:
    return "left out" if np.isnan(weight) else f"{weight:.4f}"


def _room(labels: Sequence[str], size: float) -> float:
    """Return the room of labels in pixels: letters are about six tenths as wide as high."""
    return 8 + 0.62 * size * max((min(len(label), _LABEL) for label in labels), default=0)


_LABEL = 14  # letters of a label


def _short(label: str) -> str:
    label = one_line(label)
    return escape(label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…")
