"""The rows of BF Table 3 that small task models have."""

from limelight.v1 import model_pb2
from models.cards import describe

SCALED, ADDITIVE, SOFT = "scaled multiplicative", "additive", "soft (global)"


def taxonomy(
    *,
    score: str,
    align: str = "",
    features: str = "singular",
    levels: str = "single-level",
    representations: str = "single-representational",
    multidimensional: bool = False,
    query: str = "specialised",
    multiplicity: str = "singular",
) -> model_pb2.Taxonomy:
    """A row; what is not said is the plain case."""
    return describe.taxonomy(
        features,
        levels,
        representations,
        score,
        "global" if align in ("", SOFT) else align,
        "multi-dimensional" if multidimensional else "single-dimensional",
        query,
        multiplicity,
    )
