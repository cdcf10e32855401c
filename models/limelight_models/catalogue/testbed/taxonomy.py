"""The rows of BF Table 3 that small task models have."""

from limelight_models.cards.taxonomy import Taxonomy

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
) -> Taxonomy:
    """A row; what is not said is the plain case."""
    return Taxonomy(
        features=features,
        levels=levels,
        representations=representations,
        scoring=score,
        alignment="global" if align in ("", SOFT) else align,
        dimensionality="multi-dimensional" if multidimensional else "single-dimensional",
        query=query,
        multiplicity=multiplicity,
    )
