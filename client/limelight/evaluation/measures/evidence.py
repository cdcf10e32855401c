"""N5: does attention rank the input as people do?"""

from collections.abc import Sequence

from limelight.evaluation.measures.measure import Measure, Seen, Setting, Work, each_map, key_weights, means
from limelight.evaluation.rows import covered
from limelight.evaluation.statistics import average_precision, rank_correlation

NAME = "evidence"


def _lacks(setting: Setting) -> str:
    if not setting.has_evidence:
        return "no row has people's marks (`evidence`)"
    return "" if setting.maps else "no map of the model has weights without a sign"


def _add(seen: Sequence[Seen], work: Work) -> None:
    for each in seen:
        for info, found in each_map(each, work.setting.maps):
            marked, real = covered(found.key, each.row.evidence), ~found.key.special
            if not marked.any() or marked[real].all():
                continue
            weights, number, add = key_weights(found, each.answer.maps)[real], each.row.number, work.samples.add
            add(NAME, info.name, "rank correlation", number, rank_correlation(weights, marked[real]))
            add(NAME, info.name, "AUPRC", number, average_precision(weights, marked[real]))
            add(NAME, info.name, "marked share of keys", number, float(marked[real].mean()))
            total = float(weights.sum())
            add(
                NAME, info.name, "weight on marks", number, float(weights[marked[real]].sum()) / total if total else 0.0
            )


MEASURE = Measure(
    name=NAME,
    title="Agreement with people's evidence",
    source="DeYoung et al. 2020, Das et al. 2017",
    summary="Mean weight that a key gets, over heads and queries, against the marks; of words in sentences, times the "
    "weight of the sentence, where the model has a map of sentences. By chance the rank "
    "correlation is 0, and an AUPRC and a weight on marks of the marked share of keys.",
    lacks=_lacks,
    add=_add,
    finish=means(NAME),
)
