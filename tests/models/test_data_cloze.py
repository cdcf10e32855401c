"""Cloze questions: what they promise."""

import random
import re

from limelight_bundle.values import Pair
from limelight_models.data import cloze
from limelight_models.data.dataset import Example

SENTENCES = ("A lock is open.", "Close the lock, and a Lock is closed.", "The door has a lock.")


def pair(example: Example) -> Pair:
    found = example.instance["pair"]
    assert isinstance(found, Pair)
    return found


def test_a_word_is_taken_out_and_marked_wherever_it_is_left() -> None:
    made = cloze.question(SENTENCES, 1, ["lock", "open", "door"], random.Random(0))
    lock, told = made.label, pair(made).second
    assert pair(made).first == "Close the placeholder, and a placeholder is closed."
    opened, door = re.fullmatch(rf"A {lock} is (\w+)\. The (\w+) has a {lock}\.", told).groups()
    assert len({lock, opened, door}) == 3
    (gold,) = made.gold
    assert [told[each.start : each.end] for each in gold.keys] == [lock, lock]


def test_every_answer_is_in_its_document_and_names_say_nothing_by_themselves() -> None:
    dataset = cloze.dataset()
    for example in (*dataset.train, *dataset.dev, *dataset.test):
        asked, told = pair(example).first, pair(example).second
        assert cloze.BLANK in asked and example.label in re.findall(r"\w+", told) and example.label not in asked.split()
        assert example.gold[0].keys
    counts = [sum(each.label == label for each in dataset.train) for label in dataset.labels]
    assert len(counts) == cloze.ENTITIES and max(counts) < 1.2 * min(counts)
    assert dataset.fingerprint == cloze.dataset().fingerprint
