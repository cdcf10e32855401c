"""The measures, a module each; `ALL` has them in the order of a report."""

from limelight.evaluation.measures import effective, entropy, erasure, evidence, flowing, heads, looking, quality
from limelight.evaluation.measures.measure import Measure

ALL: tuple[Measure, ...] = (
    quality.MEASURE,
    effective.PICTURES,
    evidence.MEASURE,
    entropy.MEASURE,
    looking.UNIFORM,
    looking.PERMUTED,
    erasure.MEASURE,
    heads.MEASURE,
    flowing.MEASURE,
    effective.MEASURE,
)
