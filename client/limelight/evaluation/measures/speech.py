"""N1: phones that a model heard."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from limelight.evaluation.measures.measure import NO_LABELS, Measure, Seen, Setting, Work
from limelight.evaluation.measures.quality import edits
from limelight.evaluation.measures.texts import phones
from limelight.evaluation.samples import Curve, Figure, figure

NAME = "phones"


def _lacks(setting: Setting) -> str:
    if setting.model.task != "generation" or all(each.kind != "audio" for each in setting.model.inputs):
        return "the model writes no transcripts of recordings"
    return "" if setting.has_labels else NO_LABELS


def _add(seen: Sequence[Seen], work: Work) -> None:
    for each in seen:
        expected = None if each.row.expected is None else phones(each.row.expected)
        if expected is not None:
            wrong = edits(phones(each.reply.text) or each.reply.text.split(), expected)
            work.samples.add(NAME, "", "wrong", each.row.number, float(wrong))
            work.samples.add(NAME, "", "expected", each.row.number, float(len(expected)))


def _finish(work: Work) -> tuple[Iterable[Figure], Iterable[Curve]]:
    wrong, expected = (
        np.array([*work.samples.rows(NAME, "", name).values()], np.float64) for name in ("wrong", "expected")
    )

    def rate(at: NDArray[np.int64]) -> float:
        return float(wrong[at].sum() / max(1.0, expected[at].sum()))

    return ([figure(NAME, "", "phone error rate", len(wrong), rate)] if wrong.size else []), ()


MEASURE = Measure(
    name=NAME,
    title="Phones",
    source="Lee and Hon 1989",
    summary="Insertions, deletions and substitutions for each expected phone, of rows whose expected text is phones of "
    "the ARPAbet or of TIMIT between spaces. Stress is not counted, and no phones are taken for one.",
    lacks=_lacks,
    add=_add,
    finish=_finish,
)
