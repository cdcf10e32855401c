"""N6: does concentrated attention go with right and confident answers?"""

from collections.abc import Iterable, Sequence

import numpy as np

from limelight.evaluation.measures.measure import Measure, Seen, Setting, Work, each_map, weights_above
from limelight.evaluation.samples import Curve, Figure
from limelight.evaluation.weights import normalised_entropy
from limelight.maps import AttentionMap

NAME = "entropy"
FEWEST = 5  # right and wrong answers, for a correlation with error


def map_entropy(found: AttentionMap, maps: Sequence[AttentionMap] = ()) -> float:
    """Return the mean normalised entropy over heads, queries and features of a map; NaN if no query has two keys.

    maps: of the answer. A nested map, whose level above is among them, is one row: the product of the levels.
    """
    weights, present = found.dense(), found.present()
    above = weights_above(found, maps)
    if above is not None:
        weights, present = np.einsum("q,hq...->h...", above, weights)[:, None], np.asarray(present.any(1))[:, None]
    if weights.ndim == 4:
        weights = np.moveaxis(weights, 3, 1)
        present = np.broadcast_to(present[:, None], weights.shape)
    rows = normalised_entropy(weights, present)
    rows = rows[~np.isnan(rows)]
    return float(rows.mean()) if rows.size else float("nan")


def _lacks(setting: Setting) -> str:
    return "" if setting.maps else "no map of the model has weights without a sign"


def _add(seen: Sequence[Seen], work: Work) -> None:
    for each in seen:
        number, add = each.row.number, work.samples.add
        for info, found in each_map(each, work.setting.maps):
            add(NAME, info.name, "entropy", number, map_entropy(found, each.answer.maps))
        add(NAME, "", "confidence", number, each.reply.probability)
        if each.row.expected is not None:
            add(NAME, "", "error", number, float(each.reply.text != each.row.expected))


def _finish(work: Work) -> tuple[Iterable[Figure], Iterable[Curve]]:
    figures = [each for each in work.samples.means(NAME) if each.name == "entropy"]
    errors = list(work.samples.rows(NAME, "", "error").values())
    compared = ["confidence"]
    if min(errors.count(0.0), errors.count(1.0)) >= FEWEST:
        compared.append("error")
    for subject in work.samples.subjects(NAME, "entropy"):
        for name in compared:
            mine = (NAME, subject, "entropy")
            figures.append(work.samples.correlation(subject, f"correlation with {name}", mine, (NAME, "", name)))
    return figures, ()


MEASURE = Measure(
    name=NAME,
    title="Entropy of attention",
    source="Ghader and Monz 2017",
    summary="As a part of that of equal weights. 0: all weight on one key; 1: equal weights. A rank correlation near 1 "
    "with error, and near -1 with confidence, says that attention is spread where the model errs or is unsure. That "
    f"with error needs {FEWEST} right and {FEWEST} wrong answers.",
    lacks=_lacks,
    add=_add,
    finish=_finish,
)
