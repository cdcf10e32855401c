"""N11 and a part of N1: what needs more than a server returns."""

from limelight.evaluation.measures.measure import Measure, Setting


def _lacks(_: Setting) -> str:
    return (
        "a server returns no values (V), whose null space would be removed; norms of weighted values are served "
        "where a map lists them"
    )


PICTURES = Measure(
    name="pictures",
    title="PSNR and SSIM of pictures",
    source="Wang et al. 2004",
    summary="",
    lacks=lambda setting: f"the answers of {setting.model.task} are no pictures that have expected ones beside them",
    add=lambda seen, work: None,
    finish=lambda work: ((), ()),
)

MEASURE = Measure(
    name="effective",
    title="Effective attention",
    source="Brunner et al. 2020",
    summary="",
    lacks=_lacks,
    add=lambda seen, work: None,
    finish=lambda work: ((), ()),
)
