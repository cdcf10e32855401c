"""N13: flow of attention beside its rollout."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from limelight.descriptions import MapInfo
from limelight.evaluation.flow import flow, rollout
from limelight.evaluation.measures.measure import Measure, Seen, Setting, Work, each_map, means
from limelight.evaluation.rows import covered
from limelight.evaluation.statistics import average_precision, rank_correlation

NAME = "flow"
MOST_KEYS, MOST_ROWS, OUTPUTS = 32, 16, 2


def stacks(maps: Sequence[MapInfo]) -> dict[str, tuple[MapInfo, ...]]:
    """Return the self maps of each stack that has at least two layers, the first layer first."""
    selves = [
        each
        for each in maps
        if each.kind == "self" and each.normalised and each.form == "dense" and not each.features
        if each.layer is not None and each.query == each.key
    ]
    selves.sort(key=lambda each: (each.stack, each.layer))
    found = {stack: tuple(group) for stack, group in groupby(selves, key=lambda each: each.stack)}
    return {stack: each for stack, each in found.items() if len(each) > 1}


def _lacks(setting: Setting) -> str:
    return "" if stacks(setting.maps) else "no stack has two layers of self-attention"


def _add(seen: Sequence[Seen], work: Work) -> None:
    for stack, maps in stacks(work.setting.maps).items():
        for each in seen:
            layers = [found for _, found in each_map(each, maps)]
            if len(layers) != len(maps) or len(layers[0].key) > MOST_KEYS:
                continue
            if len(work.samples.rows(NAME, stack, "rank correlation")) >= MOST_ROWS:
                return
            weights = [found.mean_over_heads() for found in layers]
            outputs = np.unique(np.linspace(0, len(weights[0]) - 1, OUTPUTS).round().astype(int))
            rolled = rollout(weights)[outputs]
            flows = np.array([flow(weights, int(output)) for output in outputs])
            number, add = each.row.number, work.samples.add
            correlations = [rank_correlation(one, other) for one, other in zip(flows, rolled, strict=True)]
            correlations = [value for value in correlations if not np.isnan(value)]
            if correlations:
                add(NAME, stack, "rank correlation", number, float(np.mean(correlations)))
            marked, real = covered(layers[0].key, each.row.evidence), ~layers[0].key.special
            if marked.any() and not marked[real].all():
                for name, found in (("flow", flows), ("rollout", rolled)):
                    area = average_precision(found.mean(0)[real], marked[real])
                    add(NAME, stack, f"AUPRC of {name} with evidence", number, area)


MEASURE = Measure(
    name=NAME,
    title="Flow beside rollout",
    source="Abnar and Zuidema 2020",
    summary=f"Rank correlation of the largest flow and of the rollout from the first and the last output to every "
    f"input of a stack, on at most {MOST_ROWS} rows of at most {MOST_KEYS} keys.",
    lacks=_lacks,
    add=_add,
    finish=means(NAME),
)
