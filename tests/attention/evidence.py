"""What the tests prove about each mechanism. Run as a program, it writes `docs/taxonomy.md`."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from models.catalogue.registry import MECHANISMS
from models.catalogue.taxonomy import Evidence, page
from tests.attention.test_export import GROUPS
from tests.oracles import ORACLES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "taxonomy.md"


def evidence() -> Evidence:
    """Names by kind: built here and now; with an oracle; in an export test; in the end-to-end test over a socket."""
    return Evidence(
        constructed=[m.name for m in MECHANISMS if m.build() is not None],
        oracle=list(ORACLES),
        exported=[m.name for members in GROUPS.values() for m in members],
        served=served(),
    )


def served() -> list[str]:
    """SERVED of `tests.served_mechanisms`, the table that the end-to-end test goes through; nothing without it."""
    if find_spec("tests.served_mechanisms") is None:
        return []
    return list(import_module("tests.served_mechanisms").SERVED)


def current_page() -> str:
    """The page as it should be."""
    return page(MECHANISMS, evidence())


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(current_page(), encoding="utf-8")
