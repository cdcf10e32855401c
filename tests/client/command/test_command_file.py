"""`predict --file` and `attend --file`: an answer a row, in order, with errors by line, resumed where it ended."""

import json
from pathlib import Path
from typing import Any

import pytest

import limelight
from tests.client import served
from tests.client.command.people import Run
from tests.kit import bundles
from tests.kit.forwarder import Forwarder

KNOWN = bundles.WORDS[4:]


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def texts(count: int) -> list[str]:
    """Texts of two known words: a hundred that differ."""
    return [f"{KNOWN[number % 10]} {KNOWN[number // 10 % 10]}" for number in range(count)]


def labels() -> list[str]:
    return [served.label(served.tiny(text)) for text in texts(100)]


def in_order(written: list[dict[str, Any]]) -> bool:
    """Whether these are the answers to `texts(100)`."""
    read = [" ".join(each["label_sets"]["tokens"]["labels"]) for each in written]
    return read == texts(100) and [each["label"] for each in written] == labels()


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    file = tmp_path / "inputs.jsonl"
    file.write_text("".join(json.dumps({"text": text, "id": 7}) + "\n" for text in texts(100)))
    return file


def test_every_line_has_an_answer_in_order(run: Run, client: limelight.Client, jsonl: Path, tmp_path: Path):
    out = tmp_path / "new" / "answers.jsonl"
    status, output, errors = run("predict", "tiny", "--file", jsonl, "--out", out)
    assert (status, output) == (0, "") and errors.startswith("100 answers in ") and "/s)" in errors
    written = lines_of(out)
    assert [each["line"] for each in written] == list(range(1, 101))
    assert in_order(written)
    one = client.predict("tiny", texts(1)[0]).to_dict()
    assert list(written[0]) == ["line", *one] and written[0]["label_sets"] == one["label_sets"]
    assert written[0]["probability"] == pytest.approx(one["probability"])  # of another batch


def test_attend_writes_the_selected_maps(run: Run, jsonl: Path, tmp_path: Path):
    out = tmp_path / "answers.jsonl"
    assert run("attend", "tiny", "--file", jsonl, "--out", out, "--map", "encoder.1.*", "--top-k", "1")[0] == 0
    (each,) = lines_of(out)[3]["maps"]
    assert each["name"] == "encoder.1.self" and each["shape"] == [2, 2, 1]


def test_without_out_answers_are_printed(run: Run, jsonl: Path):
    status, output, _ = run("predict", "tiny", "--file", jsonl)
    assert status == 0 and [json.loads(line)["label"] for line in output.splitlines()] == labels()


def test_lines_that_fail_have_an_error_and_the_others_go_on(run: Run, tmp_path: Path):
    file, out = tmp_path / "inputs.jsonl", tmp_path / "answers.jsonl"
    rows = [
        '{"text": "the cat"}',
        "",
        "{",
        '{"txt": "a"}',
        '"mat"',
        '{"text": 3}',
        '{"text": "\\ud83d"}',
        "[]",
        '{"text": "dog ran"}',
    ]
    file.write_text("\n".join(rows))
    status, _, errors = run("predict", "echo", "--file", file, "--out", out)
    assert status == 1 and errors.rstrip().endswith("5 failed: lines 3, 4, 6, 7, 8")
    found = {each["line"]: each.get("text", each.get("error", {}).get("message")) for each in lines_of(out)}
    for line, text in ((1, "the cat"), (5, "mat"), (9, "dog ran")):
        assert found[line] == served.said(served.echo(text))
    assert found[3].startswith("the line is not JSON: ")
    assert found[4] == "input 'text' is missing; the line has 'txt'"
    assert found[6] == 'input "text" is a text, not 3'
    assert "surrogate" in found[7] and found[8] == 'input "text" is a text, not []'


def test_an_interrupted_run_is_resumed(run: Run, jsonl: Path, tmp_path: Path, server: Forwarder):
    out = tmp_path / "answers.jsonl"
    run("predict", "tiny", "--file", jsonl, "--out", out)
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:40]) + lines[40][:9])  # the last line is not complete
    server.requests.clear()
    status, _, errors = run("predict", "tiny", "--file", jsonl, "--out", out)
    assert status == 0 and errors.startswith("60 answers in ") and "after the 40 lines of an earlier run" in errors
    assert in_order(lines_of(out))
    assert sum(len(each.instances) for each in server.requests if hasattr(each, "instances")) == 60
    assert run("predict", "tiny", "--file", jsonl, "--out", out)[2].startswith("0 answers in ")


def test_answers_of_something_else_are_not_continued(run: Run, jsonl: Path, tmp_path: Path):
    out = tmp_path / "answers.jsonl"
    run("predict", "echo", "--file", jsonl, "--out", out)
    status, _, errors = run("predict", "tiny", "--file", jsonl, "--out", out)
    assert status == 1 and "holds answers of model 'echo': choose another --out" in errors
    out.write_text("a letter\n")
    assert "holds no answers: choose another --out" in run("predict", "echo", "--file", jsonl, "--out", out)[2]
    assert out.read_text() == "a letter\n"


def test_what_was_answered_stays_where_the_server_ends(run: Run, tmp_path: Path):
    out, inputs = tmp_path / "answers.jsonl", tmp_path / "inputs.csv"
    inputs.write_text("text\n" + "\n".join(texts(3)) + "\n")
    status, _, errors = run("predict", "nobody", "--file", inputs, "--out", out)
    assert status == 1 and "no model 'nobody'" in errors and not out.exists()


def test_csv_and_tsv_have_columns_by_name(run: Run, tmp_path: Path, picture: Path):
    pairs, out = tmp_path / "pairs.csv", tmp_path / "pairs.jsonl"
    pairs.write_text('\ufeffid,pair.second,pair.first\n1,"two,\nlines",a\n2,c,b,d\n3,e,f\n', encoding="utf-8")
    status, _, errors = run("predict", "pair", "--file", pairs, "--out", out)
    assert status == 1 and "1 failed: line 4" in errors
    assert [each["line"] for each in lines_of(out)] == [2, 4, 5]
    assert (
        lines_of(out)[0]["label"] == served.label(served.tiny("a two, lines"))
        and "4 fields, and the first line 3" in lines_of(out)[1]["error"]["message"]
    )
    pictures = tmp_path / "pictures.tsv"
    pictures.write_text(f"image\tquestion\n{picture.name}\twhat?\nmissing.png\twhat?\n")
    out = tmp_path / "pictures.jsonl"
    assert run("predict", "asked", "--file", pictures, "--out", out)[0] == 1
    label = served.label(bundles.glance_answer(served.PICTURE, "what?"))
    assert lines_of(out)[0]["label"] == label and "missing.png" in lines_of(out)[1]["error"]["message"]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "txet\na\n",
            (),
            "has no column 'text', an input of 'echo'; its columns are 'txet': name the one that has it 'text'\n",
        ),
        ("a.csv", "", (), "its columns are none"),
        ("a.csv", "text\n\xff", (), "is not a table of UTF-8"),
        ("a.txt", "a", (), "a.txt ends with none of .jsonl, .csv, .tsv, .parquet"),
        ("a.jsonl", "{}", ("--out", "b.txt"), "b.txt ends with none of .jsonl, .parquet"),
        ("a.jsonl", "{}", ("a text",), "--file has the inputs; give no others"),
    ],
)
def test_files_that_cannot_be_used_are_refused(
    run: Run, tmp_path: Path, name: str, content: str, options: tuple[str, ...], message: str
):
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    status, _, errors = run("predict", "echo", *options, "--file", tmp_path / name)
    assert status != 0 and message in errors and errors.count("\n") <= 2


def test_options_that_need_a_file_or_one_answer_are_refused(run: Run, jsonl: Path):
    assert "--out is for the answers of --file" in run("predict", "echo", "a", "--out", "b.jsonl")[2]
    assert "are for one answer" in run("attend", "tiny", "--file", jsonl, "--words")[2]
    assert "No such file" in run("predict", "echo", "--file", "nowhere.jsonl")[2]


def test_parquet_goes_in_and_out(run: Run, tmp_path: Path, picture: Path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow
    from pyarrow import parquet

    inputs, out = tmp_path / "inputs.parquet", tmp_path / "answers.parquet"
    parquet.write_table(pyarrow.table({"text": [*texts(1500), None], "id": list(range(1501))}), inputs)
    status, _, errors = run("predict", "tiny", "--file", inputs, "--out", out)
    assert status == 1 and "1 failed: line 1501" in errors
    table = parquet.read_table(out).to_pylist()
    probability = served.ranked(served.tiny(texts(1)[0]).outputs["logits"])[0][1]
    assert [each["label"] for each in table] == [*labels() * 15, None]
    assert table[-1]["error"] == "input 'text' is missing; the line has 'text', 'id'" and table[0]["error"] is None
    assert json.loads(table[0]["answer"])["label_sets"] and table[0]["probability"] == pytest.approx(probability)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["answers.parquet", "digit.png", "inputs.parquet"]
    assert "exists; remove it" in run("predict", "tiny", "--file", inputs, "--out", out)[2]
    images = [{"bytes": picture.read_bytes(), "path": None}]
    parquet.write_table(pyarrow.table({"image": images, "question": ["what?"]}), inputs)
    assert run("predict", "asked", "--file", inputs, "--out", tmp_path / "pictures.parquet")[0] == 0
    inputs.write_bytes(b"not Parquet")
    assert "is not a Parquet file" in run("predict", "echo", "--file", inputs)[2]
