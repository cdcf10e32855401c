"""Every mechanism, in the catalogue's order: each package has a table, and they come together here."""

from models.catalogue.align import ALIGNS
from models.catalogue.dimensionality import DIMENSIONALITY
from models.catalogue.features import FEATURE_MECHANISMS
from models.catalogue.general import GENERAL
from models.catalogue.levels import LEVELS
from models.catalogue.mechanism import Mechanism
from models.catalogue.queries import QUERIES
from models.catalogue.representations import REPRESENTATIONS
from models.catalogue.score import SCORES
from models.catalogue.signals import SIGNALS

MECHANISMS: tuple[Mechanism, ...] = (
    *GENERAL, *SCORES, *ALIGNS,
    *DIMENSIONALITY, *LEVELS, *REPRESENTATIONS, *FEATURE_MECHANISMS, *QUERIES, *SIGNALS,
)  # fmt: skip


def find(name: str) -> list[Mechanism]:
    """The mechanisms with that name or catalogue row, case aside; a part of a name will do."""
    wanted = name.casefold()
    exact = [m for m in MECHANISMS if wanted in (m.name.casefold(), m.row.casefold(), m.module.__name__.casefold())]
    return exact or [m for m in MECHANISMS if wanted in m.name.casefold()]
