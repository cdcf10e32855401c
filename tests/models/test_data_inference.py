"""The made-up pairs: what they promise."""

import random

from limelight_bundle.values import Pair
from limelight_models.data import inference
from limelight_models.data.dataset import Example


def premise(example: Example) -> str:
    pair = example.instance["pair"]
    assert isinstance(pair, Pair)
    return pair.first


def test_no_premise_is_in_two_parts_and_every_class_is_as_frequent() -> None:
    dataset = inference.dataset()
    parts = [dataset.train, dataset.dev, dataset.test]
    premises = [set(map(premise, part)) for part in parts]
    assert not premises[0] & premises[1] and not premises[0] & premises[2] and not premises[1] & premises[2]
    for part in parts:
        counts = [sum(example.label == label for example in part) for label in inference.LABELS]
        assert counts[0] == counts[1] == counts[2] > 0
    assert dataset.fingerprint == inference.dataset().fingerprint != inference.dataset(seed=1).fingerprint


def test_a_pair_says_what_its_label_says() -> None:
    found = {(pair.label, pair.instance["pair"]) for seed in range(20) for pair in made(seed)}
    assert ("entailment", Pair("a tall dog is running in a park", "the animal is outside")) in {
        (label, Pair(pair.first, pair.second.replace("in a park", "outside"))) for label, pair in found
    }
    contradicted = {pair.second for label, pair in found if label == "contradiction"}
    assert not any("moving" in each or "is running outside" in each for each in contradicted)
    assert "the dog is resting" in contradicted
    assert all("tall" not in pair.second for label, pair in found if label == "neutral")


def made(seed: int) -> list[Example]:
    return inference.pairs("dog", "tall", "running", "in a park", chance=random.Random(seed))
