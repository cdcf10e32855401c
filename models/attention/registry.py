"""Every mechanism, in the catalogue's order: each package has a table, and they come together here."""

from models.attention.align.table import ALIGNS
from models.attention.dimensionality.table import DIMENSIONALITY
from models.attention.features.table import FEATURE_MECHANISMS
from models.attention.general_table import GENERAL
from models.attention.levels.table import LEVELS
from models.attention.mechanism import Mechanism
from models.attention.queries.table import QUERIES
from models.attention.representations.table import REPRESENTATIONS
from models.attention.score.table import SCORES
from models.attention.signals.table import SIGNALS

MECHANISMS: tuple[Mechanism, ...] = (
    *GENERAL, *SCORES, *ALIGNS,
    *DIMENSIONALITY, *LEVELS, *REPRESENTATIONS, *FEATURE_MECHANISMS, *QUERIES, *SIGNALS,
)  # fmt: skip


def find(name: str) -> list[Mechanism]:
    """The mechanisms with that name or catalogue row, case aside; a part of a name will do."""
    wanted = name.casefold()
    exact = [m for m in MECHANISMS if wanted in (m.name.casefold(), m.row.casefold(), m.module.__name__.casefold())]
    return exact or [m for m in MECHANISMS if wanted in m.name.casefold()]
