"""Every mechanism, in the catalogue's order: each package has a table, and they come together here."""

from models.attention.align.table import ALIGNS
from models.attention.general_table import GENERAL
from models.attention.mechanism import Mechanism
from models.attention.score.table import SCORES

MECHANISMS: tuple[Mechanism, ...] = (*GENERAL, *SCORES, *ALIGNS)


def find(name: str) -> list[Mechanism]:
    """The mechanisms with that name or catalogue row, case aside; a part of a name will do."""
    wanted = name.casefold()
    exact = [m for m in MECHANISMS if wanted in (m.name.casefold(), m.row.casefold(), m.module.__name__.casefold())]
    return exact or [m for m in MECHANISMS if wanted in m.name.casefold()]
