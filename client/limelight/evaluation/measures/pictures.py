"""N1: pictures beside expected ones, which no answer has."""

from limelight.evaluation.measures.measure import Measure, Setting


def _lacks(setting: Setting) -> str:
    return f"the answers of {setting.model.task} are no pictures that have expected ones beside them"


MEASURE = Measure(
    name="pictures",
    title="PSNR and SSIM of pictures",
    source="Wang et al. 2004",
    summary="",
    lacks=_lacks,
    add=lambda seen, work: None,
    finish=lambda work: ((), ()),
)
