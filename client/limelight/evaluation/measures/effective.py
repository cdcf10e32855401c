"""N11: effective attention, which needs what no server returns."""

from limelight.evaluation.measures.measure import Measure, Setting


def _lacks(_: Setting) -> str:
    return (
        "a server returns no values (V), whose null space would be removed; norms of weighted values are served "
        "where a map lists them"
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
