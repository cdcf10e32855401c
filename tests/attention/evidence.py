"""Evidence of tests about each mechanism, and the page made of it: run as a program, it writes `docs/taxonomy.md`.

A test that has compared a mechanism says so with `record_property(*proof(…))`. Pytest hands that on with the test's
report, and a `Ledger` keeps it in `build/evidence.json` for the tests that passed. A proof counts for a mechanism only
where the class that the registry names for it was among what ran.
"""

from pathlib import Path

from torch import nn

from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.taxonomy import KINDS, Evidence, page
from tests.ledger import PROOF, Ledger

PAGE = Path(__file__).resolve().parents[2] / "docs" / "taxonomy.md"


def implementation(thing: object) -> str:
    """A class or a function by its full name."""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"


def proof(kind: str, mechanism: Mechanism, module: nn.Module) -> tuple[str, object]:
    """Evidence of one comparison: its kind, the mechanism, the classes that took part."""
    assert kind in KINDS
    took_part = {implementation(type(part)) for part in module.modules()}
    took_part |= {implementation(part.function) for part in module.modules() if hasattr(part, "function")}
    return PROOF, [kind, mechanism.name, sorted(name for name in took_part if name.startswith("limelight_models."))]


def proved(ledger: Ledger, kind: str) -> list[str]:
    """Names of the mechanisms that are proved in this way, by the class that the registry names."""
    return [m.name for m in MECHANISMS if ledger.holds(kind, m.name, implementation(m.module))]


def proved_page(ledger: Ledger) -> str:
    """The page as it should be."""
    return page(MECHANISMS, Evidence(**{kind: proved(ledger, kind) for kind in KINDS}))


if __name__ == "__main__":
    PAGE.write_text(proved_page(Ledger.read()), encoding="utf-8")
