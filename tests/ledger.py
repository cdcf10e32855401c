"""Results of tests, kept between sessions: knows reports and a file, nothing of what is proved."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[1] / "build" / "evidence.json"
PROOF = "proof"
Proofs = dict[str, list[str]]  # classes that took part, by "kind name"


@dataclass
class Ledger:
    """Proofs by test. fresh: those that this session added; kinds: of what kinds they are."""

    tests: dict[str, Proofs] = field(default_factory=dict)
    fresh: dict[str, Proofs] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, file: Path = FILE) -> "Ledger":
        """Results of earlier sessions."""
        return cls(json.loads(file.read_text(encoding="utf-8")) if file.exists() else {})

    def note(self, report: pytest.TestReport) -> None:
        """Keep the proofs of a test that passed; forget those of one that did not."""
        if report.when != "call":
            return
        proofs = [value for name, value in report.user_properties if name == PROOF]
        self.tests.pop(report.nodeid, None)
        if proofs and report.passed:
            made = {f"{kind} {name}": list(classes) for kind, name, classes in proofs}
            self.tests[report.nodeid] = self.fresh[report.nodeid] = made
            self.kinds |= {kind for kind, _, _ in proofs}

    def write(self, file: Path = FILE) -> None:
        """Keep it for other sessions."""
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(self.tests, ensure_ascii=False, indent=1, sort_keys=True), encoding="utf-8")

    def holds(self, kind: str, name: str, implementation: str) -> bool:
        """Whether a test proved this of this name, the implementation having taken part."""
        return any(implementation in proofs.get(f"{kind} {name}", ()) for proofs in self.tests.values())
