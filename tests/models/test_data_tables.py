"""TSV, CSV and JSON lines as other programs write them: quoting, headers, encodings, and what is said of others."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from limelight_bundle.values import Text
from limelight_models.data import folder, row_files, rows
from limelight_models.data.dataset import DataError, shown
from limelight_models.training.session import Source, check_texts

GREAT = [("good", 'a "great" film'), ("bad", "a dull, long film")]


def read(path: Path, columns: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Labels and texts of a file of documents."""
    found = row_files.read(path, rows.DOCUMENTS, columns=columns)
    documents = [each.instance["document"] for each in found]
    assert all(isinstance(each, Text) for each in documents)
    return [(each.label, text.text) for each, text in zip(found, documents, strict=True) if isinstance(text, Text)]


def table(path: Path, records: Sequence[Sequence[str]], **options: int) -> Path:
    """A file as Python's csv module, and with it pandas, writes it."""
    out = io.StringIO()
    delimiter = "," if ".csv" in path.name else "\t"
    csv.writer(out, delimiter=delimiter, **options).writerows(records)  # type: ignore[arg-type]
    data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def refused(path: Path, kind: rows.Kind = rows.DOCUMENTS, columns: Sequence[str] = ()) -> str:
    """Messages about a file, without its path."""
    with pytest.raises(DataError) as caught:
        row_files.read(path, kind, columns=columns)
    assert caught.value.message.startswith(f"{path}, line ")
    return caught.value.message.removeprefix(f"{path}, ")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.tsv.gz", "a.csv.gz"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("header", [[], [("label", "text")], [("Label", "Sentence")], [("sentiment", "review")]])
def test_what_other_programs_write_is_read_without_its_quotes(
    tmp_path: Path, name: str, quoting: int, header: list[tuple[str, str]]
) -> None:
    assert read(table(tmp_path / name, header + GREAT, quoting=quoting)) == GREAT


def test_a_line_of_names_says_which_column_is_which(tmp_path: Path) -> None:
    swapped = [(text, "x", label) for label, text in GREAT]
    for name in ("a.tsv", "a.csv"):
        assert read(table(tmp_path / name, [("review", "id", "sentiment"), *swapped])) == GREAT
        assert read(table(tmp_path / name, [("what", "who", "how"), *swapped]), ("how", "what")) == GREAT
        assert read(table(tmp_path / name, swapped), ("3", "1")) == GREAT
        assert read(table(tmp_path / name, [("text", "who", "label"), *swapped]), ("3", "1")) == GREAT
    assert "has 3 fields, and no column 4" in refused(table(tmp_path / "a.csv", swapped), columns=("4", "1"))


def test_quotes_in_unquoted_tables_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    texts = ['say "hi" now', '"Great" film', '"open', 'end"', '"', "it's", '"He" and "she"']
    path.write_text("".join(f"good\t{text}\n" for text in texts))
    assert [text for _, text in read(path)] == texts
    path = tmp_path / "a.csv"
    path.write_text('good,say "hi" now\n')
    assert read(path) == [("good", 'say "hi" now')]


def test_texts_of_several_lines_are_in_csv(tmp_path: Path) -> None:
    records = [("good", "one\ntwo"), ("bad", "three\r\nfour")]
    assert read(table(tmp_path / "a.csv", [("label", "text"), *records])) == records
    path = table(tmp_path / "b.csv", [*records, ("bad",)])
    assert refused(path).startswith("line 5: has 1 field; label,text is wanted")
    path = tmp_path / "a.tsv"
    path.write_text('good\t"one\ntwo"\nbad\tthree\n')
    assert refused(path).startswith("line 2: has 1 field; label<TAB>text is wanted")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b'good,fine\nbad,"never closed\ngood,fine\n', "line 2: opens a quote that is never closed"),
        ("a.csv", b'good,fine\nbad,"a" b\n', "line 2: has text behind a closing quote"),
        ("a.csv", b"good,fine, or not\n", "line 1: has 3 fields; label,text is wanted (a text with a comma"),
        ("a.csv", b"good;fine\n", "line 1: has 1 field; label,text is wanted (semicolons part"),
        ("a.tsv", b'good\t"a"\ngood\t"b"\nbad\t"open\n', "line 3: opens a quote that it does not close"),
        ("a.tsv", b"good\tfine\nbad\tna\xc3", "line 2: is not UTF-8 (byte 0xc3: unexpected end of data)"),
        ("a.tsv", b"good\tfine\rbad\tna\xff\n", "line 2: is not UTF-8 (byte 0xff"),
        ("a.csv", b"good,fine\r\nbad,caf\xe9\r\n", "line 2: is not UTF-8 (byte 0xe9"),
        ("a.jsonl", b'{"label": 1, "text": "a"}\n{"label": 1, "text": "\xe9"}', "line 2: is not UTF-8"),
        ("a.tsv", "good\tfine\nbad\tno\n".encode("utf-16-le"), "line 1: holds a NUL byte; save the file as UTF-8"),
        ("a.tsv", "good\tfine\nbad\tno\n".encode("utf-16")[:-1], "line 2: is not UTF-16"),
        ("a.tsv", b"good\tfine\nbad\tn\0o\n", "line 2: holds a NUL byte"),
        ("a.csv", b"good,fine\nbad,n\0o\n", "line 2: holds a NUL byte"),
        ("a.jsonl", b'{"label": 1.5, "text": "a"}', 'line 1: has no "label" that is a text or a whole number'),
        ("a.jsonl", b'{"label": true, "text": "a"}', 'line 1: has no "label" that is a text or a whole number'),
        ("a.jsonl", b'{"label": null, "text": "a"}', 'line 1: has no "label" that is a text or a whole number'),
        ("a.jsonl", b'{"label": "", "text": "a"}', "line 1: has an empty label"),
        ("a.jsonl", b'\n\n{"label": 1, "text": ["a"]}', 'line 3: has no "text" that is a text'),
        ("a.jsonl", b'{"label": 1, "text": "a"} {"label": 1}', "line 1: is not JSON: Extra data"),
        ("a.jsonl", b'{"a": ' * 100_000, "line 1: is not JSON that can be read: too deep"),
        ("a.jsonl", b'{"label": ' + b"9" * 5000 + b', "text": "a"}', "line 1: "),
        ("a.conll", b"word\tO\nw\xff\tO\n", "line 2: is not UTF-8"),
    ],
)
def test_file_and_line_of_what_is_broken_are_named(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    said = refused(path, rows.TAGGED if name == "a.conll" else rows.DOCUMENTS)
    assert said.startswith(message) and len(said) < 300


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n \r\n"])
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_encodings_and_ends_of_lines(tmp_path: Path, encoding: str, end: str, name: str) -> None:
    texts = ["Käse", "日本\u2028語", "🙂"]
    lines = {
        "a.tsv": [f"good\t{text}" for text in texts],
        "a.csv": [f"good,{text}" for text in texts],
        "a.jsonl": [json.dumps({"label": "good", "text": text}, ensure_ascii=False) for text in texts],
    }[name]
    (tmp_path / name).write_bytes(end.join(lines).encode(encoding))
    assert [text for _, text in read(tmp_path / name)] == texts


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"label": "a", "text": "b \\ud83d"}', '"text" holds half of a surrogate pair, \\ud83d, as character 3'),
        ('{"label": "a", "text": "\\uDC00b"}', '"text" holds half of a surrogate pair, \\udc00, as character 1'),
        ('{"label": "\\ud800", "text": "b"}', '"label" holds half'),
        ('{"label": "a", "sentences": ["b", "\\ud800"]}', '"sentences"[1] holds half'),
        ('{"label": "a", "text": "b", "\\ud800": 1}', "a key holds half"),
        ('{"label": "a", "text": "b", "more": {"so": "\\ud800"}}', '"more"["so"] holds half'),
    ],
)
def test_half_a_surrogate_pair_is_named_with_its_place(tmp_path: Path, line: str, place: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"label": "a", "text": "whole: \\ud83d\\ude42"}\n' + line)
    assert refused(path).startswith(f"line 2: {place}")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_labels_that_are_texts_are_no_classes_and_are_not_repeated(tmp_path: Path, name: str) -> None:
    path, secret = tmp_path / name, "what nobody else may read "
    pairs = [(f"{number} {secret * 40}", "ab"[number % 2]) for number in range(240)]
    if name == "a.jsonl":
        path.write_text("\n".join(json.dumps({"label": text, "text": label}) for text, label in pairs))
    else:
        table(path, pairs)
    with pytest.raises(DataError) as caught:
        folder.load(path, rows.DOCUMENTS)
    said = caught.value.message
    assert "240 different labels in 240 examples" in said and "--columns" in said
    assert said.count(secret) <= 3 and len(said) - len(str(path)) < 500
    columns = ("text", "label") if name == "a.jsonl" else ("2", "1")
    assert folder.load(path, rows.DOCUMENTS, columns=columns).labels == ("a", "b")


def test_messages_repeat_little_of_the_data(tmp_path: Path) -> None:
    long = "private " * 50
    messages = [
        refused(table(tmp_path / "a.tsv", [(long, long)]), rows.PAIRS, ("en", "fr")),
        refused(table(tmp_path / "b.csv", [(long, "fr", long), ("a", "b")]), rows.PAIRS, (long.strip(), "fr")),
    ]
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"label": "a", "sentences": ["b"], "evidence": [long]}))
    messages.append(refused(path))
    path.write_text(json.dumps({"image": long, "target": "b"}))
    messages.append(refused(path, rows.CAPTIONS))
    for said in messages:
        assert said.count("private") <= 10, said
    assert len(shown("\0" * 1000)) <= 80 and shown("so") == "so"


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    packed = gzip.compress(b"good,fine\n" * 1000)
    for broken in (packed[:20] + b"\xff" * 20 + packed[40:], packed[: len(packed) // 2]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"a\.csv\.gz: cannot be read|line 1: "):
            row_files.read(path, rows.DOCUMENTS)


@pytest.mark.parametrize("option", ["name", "licence", "gold"])
def test_options_that_are_no_text_are_named(option: str) -> None:
    flag = {"name": "--data-name"}.get(option, f"--{option}")
    with pytest.raises(DataError, match=f"{flag} has bytes that are no UTF-8, from character 2 on"):
        check_texts(replace(Source("builtin", 0), **{option: "a\udcff"}))
