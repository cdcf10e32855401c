"""Marks of people: words that are translations of words, and phrases that are reasons."""

import json
from pathlib import Path

import pytest

from limelight_bundle.values import Text
from limelight_models.data import folder, row_files, rows
from limelight_models.data.dataset import DataError, Example
from limelight_models.data.gold import Gold, Span


def read(example: Example, place: object) -> str:
    assert isinstance(place, Span)
    value = example.instance[place.input]
    assert isinstance(value, Text)
    return value.text[place.start : place.end]


def test_words_that_people_aligned(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = {"src": ["I", "do", " "], "tgt": ["je", "le", "fais"], "sure": [[0, 0], [1, 2]], "possible": [[1, 1]]}
    path.write_text(json.dumps(line))
    (example,) = row_files.read(path, rows.PAIRS)
    assert example.instance == {"text": Text("I do ␣"), "target": Text("je le fais")}
    marked = [(read(example, each.of), [read(example, key) for key in each.keys]) for each in example.gold]
    assert marked == [("je", ["I"]), ("le", []), ("fais", ["do"])]
    assert [[read(example, place) for place in each.right] for each in example.gold] == [["I"], ["do"], ["do"]]
    for wrong, message in (({"sure": [[3, 0]]}, "no link"), ({"src": ["a", ""]}, '"src" is no list of words')):
        path.write_text(json.dumps({**line, **wrong}))
        with pytest.raises(DataError, match=f"line 1: .*{message}"):
            row_files.read(path, rows.PAIRS)


def test_phrases_that_people_marked_in_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = {"label": "bad", "sentences": ["so so .", " ", "a waste of time ."], "evidence": [[[2, 1, 4]], [[0, 0, 1]]]}
    path.write_text(json.dumps(line))
    (example,) = row_files.read(path, rows.DOCUMENTS)
    whole, last, first = example.gold
    assert whole.of is None and {key.sentence for key in whole.keys if isinstance(key, Span)} == {0, 1}
    assert last.of == Span("document", 0, 17, sentence=1) and last.keys == (Span("document", 2, 15, sentence=1),)
    assert first.keys == (Span("document", 0, 2, sentence=0),)
    for wrong in ([[[1, 0, 1]]], [[[0, 7, 9]]], [3], "no"):
        path.write_text(json.dumps({**line, "evidence": wrong}))
        with pytest.raises(DataError, match="line 1: "):
            row_files.read(path, rows.DOCUMENTS)


def test_a_marked_document_read_as_one_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = {"label": "bad", "sentences": ["so so .", " ", "a waste of time ."], "evidence": [[[2, 1, 4]], [[0, 0, 1]]]}
    path.write_text(json.dumps(line))
    (example,) = row_files.read(path, rows.TEXTS)
    assert example.instance == {"text": Text("so so . a waste of time .")}
    (gold,) = example.gold
    assert gold.of is None and sorted(read(example, key) for key in gold.keys) == ["so", "waste of time"]
    path.write_text(json.dumps({"label": "bad", "sentences": ["so", "so ."]}))
    assert row_files.read(path, rows.TEXTS)[0] == Example({"text": Text("so so .")}, "bad")


def test_marks_that_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    films, marked = tmp_path / "films", tmp_path / "marked"
    for each in (films, marked):
        each.mkdir()
    lines = [{"id": f"f{n}", "label": n % 2, "sentences": ["so so .", "a waste ."]} for n in range(20)]
    (films / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    both = tmp_path / "films+marked"
    with pytest.raises(DataError, match="marked: has no JSON lines of what is marked"):
        folder.load(both, rows.DOCUMENTS)
    (marked / "all.jsonl").write_text(
        "\n".join(json.dumps({"id": f"f{n}", "evidence": [[[1, 1, 2]]]}) for n in range(10))
    )
    made = folder.load(both, rows.DOCUMENTS)
    every = [*made.train, *made.dev, *made.test]
    assert made.name == "films+marked" and sum(bool(each.gold) for each in every) == 10
    assert {each.gold for each in every} == {
        (),
        (
            Gold((Span("document", 0, 9, sentence=1),)),
            Gold((Span("document", 2, 7, sentence=1),), of=Span("document", 0, 9, sentence=1)),
        ),
    }
    (marked / "all.jsonl").write_text('{"id": "g1", "evidence": [[[1, 1, 2]]]}')
    with pytest.raises(DataError, match="films: none of the marks beside it is of a line here"):
        folder.load(both, rows.DOCUMENTS)
    (marked / "all.jsonl").write_text('{"id": "f1"}')
    with pytest.raises(DataError, match=r'all\.jsonl, line 1: has no "id" with "evidence"'):
        folder.load(both, rows.DOCUMENTS)
