"""Sentences of a small grammar, each word with its role beside its verb, and with its parse: where it ought to look.

    sentence → noun VERB noun (in PLACE) · noun was VERB by noun (in PLACE)
    noun     → the (look) NOUN (clause)
    clause   → who VERB noun · whom noun VERB · who is VERB by noun

Clauses stand in clauses, so that other nouns and verbs part a noun from its verb; who praises and who is praised is
agent and patient, who fears and what is feared are experiencer and stimulus, the other way around where the verb says
`frightened`, and a passive turns both around. So a role follows from the verb that a noun depends on, which need not be
near. As in dependency treebanks each word has a head; the main verb is its own.
"""

import random
from dataclasses import dataclass
from itertools import islice

from limelight_bundle.values import Sentences
from limelight_models.data import rows
from limelight_models.data.dataset import Dataset, Example

_NOUNS = "baker nurse pilot queen thief tailor miner poet farmer sailor judge cook".split()
_LOOKS = "young tall quiet busy".split()
_PLACES = "park market harbour station garden castle".split()
# What a verb makes of who comes before it and of whom comes behind it.
_VERBS = {
    ("agent", "patient"): "praised followed painted called helped saw pushed warned".split(),
    ("experiencer", "stimulus"): "feared admired envied trusted missed heard".split(),
    ("stimulus", "experiencer"): "frightened pleased bored amazed annoyed charmed".split(),
}
_DEEPEST, _LONGEST = 2, 32  # clauses in clauses, words
_COUNTS = (1500, 300, 300)  # to train, to choose by, held out


@dataclass(eq=False)
class _Word:
    """A word. head: that on which it depends; itself where none is given."""

    text: str
    head: "_Word | None" = None
    role: str = ""


@dataclass(eq=False)
class _Verb(_Word):
    """A verb. roles: of who comes before it, and of whom comes behind it."""

    role: str = "verb"
    roles: tuple[str, str] = ("", "")


def dataset(*, seed: int = 0) -> Dataset:
    """Write sentences, none twice."""
    chance = random.Random(f"roles/{seed}")
    found: dict[tuple[str, ...], Example] = {}
    while len(found) < sum(_COUNTS):
        words = _sentence(chance)
        if len(words) <= _LONGEST:
            found.setdefault(tuple(word.text for word in words), _example(words))
    drawn = iter(found.values())
    train, dev, test = (tuple(islice(drawn, count)) for count in _COUNTS)
    return Dataset(
        name="Roles in made-up sentences",
        licence="CC0-1.0",
        summary="Who does or feels what in clauses within clauses, each word with the word that it depends on.",
        train=train,
        dev=dev,
        test=test,
    )


def _example(words: list[_Word]) -> Example:
    texts = tuple(word.text for word in words)
    heads = [words.index(word.head or word) + 1 for word in words]
    tags = tuple(f"B-{word.role}" if word.role else "O" for word in words)
    return Example({"document": Sentences(texts)}, labels=tags, gold=rows.parse(texts, heads))


def _sentence(chance: random.Random) -> list[_Word]:
    verb = _verb(chance, None)
    passive = chance.choice((False, True))
    before, behind = verb.roles[::-1] if passive else verb.roles
    said, by = ([_Word("was", verb), verb], "by") if passive else ([verb], "")
    words = [*_noun(chance, verb, before, _DEEPEST), *said, *_noun(chance, verb, behind, _DEEPEST, by)]
    if chance.random() < 0.5:
        place = _Word(chance.choice(_PLACES), verb, "place")
        words += [_Word("in", place), _Word("the", place), place]
    return words


def _noun(chance: random.Random, verb: _Verb, role: str, deepest: int, by: str = "") -> list[_Word]:
    """A noun that depends on a verb, with what stands before it and the clause behind it."""
    noun = _Word(chance.choice(_NOUNS), verb, role)
    before = [_Word(each, noun) for each in ([by] if by else []) + [chance.choice(("the", "a"))]]
    if chance.random() < 0.5:
        before.append(_Word(chance.choice(_LOOKS), noun))
    behind = _clause(chance, noun, deepest - 1) if deepest and chance.random() < 0.5 else []
    return [*before, noun, *behind]


def _clause(chance: random.Random, noun: _Word, deepest: int) -> list[_Word]:
    verb = _verb(chance, noun)
    before, behind = verb.roles
    form = chance.choice(("who", "whom", "who is"))
    if form == "who":
        return [_Word("who", verb, before), verb, *_noun(chance, verb, behind, deepest)]
    if form == "whom":
        return [_Word("whom", verb, behind), *_noun(chance, verb, before, deepest), verb]
    return [_Word("who", verb, behind), _Word("is", verb), verb, *_noun(chance, verb, before, deepest, "by")]


def _verb(chance: random.Random, head: _Word | None) -> _Verb:
    roles = chance.choice(tuple(_VERBS))
    return _Verb(chance.choice(_VERBS[roles]), head, roles=roles)
