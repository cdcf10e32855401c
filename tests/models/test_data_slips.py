"""Functions with slips: that they are slips, and that the gold places are theirs."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from limelight_bundle.values import Text
from limelight_models.data import slips
from limelight_models.data.dataset import Example
from limelight_models.data.gold import Span

SOURCE = '''\
def mean(numbers, weights=None):
    """The mean of numbers."""
    if weights == None and len(numbers) == 0:
        raise ValueError("no numbers (at all)")
    for number in numbers:
        yield number
    return sum(numbers) / len(numbers)
'''


def document(example: Example) -> str:
    value = example.instance["document"]
    assert isinstance(value, Text)
    return value.text


def planted() -> Iterator[Example]:
    chance = random.Random(0)
    for _ in range(300):
        yield slips.example(SOURCE, chance)


def test_every_slip_is_in_one_line_and_only_there() -> None:
    found = set()
    for each in planted():
        found.add(each.label)
        before, after = SOURCE.splitlines(), document(each).splitlines()
        changed = [number for number, lines in enumerate(zip(before, after, strict=True)) if lines[0] != lines[1]]
        if each.label == slips.CORRECT:
            assert not changed and not each.gold
            continue
        (number,) = changed
        lines, *inside = each.gold
        (line,) = lines.keys
        assert isinstance(line, Span) and document(each)[line.start : line.end] == after[number]
        for gold in inside:
            assert gold.of == line
            assert all(isinstance(key, Span) and line.start <= key.start < key.end <= line.end for key in gold.keys)
    assert found == {slips.CORRECT, *slips.SLIPS}


@pytest.mark.parametrize("name", sorted({*slips.SLIPS} - {"misspelt keyword"}))
def test_a_slip_is_no_python_any_more(name: str) -> None:
    assert slips.parses(SOURCE)
    assert not any(slips.parses(document(each)) for each in planted() if each.label == name)


def shown(name: str) -> set[tuple[str, ...]]:
    """Texts at the gold places of one kind of slip."""
    return {
        tuple(document(each)[key.start : key.end] for key in each.gold[1].keys if isinstance(key, Span))
        for each in planted()
        if each.label == name
    }


def test_the_places_of_a_slip_are_what_was_changed_and_what_it_belongs_to() -> None:
    assert {("for", "s"), ("if", "0"), ("def", ")")} == shown("missing colon")
    assert {("=",)} == shown("= for ==")
    assert {("in for",), ("number in",), ("numbers in",), ("raise if",)} & shown("swapped words")
    assert all(first in "()" for first, *_ in shown("missing bracket"))
    assert all(first == '"' for first, *_ in shown("missing quote"))


def test_whole_files_are_held_out_and_half_of_the_docstrings_are_gone(tmp_path: Path) -> None:
    for number in range(30):
        text = "".join(SOURCE.replace("mean", f"mean{number}_{part}") for part in range(4))
        (tmp_path / f"part{number}.py").write_text(text)
    made = slips.dataset(library=tmp_path, training=40, held_out=16)
    assert [len(part) for part in (made.train, made.dev, made.test)] == [40 * slips.COPIES, 16, 16]
    train, test = (
        {document(each).partition("mean")[2].partition("_")[0] for each in part} for part in (made.train, made.test)
    )
    assert not train & test
    with_docstring = sum('"""' in document(each) for each in made.train)
    assert 0.2 < with_docstring / len(made.train) < 0.8
    assert made == slips.dataset(library=tmp_path, training=40, held_out=16)
