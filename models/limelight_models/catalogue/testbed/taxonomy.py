"""The cards of small task models, and the rows of BF Table 3 that they have."""

from collections.abc import Mapping, Sequence
from typing import Any

from limelight_models.cards.card import Card
from limelight_models.cards.describe import describe
from limelight_models.cards.inputs import Input
from limelight_models.cards.maps import Map
from limelight_models.cards.results import Classes
from limelight_models.cards.taxonomy import Taxonomy
from limelight_models.catalogue.testbed.text import Texts

MAX_CHARACTERS = 20_000

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


def classifier(
    reads: str,
    texts: Texts,
    inputs: Sequence[Input],
    maps: Mapping[str, Map],
    *,
    title: str,
    max_characters: int = MAX_CHARACTERS,
    **more: Any,
) -> Card:
    """Describe a model that puts what it reads into classes. more: its `taxonomy`, and other fields of `describe`."""
    return describe(
        title=title,
        summary=f"A small classifier of {reads} whose attention is {title}.",
        inputs=inputs,
        results=[Classes(labels=texts.labels)],
        maps=maps,
        max_characters=max_characters,
        **more,
    )
