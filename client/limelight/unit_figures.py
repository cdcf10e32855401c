"""Figures of an explanation: the input once for each way, shaded by what each unit has, and the words beside them.

Numbers are those of the explanation. Colours show what the answer needs: blue for a unit with more attention, or
without which the target's score falls; orange for one without which it rises.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from limelight.base.counts import counted
from limelight.figures import Figure, Row, Weights, as_sent, heat_of, one_line
from limelight.labels import Grid, LabelSet

if TYPE_CHECKING:
    from limelight.explanations import Agreement, Explanation

SHARES = ("attention", "rollout")
"""Ways whose values are shares of the weights; those of all others are changes of the target's score."""
_FALLING = ("look_away", "erase")
_DOING = {
    "look_away": "looking away",
    "look_only": "looking at nothing else",
    "erase": "erasing",
    "erase_others": "erasing all else",
}
# The names of patches, by which those of a picture beside a text are told.
_CELL = re.compile(r"row (\d{1,3}), column (\d{1,3})")
_LONGEST = 60  # letters of a target in a title


def figures(why: "Explanation") -> Iterator[Figure]:
    """Yield for each way a figure of the texts as sent, or of the units in a row, and one for each grid of patches."""
    for way in why.ways.values():
        column, is_share = way.values.astype(np.float32), way.way in SHARES
        about = f"share, mean of {counted(len(way.maps), 'map')}" if is_share else f"change of the {score(why)}"
        for units, values in _parts(why.units, column):
            is_grid = units.grid is not None
            yield Figure(
                f"{way.way.replace('_', ' ')} · {about}",
                rows=() if is_grid else _rows(units, values, why.texts),
                heat=heat_of(units, values) if is_grid else None,
                equal=float(column.mean()) if is_share else None,
                key=why.unit_kind,
                value="share" if is_share else "change",
                direction=0 if is_share else -1 if way.way in _FALLING else 1,
            )


def _parts(units: LabelSet, values: Weights) -> Iterator[tuple[LabelSet, Weights]]:
    """Yield units with their values; patches that are among units of other kinds as a grid of their own."""
    cells = [found and (int(found[1]), int(found[2])) for found in map(_CELL.fullmatch, units.labels)]
    origins = units.origins or ("",) * len(units)
    places: dict[str, list[int]] = {}
    for at, cell in enumerate(cells if units.grid is None else ()):
        is_cell = cell and not (len(units.ends) and units.ends[at])  # no part of a text that is called so
        places.setdefault(origins[at] if is_cell else "", []).append(at)
    for name, own in places.items():
        last = cells[own[-1]]
        grid = Grid(last[0] + 1, last[1] + 1) if name and last else None
        whole = grid is not None and len(own) == grid.rows * grid.columns
        yield replace(units.take(own), grid=grid if whole else None), values[own]
    if units.grid is not None or not places:
        yield units, values


def score(why: "Explanation") -> str:
    """Name what is explained, such as "log-probability of good"."""
    label, target = one_line(why.target.label), why.target
    label = label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
    entry = "" if target.entry is None else f" at {target.entry}"
    return target.score_kind.replace("_", "-") + (f" of {label}" if label else "") + entry


def notes(why: "Explanation") -> list[str]:
    """Return what stands below the figures: the score that is explained, and the sentence of agreement."""
    kept = f"{score(why)}: {why.target.score:.4g}, from {counted(why.rows, 'row')}"
    return [kept, *([why.sentence] if why.sentence else [])]


def largest(why: "Explanation", most: int = 5) -> list[int]:
    """Return the units with the largest changes, of the first way that has some, or the largest shares."""
    main = next((name for name in why if name not in SHARES), next(iter(why), None))
    if main is None:
        return []
    found: list[int] = np.argsort(-np.abs(why[main]), kind="stable")[:most].tolist()
    return found


def values_of(why: "Explanation", unit: int) -> list[str]:
    """Format the values of a unit, those of changes with their sign."""
    rounded = ((way, round(float(values[unit]), 4) + 0.0) for way, values in why.items())  # no -0.0000
    return [f"{value:{'' if way in SHARES else '+'}.4f}" for way, value in rounded]


def heading(why: "Explanation") -> Mapping[str, str]:
    """Return the texts above a picture by their kind."""
    said = {"ways": why.sentence} if why.sentence else {}
    return {"answer": why.prediction.headline, "explained": f"{score(why)} ({why.target.score:.4g})", **said}


def sentence(why: "Explanation") -> str:
    """Say whether attention agrees with what the answer depends on; empty for an explanation of one way."""
    found = _main(why)
    if found is None:
        return ""
    first, second = (_DOING.get(each, each) for each in (found.first, found.second))
    one = "patch" if why.unit_kind == "patches" else why.unit_kind.removesuffix("s")
    units = counted(len(why.units), one, why.unit_kind)
    if found.correlation is None:
        few = len(why.units) < 3
        reason = "that is too few" if few else "one of them is the same for all"
        return f"Whether {first} and {second} agree cannot be told from {units}: {reason}."
    said = f"rank correlation {found.correlation:.2f}"
    if found.low is not None and found.high is not None:
        said += f" (95 % interval {found.low:.2f} to {found.high:.2f})"
    if found.verdict == "cannot tell":
        return f"Whether {first} and {second} agree cannot be told from {units}: {said}."
    return f"{first.capitalize()} and {second} {found.verdict} on {units}: {said}."


def _main(why: "Explanation") -> "Agreement | None":
    """Return the agreement that is asked for first: of attention with looking away, then with other ways."""
    order = [*_FALLING, "look_only", "erase_others"]
    pairs = [(share, other) for other in order for share in SHARES]
    by_ways = {frozenset((each.first, each.second)): each for each in why.agreements}
    found = (by_ways.get(frozenset(pair)) for pair in pairs)
    return next((each for each in found if each is not None), next(iter(why.agreements), None))


def _rows(units: LabelSet, values: Weights, texts: Mapping[str, str]) -> tuple[Row, ...]:
    """Return a row for each text, with all of it; of units that are no parts of texts, a row for each sentence."""
    origins = units.origins or ("",) * len(units)
    if not len(units.starts) or not set(origins) <= set(texts):
        parents = units.parents.tolist() or [0] * len(units)
        together = groupby(range(len(units)), key=lambda at: (origins[at], parents[at]))
        return tuple(_row(units, values, list(places)) for _, places in together)
    rows = []
    for name in dict.fromkeys(origins):
        places = [at for at in np.argsort(units.starts, kind="stable").tolist() if origins[at] == name]
        starts, ends = units.starts[places].tolist(), units.ends[places].tolist()
        before = [0, *ends[:-1]]
        if any(start < end for start, end in zip(starts, before, strict=True)):
            return (_row(units, values, range(len(units))),)  # overlapping units cannot be shaded in one text
        text = texts[name]
        rows.append(
            Row(
                words=tuple(one_line(units.labels[at]) for at in places),
                weights=values[places],
                gaps=tuple(as_sent(text[end:start]) for end, start in zip(before, starts, strict=True)),
                pieces=tuple(as_sent(text[start:end]) for start, end in zip(starts, ends, strict=True)),
                label=name if len(set(origins)) > 1 else "",
                rest=as_sent(text[ends[-1] :]),
            )
        )
    return tuple(rows)


def _row(units: LabelSet, values: Weights, places: Sequence[int]) -> Row:
    """Return a row of units whose text as sent is not known, with spaces between them."""
    words = tuple(one_line(units.labels[at]) for at in places)
    return Row(words, values[list(places)], ("", *(" " for _ in words[1:])), words)
