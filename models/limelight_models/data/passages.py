"""Passages with questions whose answers stand in them, as SQuAD has them (Rajpurkar et al. 2016).

A line of JSON a passage: `{"context": TEXT, "qas": [{"question": TEXT, "answers": [[TEXT, START], …]}, …]}`, START
being the answer's first character in the passage. An example is a pair of the question and the passage.
"""

import json
from pathlib import Path

from limelight_bundle.values import Pair
from limelight_models.data.dataset import DataError, Dataset, Example, require
from limelight_models.data.gold import Gold, Span
from limelight_models.data.lines import lines

PASSAGE = "pair.second"
PARTS = ("train", "dev", "test")


def dataset(path: Path, *, name: str = "", licence: str = "") -> Dataset:
    """Read `train.jsonl`, `dev.jsonl` and `test.jsonl` of a folder.

    Raises: DataError naming the file, and the line where there is one.
    """
    files = [path / f"{part}.jsonl" for part in PARTS]
    for file in files:
        if not file.is_file():
            raise DataError(f"{path}: has no {file.name}; {', '.join(each.name for each in files)} are wanted")
    train, dev, test = (tuple(read(file)) for file in files)
    for examples, file in zip((train, dev, test), files, strict=True):
        require(examples, str(file))
    return Dataset(
        name=name or path.resolve().name,
        licence=licence or "not stated",
        summary="Read from questions about passages in files; split as it came.",
        train=train,
        dev=dev,
        test=test,
    )


def read(path: Path) -> list[Example]:
    """One example a question. Raises: DataError naming the line that is wrong."""
    found: list[Example] = []
    for number, line in lines(path):
        try:
            content = json.loads(line)
            passage = content["context"]
            found += [asked(passage, each["question"], each["answers"]) for each in content["qas"]]
        except (ValueError, TypeError, KeyError) as error:
            why = error if isinstance(error, WrongAnswer) else 'is no {"context", "qas": [{"question", "answers"}]}'
            raise DataError(f"{path}, line {number}: {why}") from error
    return found


class WrongAnswer(ValueError):
    """An answer that does not stand where it is said to."""


def asked(passage: str, question: str, answers: list[tuple[str, int]]) -> Example:
    """An example. Raises: WrongAnswer where a text or the answers are empty, or one is not where it is said to be."""
    if not passage.strip() or not question.strip() or not answers:
        raise WrongAnswer("has an empty passage or question, or a question without answers")
    for text, start in answers:
        if not text or passage[start : start + len(text)] != text:
            raise WrongAnswer(f"an answer does not stand at character {start} of its passage")
    spans = tuple(Span(PASSAGE, start, start + len(text)) for text, start in answers)
    return Example({"pair": Pair(question, passage)}, spans=spans, gold=(Gold(spans),))
