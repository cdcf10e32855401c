"""Texts with a parse or with variables: what is read of a file, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from limelight_models.data import row_files, rows
from limelight_models.data.beside import MEASURED, PARSED, tree_distances
from limelight_models.data.dataset import DataError


def test_words_are_as_many_steps_apart_as_there_are_arcs_between_them() -> None:
    expected = [[0, 1, 2, 4, 3], [1, 0, 1, 3, 2], [2, 1, 0, 2, 1], [4, 3, 2, 0, 1], [3, 2, 1, 1, 0]]
    assert tree_distances((2, 3, 0, 5, 3)).tolist() == expected


def test_between_two_trees_words_are_further_apart_than_on_any_way() -> None:
    assert tree_distances((0, 1, 0)).tolist() == [[0, 1, 3], [1, 0, 3], [3, 3, 0]]
    assert tree_distances(()).shape == (0, 0)


def test_a_head_that_is_no_word_is_refused() -> None:
    with pytest.raises(ValueError, match="one of 2 words"):
        tree_distances((0, 3))


def test_heads_become_distances_in_tables_and_json_lines(tmp_path: Path) -> None:
    table, objects = tmp_path / "a.tsv", tmp_path / "a.jsonl"
    table.write_text("good\tit's fine\t3 3 4 0\n")
    objects.write_text(json.dumps({"label": "good", "text": "it's fine", "heads": [3, 3, 4, 0]}) + "\n")
    for path in (table, objects):
        (example,) = row_files.read(path, PARSED)
        np.testing.assert_array_equal(example.instance["distances"].array, tree_distances((3, 3, 4, 0)))


def test_variables_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,text,variables\ngood,fine,0.5 -2\n")
    (example,) = row_files.read(path, MEASURED)
    assert example.instance["variables"].array.tolist() == [0.5, -2]


@pytest.mark.parametrize(
    ("kind", "beside", "why"),
    [
        (PARSED, {"heads": [2, 0]}, "3 words and 2 heads"),
        (PARSED, {"heads": [2, 0, 2.5]}, "whole numbers"),
        (PARSED, {}, 'no "heads"'),
        (MEASURED, {"variables": []}, 'no "variables"'),
        (MEASURED, {"variables": ["tall"]}, "are no numbers"),
        (MEASURED, {"variables": ["inf"]}, "not finite"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(
    kind: rows.Kind, beside: dict[str, object], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"label": "good", "text": "a fine day", **beside}) + "\n")
    with pytest.raises(DataError, match=rf"line 1: .*{why}"):
        row_files.read(path, kind)
