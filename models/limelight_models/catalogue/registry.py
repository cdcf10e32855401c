"""Every mechanism, in the catalogue's order: each package has a table, and they come together here."""

from limelight_models.catalogue.align import ALIGNS
from limelight_models.catalogue.dimensionality import DIMENSIONALITY
from limelight_models.catalogue.features import FEATURE_MECHANISMS
from limelight_models.catalogue.general import GENERAL
from limelight_models.catalogue.levels import LEVELS
from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.queries import QUERIES
from limelight_models.catalogue.representations import REPRESENTATIONS
from limelight_models.catalogue.score import SCORES
from limelight_models.catalogue.signals import SIGNALS

MECHANISMS: tuple[Mechanism, ...] = (
    *GENERAL, *SCORES, *ALIGNS,
    *DIMENSIONALITY, *LEVELS, *REPRESENTATIONS, *FEATURE_MECHANISMS, *QUERIES, *SIGNALS,
)  # fmt: skip


def find(name: str) -> list[Mechanism]:
    """The mechanisms with that name or catalogue row, case aside; a part of a name will do."""
    wanted = name.casefold()
    exact = [m for m in MECHANISMS if wanted in (m.name.casefold(), m.row.casefold(), m.module.__name__.casefold())]
    return exact or [m for m in MECHANISMS if wanted in m.name.casefold()]
