"""Questions about passages: from files, and made here."""

import json
from pathlib import Path

import pytest

from limelight_bundle.values import Pair
from limelight_models.data import folder, purchases
from limelight_models.data.dataset import DataError
from limelight_models.data.gold import Span


def _write(path: Path, answers: list[list[object]]) -> None:
    line = {"context": "Ada went to Oslo.", "qas": [{"question": "Who went?", "answers": answers}]}
    path.write_text(json.dumps(line) + "\n")


def test_a_folder_of_passages_with_answers(tmp_path: Path) -> None:
    for part in ("train", "dev", "test"):
        _write(tmp_path / f"{part}.jsonl", [["Ada", 0], ["Oslo", 12]])
    made = folder.load(tmp_path, folder.PASSAGES)
    (example,) = made.train
    assert example.instance == {"pair": Pair("Who went?", "Ada went to Oslo.")}
    assert example.spans == (Span("pair.second", 0, 3), Span("pair.second", 12, 16))


def test_what_is_wrong_is_said_by_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no train\.jsonl"):
        folder.load(tmp_path, folder.PASSAGES)
    for part in ("train", "dev", "test"):
        _write(tmp_path / f"{part}.jsonl", [["Ada", 1]])
    with pytest.raises(DataError, match=r"train\.jsonl, line 1: an answer does not stand at character 1"):
        folder.load(tmp_path, folder.PASSAGES)
    (tmp_path / "train.jsonl").write_text('{"context": "Ada"}\n')
    with pytest.raises(DataError, match=r"train\.jsonl, line 1: is no"):
        folder.load(tmp_path, folder.PASSAGES)


def test_made_up_passages_answer_their_questions_in_one_sentence() -> None:
    made = purchases.dataset(seed=1)
    passages = set()
    for example in (*made.train, *made.dev, *made.test):
        pair, (span,) = example.instance["pair"], example.spans
        assert isinstance(pair, Pair)
        passages.add(pair.second)
        answer = pair.second[span.start : span.end]
        kinds = {"Who": purchases.PEOPLE, "Where": purchases.PLACES, "What": purchases.LOOKS}
        assert answer in kinds[pair.first.split()[0]]
        (named,) = [each for each in (*purchases.PEOPLE, *purchases.THINGS) if each in pair.first][:1]
        (told,) = [each for each in pair.second.split(".") if named in each.split()]
        assert answer in told
    assert len(passages) == 3800
