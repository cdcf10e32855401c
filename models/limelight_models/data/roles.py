"""Sentences of a small grammar, each word with its role beside its verb, and with its parse: where it ought to look.

A relative clause puts a second verb between a subject and its own, and a passive turns roles around, so a role follows
from the verb that a noun depends on, which need not be the nearest. As in dependency treebanks each word has a head;
the main verb is its own.
"""

import random
from itertools import islice

from limelight_bundle.values import Sentences
from limelight_models.data import rows
from limelight_models.data.dataset import Dataset, Example

# Pieces NAME:WORD:ROLE:NAME OF ITS HEAD; in capitals a word of these.
_WORDS = {
    "N": "baker nurse pilot queen thief tailor miner poet farmer sailor judge cook".split(),
    "P": "park market harbour station garden castle".split(),
    "V": "praised followed painted called helped saw pushed warned".split(),
}
_LOOKS = "young tall quiet busy".split()
_MAINS = (
    ("s:N:agent:v", "v:V:verb:v o:N:patient:v"),
    ("s:N:patient:v", "was:was::v v:V:verb:v by:by::o o:N:agent:v"),
)
_CLAUSES = (
    "",
    "r:who:agent:w w:V:verb:s p:N:patient:w",
    "r:who:patient:w is:was::w w:V:verb:s of:by::p p:N:agent:w",
    "r:whom:patient:w p:N:agent:w w:V:verb:s",
)
_ENDS = ("", "in:in::l l:P:place:v")
_COUNTS = (1500, 300, 300)  # to train, to choose by, held out


def dataset(*, seed: int = 0) -> Dataset:
    """Write sentences, none twice."""
    chance = random.Random(f"roles/{seed}")
    found: dict[tuple[str, ...], Example] = {}
    while len(found) < sum(_COUNTS):
        words, example = _sentence(chance)
        found.setdefault(words, example)
    drawn = iter(found.values())
    train, dev, test = (tuple(islice(drawn, count)) for count in _COUNTS)
    return Dataset(
        name="Roles in made-up sentences",
        licence="CC0-1.0",
        summary="Who does what to whom and where, each word with the word that it depends on.",
        train=train,
        dev=dev,
        test=test,
    )


def _sentence(chance: random.Random) -> tuple[tuple[str, ...], Example]:
    """The words, and the example; nouns have an article, and half of them a look."""
    subject, main = chance.choice(_MAINS)
    form = " ".join((subject, chance.choice(_CLAUSES), main, chance.choice(_ENDS)))
    parts: list[tuple[str, str, str]] = []  # word, tag, name of the head
    places: dict[str, int] = {}
    for piece in form.split():
        name, word, role, head = piece.split(":")
        if word in "NP":
            looks = [chance.choice(_LOOKS)] if chance.random() < 0.5 else []
            parts += [(each, "O", name) for each in (chance.choice(("the", "a")), *looks)]
        places[name] = len(parts)
        parts.append((chance.choice(_WORDS.get(word, [word])), f"B-{role}" if role else "O", head))
    words, tags, heads = zip(*parts, strict=True)
    gold = rows.parse(words, [places[head] + 1 for head in heads])
    return words, Example({"document": Sentences(words)}, labels=tags, gold=gold)
