"""Constituents, written as brackets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from limelight_models.cards.by_example import ratios
from limelight_models.cards.card import Metric
from limelight_models.tasks.generate import Generate

Bracket = tuple[str, int, int]


@dataclass(frozen=True)
class Brackets(Generate):
    """As generation; what is judged beside whole trees is their constituents."""

    def of_texts(self, written: Sequence[str], wanted: Sequence[str]) -> list[Metric]:
        """Labelled F1 of the constituents, over all sentences (Black et al. 1991)."""
        counts = {}
        for index, (found, there) in enumerate(zip(map(brackets, written), map(brackets, wanted), strict=True)):
            counts[index] = (2 * (found & there).total(), found.total() + there.total())
        return [Metric.over(ratios(counts), name="bracket F1")]


def brackets(tree: str) -> Counter[Bracket]:
    """Label, first word and the one behind the last of each constituent; of brackets that do not pair, none."""
    found: Counter[Bracket] = Counter()
    opened: list[tuple[str, int]] = []
    place = 0
    for token in tree.split():
        if token.startswith("("):
            opened.append((token[1:], place))
        elif token.startswith(")"):
            if opened and opened[-1][0] == token[1:]:
                label, begin = opened.pop()
                found[label, begin, place] += 1
        else:
            place += 1
    return found
