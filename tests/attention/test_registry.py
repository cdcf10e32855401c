"""The registry documents every mechanism."""

import json

import pytest

from limelight.base.commands import CommandError
from limelight_models.catalogue.command import mechanisms
from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.registry import MECHANISMS, find
from pages.atlas.rows import rows
from pages.taxonomy import line

each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: f"{m.row} {m.name}")


@each
def test_every_mechanism_is_documented(mechanism: Mechanism) -> None:
    assert mechanism.row in rows()
    assert any(sign in mechanism.equation for sign in "=~∝"), mechanism.equation
    assert any(letter in mechanism.source for letter in ("BF", "G ", "C ", "S ", "survey")), mechanism.source
    assert any(character.isdigit() for character in mechanism.source)
    assert "Shapes:" in (mechanism.module.__doc__ or "")


def test_names_are_unique() -> None:
    names = [m.name for m in MECHANISMS]
    assert len(names) == len(set(names))


def test_every_row_of_scores_and_alignments_is_here() -> None:
    assert {row for row in rows() if row[0] in "ABC"} <= {m.row for m in MECHANISMS}


def test_a_row_is_train_only_where_nothing_of_it_is_served() -> None:
    ends = {row.id: line(row, find(row.id)).split(" | ")[-1] for row in rows().values() if row.id[0] < "J"}
    assert {row for row, end in ends.items() if end == "train-only |"} == {"H8", "I1", "I4", "I6", "I7"}
    assert line(rows()["M1"], []).endswith("| · | · | · | · |")


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
