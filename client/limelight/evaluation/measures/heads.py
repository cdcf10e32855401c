"""N9: importance of each head, and what pruning costs."""

from collections.abc import Iterable, Sequence

import numpy as np

from limelight.descriptions import MapInfo
from limelight.evaluation.asking import changed
from limelight.evaluation.measures.measure import (
    Measure,
    Seen,
    Work,
    add_change,
    no_interventions,
    probability_of,
)
from limelight.evaluation.samples import Curve, Figure
from limelight.interventions import scale_heads

NAME = "heads"
_POINTS = 6  # of the curve, besides that of no masked head

Head = tuple[str, int]


def heads_of(maps: Iterable[MapInfo]) -> list[Head]:
    """Return every head that can be scaled: (map, number)."""
    return [(each.name, head) for each in maps if "head_scales" in each.interventions for head in range(each.heads)]


def _add(seen: Sequence[Seen], work: Work) -> None:
    heads = heads_of(work.setting.changeable())
    asked = [(each, changed(each.row.instance, scale_heads(name, {head: 0}))) for each in seen for name, head in heads]
    places = [(each, head) for each in seen for head in heads]
    for (each, (name, head)), reply in zip(places, work.compared(asked), strict=True):
        if reply is not None:
            drop = each.reply.probability - probability_of(reply, each.reply)
            work.samples.add(NAME, f"{name}:{head}", "probability lost", each.row.number, drop)
            add_change(work, NAME, f"{name}:{head}", each.row, each.reply, reply)


def pruned_counts(heads: int) -> list[int]:
    """Return numbers of masked heads, evenly spaced up to all."""
    return sorted({round(heads * point / _POINTS) for point in range(1, _POINTS + 1)} - {0})


def _finish(work: Work) -> tuple[Iterable[Figure], Iterable[Curve]]:
    """Order heads by the importance on every other row, and prune on the rows between."""
    figures = work.samples.means(NAME)
    heads = heads_of(work.setting.changeable())
    ordering, held = {row.number for row, _ in work.seen[::2]}, work.seen[1::2]
    if len(heads) < 2 or not held:
        return figures, ()

    def importance(head: Head) -> float:
        subject = f"{head[0]}:{head[1]}"
        moves = work.samples.rows(NAME, subject, "answer moves by")
        moves = moves or work.samples.rows(NAME, subject, "answers changed")
        return float(np.mean([value for row, value in moves.items() if row in ordering] or [0.0]))

    by_importance = sorted(heads, key=importance)
    by_chance = [heads[place] for place in work.chance.permutation(len(heads)).tolist()]
    orders = {"least important first": by_importance, "in random order": by_chance}
    return figures, [_curve(name, order, work) for name, order in orders.items()]


def _curve(name: str, order: Sequence[Head], work: Work) -> Curve:
    """Return the share of answers that stay, or are right where the data say so, by the share of masked heads."""
    held = work.seen[1::2]
    labelled = any(row.expected is not None for row, _ in held)
    points = [(0.0, _share([(row.expected if labelled else reply.text) == reply.text for row, reply in held]))]
    for count in pruned_counts(len(order)):
        masks: dict[str, dict[int, float]] = {}
        for each, head in order[:count]:
            masks.setdefault(each, {})[head] = 0.0
        scaled = [scale_heads(each, factors) for each, factors in masks.items()]
        replies = work.replies([(row.number, changed(row.instance, *scaled)) for row, _ in held])
        kept = [
            after.text == (row.expected if labelled else before.text)
            for (row, before), after in zip(held, replies, strict=True)
            if after is not None
        ]
        points.append((count / len(order), _share(kept)))
    return Curve(NAME, f"{'accuracy' if labelled else 'answers kept'}, {name}", tuple(points))


def _share(true: Sequence[bool]) -> float:
    return float(np.mean(true)) if true else float("nan")


MEASURE = Measure(
    name=NAME,
    title="Importance of heads, and pruning",
    source="Michel et al. 2019, Voita et al. 2019",
    summary="Each head in turn is masked (scaled by 0). The curve masks more and more heads; their order comes from "
    "one half of the rows, the curve from the other.",
    lacks=no_interventions,
    add=_add,
    finish=_finish,
    changes=True,
)
