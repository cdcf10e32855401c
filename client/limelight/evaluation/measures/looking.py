"""N12 and N7: what does a model answer if its attention is equal, permuted, or as far away as possible?"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from limelight.base.errors import Error
from limelight.descriptions import MapInfo
from limelight.evaluation.asking import changed
from limelight.evaluation.measures.measure import (
    Measure,
    Seen,
    Setting,
    Work,
    add_change,
    means,
    moved,
    no_interventions,
    weights_above,
)
from limelight.evaluation.weights import jensen_shannon, permuted, reversed_order
from limelight.interventions import replace

PERMUTATIONS = 4
TOLERANCE = 0.05  # total variation distance within which an answer counts as kept (Jain and Wallace 2019)
_SUM = 1e-3


def _add_uniform(seen: Sequence[Seen], work: Work) -> None:
    for info in work.setting.changeable():
        rows = [each for each in seen if _attends(each, info)]
        asked = [(each, changed(each.row.instance, replace(info.name, "uniform"))) for each in rows]
        for each, reply in zip(rows, work.compared(asked), strict=True):
            if reply is not None:
                add_change(work, "uniform", info.name, each.row, each.reply, reply)


def _attends(seen: Seen, info: MapInfo) -> bool:
    return any(each.name == info.name for each in seen.answer.maps)


def _lacks_permuted(setting: Setting) -> str:
    reason = no_interventions(setting)
    if reason or _permutable(setting):
        return reason
    return "the weights of a query do not sum to 1, or are of edges, so others cannot be given"


def _permutable(setting: Setting) -> list[MapInfo]:
    return [each for each in setting.changeable() if each.normalised and each.form == "dense"]


def _add_permuted(seen: Sequence[Seen], work: Work) -> None:
    for info in _permutable(work.setting):
        rows = [each for each in seen if _attends(each, info)]
        # Equal weights come back as they were applied, and so tell which keys a query may attend to.
        equal = [work.as_before(each, changed(each.row.instance, replace(info.name, "uniform"))) for each in rows]
        for each, answer in zip(rows, work.asking.attend(equal, [info.name]), strict=True):
            if isinstance(answer, Error):
                work.failures.append((each.row.number, answer))
            elif info.name in answer:
                _permute(each, info, answer[info.name].weights, work)


def _permute(seen: Seen, info: MapInfo, equal: NDArray[np.float32], work: Work) -> None:
    weights = seen.answer[info.name].weights
    if weights.shape != equal.shape:  # a text that ends at the limit of tokens, or is cut into other tokens again
        return
    # A query that attends to nothing has zeros, which cannot be given.
    queries = np.flatnonzero((np.abs(weights.sum(-1) - 1) < _SUM).all(0))
    weights, allowed = weights[:, queries], equal[:, queries] > 0
    if not queries.size or (weights > 0)[~allowed].any():
        return
    others = [permuted(weights, allowed, work.chance) for _ in range(PERMUTATIONS)]
    others += [reversed_order(weights, allowed), equal[:, queries]]
    places = queries.tolist()
    asked = [(seen, changed(seen.row.instance, replace(info.name, each, queries=places))) for each in others]
    replies = work.compared(asked)
    distances = [moved(seen.reply, reply) for reply in replies[:PERMUTATIONS] if reply is not None]
    same = [reply.text == seen.reply.text for reply in replies[:PERMUTATIONS] if reply is not None]
    if not distances:
        return
    number, add = seen.row.number, work.samples.add
    add("permuted", info.name, "answer moves by", number, float(np.mean(distances)))
    add("permuted", info.name, "answers changed", number, 1 - float(np.mean(same)))
    above = weights_above(seen.answer[info.name], seen.answer.maps)
    counts = None if above is None or not above[queries].any() else np.broadcast_to(above[queries], weights.shape[:2])
    kept = [
        float(np.average(jensen_shannon(weights, each), weights=counts))
        for each, reply in zip(others, replies, strict=True)
        if reply is not None and reply.text == seen.reply.text and not moved(seen.reply, reply) > TOLERANCE
    ]
    add("permuted", info.name, "divergence that keeps the answer", number, max(kept, default=0.0))


UNIFORM = Measure(
    name="uniform",
    title="Equal weights",
    source="Liu et al. 2018, Lee et al. 2017, Wiegreffe and Pinter 2019",
    summary="Each map in turn gets equal weights. Answers that do not change do not depend on where the map looks. "
    "An answer moves by the total variation distance of the probabilities: 0 to 1. A text "
    "moves by the mean difference of the probabilities of its tokens; the log-probability lost is of a token, in nats.",
    lacks=no_interventions,
    add=_add_uniform,
    finish=means("uniform"),
    changes=True,
)

PERMUTED = Measure(
    name="permuted",
    title="Permuted and farthest weights",
    source="Jain and Wallace 2019, 4.2",
    summary=f"{PERMUTATIONS} permutations of each query's weights. The farthest weights are the largest Jensen-Shannon "
    f"divergence, in bits from 0 to 1, among the permutations, the reversed order and equal weights, at which the "
    f"answer moves by at most {TOLERANCE}: a lower bound, as few weights are tried.",
    lacks=_lacks_permuted,
    add=_add_permuted,
    finish=means("permuted"),
    changes=True,
)
