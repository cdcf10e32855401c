"""Reviews of two domains: labelled in one, to be told in the other; from files, and made up.

The training part has the source's reviews with their classes and the target's without (a label of ""); what is chosen
by is of the source, what is held out of the target.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from limelight_bundle.values import Pair, Text
from limelight_models.data import row_files, rows, tokenizers
from limelight_models.data.dataset import DataError, Dataset, Example, require, shown

BETWEEN = "+"
NEUTRAL = "neutral"
LABELS = {name: label for label in ("negative", "positive") for name in (label, label[:3])} | {
    "0": "negative",
    "1": "positive",
}
PARTS = ("train", "dev", "test")

# Words of opinion that both domains have (pivots), and each domain's own, by class.
SHARED = {"negative": "bad awful poor terrible".split(), "positive": "good great lovely excellent".split()}
OWN = {
    "film": {
        "negative": "boring predictable shallow wooden tedious".split(),
        "positive": "gripping touching clever suspenseful moving".split(),
    },
    "restaurant": {
        "negative": "stale greasy overcooked bland rude".split(),
        "positive": "delicious crisp juicy tasty friendly".split(),
    },
}
THINGS = {
    "film": "plot acting script ending camera hero dialogue".split(),
    "restaurant": "soup bread waiter steak dessert kitchen salad".split(),
}
SENTENCES = ("the {} was {}.", "we found the {} {}.", "and the {}, how {}!", "the {} seemed {} to us.")
FILLER = ("we went on a monday.", "it was our second time.", "somebody had told us of it.", "it took two hours.")
_OWN = 0.6  # share of the opinions that are said in a domain's own words


def dataset(*, seed: int = 0, training: int = 1_500, held_out: int = 400) -> Dataset:
    """Made-up reviews: `training` of films with their classes, as many of restaurants without; restaurants held out.

    Two of five opinions are in words that both have, so that a review of a restaurant shows how its own words are
    meant by what stands beside them; a third of those held out have none of the shared ones.
    """
    chance = random.Random(f"reviews/{seed}")
    source = [made("film", chance) for _ in range(training)]
    target = [replace(made("restaurant", chance), label="") for _ in range(training)]
    return Dataset(
        name="Made-up reviews: films to restaurants",
        licence="none: generated",
        summary=f"Films with classes and restaurants without; restaurants are held out. Generated from seed {seed}.",
        train=(*source, *target),
        dev=tuple(made("film", chance) for _ in range(held_out)),
        test=tuple(made("restaurant", chance) for _ in range(held_out)),
    )


def made(domain: str, chance: random.Random) -> Example:
    """Two opinions of one class about two things, and a sentence that says nothing."""
    label = chance.choice(sorted(SHARED))
    said = [chance.choice(FILLER)]
    for thing in chance.sample(THINGS[domain], 2):
        words = OWN[domain][label] if chance.random() < _OWN else SHARED[label]
        said.append(chance.choice(SENTENCES).format(thing, chance.choice(words)))
    chance.shuffle(said)
    return Example({"document": Text(" ".join(said))}, label)


def read(path: Path, *, name: str = "", licence: str = "") -> Dataset:
    """Read two folders side by side, named SOURCE+TARGET, each with a train, a dev and a test file.

    Reviews are texts or documents; where a target folder holds targets in sentences, a sentence is a review, of the
    class that all its targets have but for neutral ones, and left out where they disagree.
    Raises: DataError where a folder or a file is missing, or a class is neither negative nor positive.
    """
    source, _, target = path.name.partition(BETWEEN)
    if not source or not target:
        raise DataError(f"{path}: names no two folders; SOURCE{BETWEEN}TARGET is wanted")
    ours, theirs = ({part: _part(path.with_name(one), part) for part in PARTS} for one in (source, target))
    unlabelled = [replace(example, label="") for example in theirs["train"]]
    return Dataset(
        name=name or path.name,
        licence=licence or "not stated",
        summary=f"Reviews of {source} with classes and of {target} without; those held out are of {target}.",
        train=(*ours["train"], *unlabelled),
        dev=tuple(ours["dev"]),
        test=tuple(theirs["test"]),
    )


def _part(folder: Path, part: str) -> list[Example]:
    found = [folder / f"{part}{suffix}" for suffix in row_files.SUFFIXES if (folder / f"{part}{suffix}").is_file()]
    if len(found) != 1:
        raise DataError(f"{folder}: has {len(found)} files {part}(.tsv, .csv, .jsonl, gzipped or not); one is wanted")
    examples = agreed(row_files.read(found[0], _REVIEWS))
    require(examples, str(found[0]))
    return examples


def agreed(examples: Iterable[Example]) -> list[Example]:
    """Each text once, with the class that is said of it; none where nothing is, or both are."""
    said: dict[str, dict[str, Example]] = {}
    for example in examples:
        texts = tokenizers.texts_of([example.instance["document"]])
        said.setdefault(rows.letters(*texts), {})[example.label] = example
    both = set(LABELS.values())
    found = ([each for label, each in classes.items() if label in both] for classes in said.values())
    return [each[0] for each in found if len(each) == 1]


def _review(content: Mapping[str, Any]) -> Example:
    """A document, or the sentence around a target, and its class. Raises: ValueError for another class."""
    if "target" in content:
        example = rows.aspect_question(content)
        pair = example.instance["pair"]
        assert isinstance(pair, Pair)
        example = Example({"document": Text(pair.second)}, example.label)
    else:
        example = rows.document(content)
    if example.label not in (*LABELS, NEUTRAL):
        raise ValueError(
            f"has the class {shown(example.label, quoted=True)}; one of {', '.join((*LABELS, NEUTRAL))} is wanted"
        )
    return replace(example, label=LABELS.get(example.label, NEUTRAL), gold=())


_REVIEWS = rows.Kind("reviews", ("label", "text"), _review)
