"""Stories with questions and the facts that answer them, as bAbI has them (Weston et al. 2015).

A line is a number and a fact, or a number, a question, its answer and the numbers of its facts, parted by tabs; a story
begins where the numbers begin again. An example has the facts told so far as the sentences of its document.
"""

from pathlib import Path

from limelight_bundle.values import Sentences, Text
from limelight_models.data.dataset import DataError, Dataset, Example, require, split
from limelight_models.data.gold import Gold, Span
from limelight_models.data.lines import lines

_TRAIN, _TEST = "_train.txt", "_test.txt"
_SHARE = 0.1


def dataset(path: Path, *, seed: int = 0, name: str = "", licence: str = "") -> Dataset:
    """Read `…_train.txt`, and `…_test.txt` beside it; a tenth of the first is cut off to choose by, drawn by the seed.

    Raises: DataError naming the file, and the line where there is one.
    """
    if not path.name.endswith(_TRAIN):
        raise DataError(f"{path}: is no file of stories; one ends in {_TRAIN}, with {_TEST} beside it")
    train, test = read(path), read(path.with_name(path.name.removesuffix(_TRAIN) + _TEST))
    require(train, str(path))
    require(test, str(path.with_name(path.name.removesuffix(_TRAIN) + _TEST)))
    dev, rest = split(train, seed, _SHARE)
    return Dataset(
        name=name or path.name.removesuffix(_TRAIN),
        licence=licence or "not stated",
        summary=f"Read from stories in files; dev drawn from the training part by seed {seed}.",
        train=rest,
        dev=dev,
        test=tuple(test),
    )


def read(path: Path) -> list[Example]:
    """One example a question. Raises: DataError naming the line that is wrong."""
    found: list[Example] = []
    facts: dict[int, str] = {}
    last = 0
    for number, line in lines(path):
        begin, _, rest = line.partition(" ")
        if not begin.isdecimal() or not rest.strip():
            raise DataError(f"{path}, line {number}: is no number and a fact or a question")
        if int(begin) <= last:
            facts = {}
        last = int(begin)
        fields = rest.split("\t")
        if len(fields) == 1:
            facts[last] = rest.strip()
            continue
        if len(fields) != 3 or not set(fields[2].split()) <= set(map(str, facts)) or not fields[1].strip():
            raise DataError(f"{path}, line {number}: is no question<TAB>answer<TAB>numbers of facts told before")
        found.append(_asked(facts, *fields))
    return found


def _asked(facts: dict[int, str], question: str, answer: str, supporting: str) -> Example:
    places = {number: place for place, number in enumerate(facts)}
    keys = tuple(
        Span("document", 0, len(facts[number]), sentence=places[number]) for number in map(int, supporting.split())
    )
    told = Sentences(tuple(facts.values()))
    return Example(
        {"document": told, "question": Text(question.strip())}, answer.strip(), gold=(Gold(keys, in_turn=True),)
    )
