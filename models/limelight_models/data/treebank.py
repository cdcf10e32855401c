"""A treebank that a grammar writes: sentences, and their constituents as one writes them in a line.

    S → NP VP            NP → D N · D A N · D N PP(of) · D N SBAR(who) · both NP and NP
    VP → V NP · V NP PP · V SBAR(that)
    PP → P NP · of NP    SBAR → that S · , who VP ,

No sentence has two trees: `of` goes with the noun before it, any other preposition with the verb of its clause, `both`
says where a pair begins and a comma where a clause ends. The tree of `the baker of a town saw the nurse` is written as
Vinyals et al. (2015) do, each word as XX and each bracket with its label:

    (S (NP XX XX (PP XX (NP XX XX )NP )PP )NP (VP XX (NP XX XX )NP )VP )S
"""

import random
from collections.abc import Iterator

from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example

_RULES = {
    "S": ("NP VP",),
    "NP": ("D N", "D A N", "D N PPof", "D N SBARwho", "both NP and NP"),
    "VP": ("V NP", "V NP PP", "VC SBARthat"),
    "PP": ("P NP",),
    "PPof": ("of NP",),
    "SBARthat": ("that S",),
    "SBARwho": (", who VP ,",),
}
_PLAIN = {"NP": 2, "VP": 2}  # so many of the rules do not recur: those are taken deep in a tree
_WORDS = {
    "D": "the a".split(),
    "A": "young tall quiet busy grey".split(),
    "N": "baker nurse pilot queen thief tailor miner poet farmer judge town harbour".split(),
    "V": "praised followed painted called helped saw pushed warned".split(),
    "VC": "said thought knew hoped".split(),
    "P": "near behind in with".split(),
}
_DEEP, _LONGEST = 4, 24
WORD = "XX"


def dataset(*, seed: int = 0, training: int = 6_000, held_out: int = 500) -> Dataset:
    """Write `training` + 2 × `held_out` sentences of at most 24 words, none twice."""
    chance = random.Random(f"treebank/{seed}")
    found: dict[str, str] = {}
    while len(found) < training + 2 * held_out:
        tokens = list(_written("S", 0, chance))
        words = [token for token in tokens if token[0] not in "()"]
        if len(words) <= _LONGEST:
            found.setdefault(" ".join(words), " ".join(token if token[0] in "()" else WORD for token in tokens))
    examples = tuple(Example({"text": Text(text), "target": Text(tree)}) for text, tree in found.items())
    grammar = "; ".join(f"{left} → {' | '.join(rules)}" for left, rules in _RULES.items())
    return Dataset(
        name="Trees of made-up sentences",
        licence="none: generated",
        summary=f"Sentences of a grammar, none with two trees, and their constituents; from seed {seed}. {grammar}.",
        train=examples[:training],
        dev=examples[training : training + held_out],
        test=examples[training + held_out :],
    )


def _written(symbol: str, depth: int, chance: random.Random) -> Iterator[str]:
    """The words of what a symbol becomes, with brackets around each constituent."""
    if symbol not in _RULES:
        yield chance.choice(_WORDS.get(symbol, [symbol]))
        return
    label = symbol.rstrip("abcdefghijklmnopqrstuvwxyz")
    rules = _RULES[symbol][: _PLAIN.get(symbol) if depth > chance.randint(1, _DEEP) else None]
    yield f"({label}"
    for part in chance.choice(rules).split():
        yield from _written(part, depth + 1, chance)
    yield f"){label}"
