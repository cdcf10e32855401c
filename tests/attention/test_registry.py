"""The registry documents every mechanism, and the page made from it is up to date."""

import json
from pathlib import Path

import pytest

from limelight.base.commands import CommandError
from limelight_models.catalogue.command import mechanisms
from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.registry import MECHANISMS, find
from limelight_models.catalogue.rows import ROWS
from limelight_models.catalogue.taxonomy import KINDS, Evidence, line, page
from tests.attention.evidence import PAGE, proof, proved
from tests.ledger import Ledger

each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: f"{m.row} {m.name}")


@each
def test_every_mechanism_is_documented(mechanism: Mechanism) -> None:
    assert mechanism.row in {row.id for row in ROWS}
    assert any(sign in mechanism.equation for sign in "=~∝"), mechanism.equation
    assert any(letter in mechanism.source for letter in ("BF", "G ", "C ", "S ", "survey")), mechanism.source
    assert any(character.isdigit() for character in mechanism.source)
    assert "Shapes:" in (mechanism.module.__doc__ or "")


def test_names_are_unique() -> None:
    names = [m.name for m in MECHANISMS]
    assert len(names) == len(set(names))


def test_every_row_of_scores_and_alignments_is_here() -> None:
    rows = {m.row for m in MECHANISMS}
    assert {row.id for row in ROWS if row.id[0] in "ABC"} <= rows


def test_the_page_lists_what_the_registry_holds() -> None:
    """All but the marks: whether those are what tests proved is judged at the end of a whole session."""
    nothing = Evidence(oracle=[], exported=[], served=[])
    columns = [line.split(" | ")[:5] for line in page(MECHANISMS, nothing).splitlines()]
    assert [line.split(" | ")[:5] for line in PAGE.read_text(encoding="utf-8").splitlines()] == columns


def test_a_row_is_done_only_with_all_evidence() -> None:
    row = next(row for row in ROWS if row.id == "C8")
    found = find("C8")
    everything = [m.name for m in found]
    full = Evidence(oracle=everything, exported=everything, served=everything)
    assert line(row, found, full).endswith("| ✓ |")
    for kind in KINDS:
        lacking = Evidence(**{**vars(full), kind: everything[1:]})
        assert line(row, found, lacking).endswith("| · |")
    assert line(row, [], full).endswith("| · |")


def test_a_row_is_train_only_where_nothing_of_it_is_served() -> None:
    names = [m.name for m in MECHANISMS]
    full = Evidence(oracle=names, exported=names, served=names)
    ends = {row.id: line(row, find(row.id), full).split(" | ")[-1] for row in ROWS}
    assert {row for row, end in ends.items() if end == "train-only |"} == {"H8", "I1", "I4", "I6", "I7"}
    unproved = Evidence(oracle=[], exported=names, served=names)
    assert line(next(row for row in ROWS if row.id == "I1"), find("I1"), unproved).endswith("| · |")


def report(passed: bool, *proofs: tuple[str, object]) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid="a test", location=("", 0, ""), keywords={}, outcome="passed" if passed else "failed", longrepr=None,
        when="call", user_properties=list(proofs),
    )  # fmt: skip


def test_evidence_is_what_passed_and_what_ran(tmp_path: Path) -> None:
    additive, concat = find("additive")[0], find("concat")[0]
    ledger = Ledger()
    ledger.note(report(True, proof("oracle", additive, additive.build())))
    assert proved(ledger, "oracle") == [additive.name]
    assert proved(ledger, "served") == []
    ledger.write(tmp_path / "evidence.json")
    assert proved(Ledger.read(tmp_path / "evidence.json"), "oracle") == [additive.name]
    ledger.note(report(True, proof("oracle", concat, additive.build())))  # another class stood in for it
    assert proved(ledger, "oracle") == []
    ledger.note(report(True, proof("oracle", concat, concat.build())))
    assert proved(ledger, "oracle") == [concat.name]
    ledger.note(report(False, proof("oracle", concat, concat.build())))
    assert proved(ledger, "oracle") == []


def test_command_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    mechanisms()
    assert len(capsys.readouterr().out.splitlines()) == len(MECHANISMS)


def test_command_explains_one(capsys: pytest.CaptureFixture[str]) -> None:
    mechanisms("additive")
    text = capsys.readouterr().out
    assert "e = wᵀ act(W₁ q + W₂ k + b)" in text
    assert "Bahdanau" in text
    mechanisms("b7", as_json=True)
    (described,) = json.loads(capsys.readouterr().out)
    assert described["name"] == "activated general"
    assert described["parameters"] == ["d_q", "d_k", "heads=1", "act=tanh"]


def test_command_refuses_what_is_not_there() -> None:
    with pytest.raises(CommandError, match="no mechanism is called 'nonsense'"):
        mechanisms("nonsense")
