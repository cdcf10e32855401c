"""Summaries of data before training begins, and files whose columns are not what they seem."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from limelight.base import installing
from limelight_models.data import folder, rows
from limelight_models.data.dataset import DataError, Dataset
from limelight_models.data.understood import understood

TEXTS = [(f"It was {word} on day {number}.", label) for number in range(20) for word, label in
         (("fine", "good"), ("dull", "bad"), ("grand", "good"))]  # fmt: skip


def write(path: Path, records: Sequence[Sequence[str]], between: str = "\t") -> Path:
    path.write_text("".join(between.join(record) + "\n" for record in records))
    return path


def load(path: Path, kind: rows.Kind = rows.DOCUMENTS, **options: Sequence[str]) -> Dataset:
    return folder.load(path, kind, **options)  # type: ignore[arg-type]


def refused(path: Path, kind: rows.Kind = rows.DOCUMENTS, **options: Sequence[str]) -> str:
    with pytest.raises(DataError) as caught:
        load(path, kind, **options)
    return caught.value.message.removeprefix(str(path))


def test_columns_counts_classes_and_an_example_are_said(tmp_path: Path) -> None:
    path = write(tmp_path / "films.csv", [("id", "review", "sentiment"), *(("7", *each) for each in TEXTS)], ",")
    columns, counts, classes, example = understood(load(path))
    assert columns == f"{path}: text is 'review', label is 'sentiment'"
    assert counts == "films: 48 training, 6 dev, 6 held-out examples"
    shares = re.fullmatch(r"classes: good (\d+) \((\d+)%\), bad (\d+) \((\d+)%\)", classes)
    assert shares and int(shares[1]) + int(shares[3]) == 48 and int(shares[1]) > int(shares[3])
    assert re.fullmatch(r"first example: document 'It was \w+ on day \d+\.', label '\w+'", example)


def test_columns_by_place_and_blank_lines_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    records = [("good", "one"), ("",), ("bad", "two"), (" ",), *((label, text) for text, label in TEXTS)]
    said = list(understood(load(write(path, records))))
    assert said[:2] == [f"{path}: label is column 1, text is column 2", f"{path}: 2 blank lines left out (2, 4)"]


def test_many_classes_are_cut(tmp_path: Path) -> None:
    records = [(f"c{number % 12}", f"text {number}") for number in range(240)]
    (line,) = (each for each in understood(load(write(tmp_path / "a.tsv", records))) if each.startswith("classes"))
    assert len(re.findall(r"\bc\d+ ", line)) == 10 and ", and 2 more, the rarest " in line


def test_every_wrong_line_is_named_up_to_a_number(tmp_path: Path) -> None:
    records = [(label, "" if number % 5 == 2 else text) for number, (text, label) in enumerate(TEXTS)]
    said = refused(write(tmp_path / "a.tsv", records))
    assert said == (", line 3: has an empty text; lines 8, 13, 18, 23, 28, 33, 38, 43 and 3 more cannot be read either")
    assert refused(write(tmp_path / "b.tsv", [*records[:8]])) == (
        ", line 3: has an empty text; line 8 cannot be read either"
    )


def test_a_first_line_of_unknown_names_is_no_example(tmp_path: Path) -> None:
    swapped = [("polarity", "body"), *((label, text) for text, label in TEXTS)]
    wanted = "polarity, body seem to be the names of columns, and which of them are label, text is not known"
    for name, between in (("a.tsv", "\t"), ("a.csv", ",")):
        path = write(tmp_path / name, swapped, between)
        assert wanted in refused(path)
        assert load(path, columns=("polarity", "body")).labels == ("bad", "good")
    path = write(tmp_path / "b.tsv", [("no", "how", "when"), ("1", "a", "b")])
    said = refused(path, rows.PAIRS)
    assert said.startswith(
        ", line 1: has 3 fields; source<TAB>target is wanted; where no, how, when are names of columns"
    )
    # A first line whose label others have too is an example, short as it may be.
    assert load(write(tmp_path / "c.tsv", [("good", "fine"), *swapped[1:]])).labels == ("bad", "good")


def test_labels_are_no_source_of_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [(label, text) for text, label in TEXTS])
    said = refused(path, rows.PAIRS)
    assert "the source of its 60 examples is one of 2 texts, such as 'bad', and there are 60 targets" in said
    assert "(han)" in said and "--columns SOURCE,TARGET" in said
    # Several translations of a text each are no labels.
    several = [(f"text {number // 4}", f"translation {number}") for number in range(60)]
    assert load(write(tmp_path / "b.tsv", several), rows.PAIRS).train


def test_keys_that_are_not_there_are_answered_with_those_that_are(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"body": text, "polarity": label}) + "\n" for text, label in TEXTS))
    assert "(it has body, polarity; --columns says which of them are label, text)" in refused(path)
    said = next(understood(load(path, columns=("polarity", "body"))))
    assert said == f"{path}: label is 'polarity', text is 'body'"


class TestParquet:
    """Parquet, with pyarrow."""

    def test_rows_are_read_by_their_names(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        texts, labels = zip(*TEXTS, strict=True)
        columns = {"id": list(range(60)), "review": texts, "label": pyarrow.array(labels).dictionary_encode()}
        parquet.write_table(pyarrow.table(columns), tmp_path / "train.parquet")
        found = load(tmp_path / "train.parquet")
        assert next(understood(found)) == f"{tmp_path / 'train.parquet'}: label is 'label', text is 'review'"
        assert found.labels == ("bad", "good") and len(found.train) == 48
        assert load(tmp_path).fingerprint == found.fingerprint, "a folder with train.parquet"
        sentences = {"label": [1, 0] * 10, "sentences": [["One.", "Two."]] * 20}
        parquet.write_table(pyarrow.table(sentences), tmp_path / "b.parquet")
        assert load(tmp_path / "b.parquet").labels == ("0", "1")

    def test_rows_that_are_wrong_are_named(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "a.parquet"
        parquet.write_table(pyarrow.table({"text": ["a", "b", "c"], "label": ["x", None, None]}), path)
        assert refused(path) == (
            ', row 2: has no "label" that is a text or a whole number; row 3 cannot be read either'
        )
        path.write_bytes(path.read_bytes()[:-20])
        assert re.match(": cannot be read as Parquet", refused(path))

    def test_without_pyarrow_the_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        (tmp_path / "a.parquet").write_bytes(b"PAR1")
        said = refused(tmp_path / "a.parquet")
        assert said == f": Parquet needs pyarrow, which is not installed: {installing.extra('data')}"
