"""N11: how much of attention reaches the output of its layer; and the name of a part of N1, which needs pictures."""

from collections.abc import Sequence

import numpy as np

from limelight.base.errors import Error
from limelight.descriptions import MapInfo
from limelight.effective import effective_attention
from limelight.evaluation.measures.measure import Measure, Seen, Setting, Work, each_map, means

PICTURES = Measure(
    name="pictures",
    title="PSNR and SSIM of pictures",
    source="Wang et al. 2004",
    summary="",
    lacks=lambda setting: f"the answers of {setting.model.task} are no pictures that have expected ones beside them",
    add=lambda seen, work: None,
    finish=lambda work: ((), ()),
)

NAME = "effective"
MOST_KEYS, MOST_ROWS = 512, 64


def _valued(setting: Setting) -> tuple[MapInfo, ...]:
    return tuple(each for each in setting.maps if each.value_size)


def _lacks(setting: Setting) -> str:
    return "" if _valued(setting) else "no map of the model has values; export an older bundle again"


def _add(seen: Sequence[Seen], work: Work) -> None:
    maps = _valued(work.setting)
    seen = seen[: max(0, MOST_ROWS - len(work.seen))]
    answers = work.asking.attend([each.row.instance for each in seen], [each.name for each in maps], "values")
    for each, answer in zip(seen, answers, strict=True):
        if isinstance(answer, Error):
            work.failures.append((each.row.number, answer))
            continue
        for info, found in each_map(each, maps):
            weights = found.weights.astype(np.float64)
            if weights.size and weights.shape[2] <= MOST_KEYS:
                effective = effective_attention(found, answer[info.name])
                lost, whole = (float(np.linalg.norm(size)) for size in (weights - effective, weights))
                work.samples.add(NAME, info.name, "weight without effect", each.row.number, lost / max(whole, 1e-12))
                both = np.corrcoef(weights.ravel(), effective.ravel())[0, 1] if weights.std() else np.nan
                work.samples.add(NAME, info.name, "correlation with weights", each.row.number, float(both))


MEASURE = Measure(
    name=NAME,
    title="Effective attention",
    source="Brunner et al. 2020",
    summary="How much of the weights multiplies to nothing, because it lies in the left null space of the values "
    "(lengths, of 1), and Pearson's correlation of the weights and the rest, on at most "
    f"{MOST_ROWS} rows of at most {MOST_KEYS} keys.",
    lacks=_lacks,
    add=_add,
    finish=means(NAME),
)
