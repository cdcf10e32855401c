"""A class for a target in a sentence that has several."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from limelight_bundle.values import Pair, Text
from limelight_models.cards.by_example import ratios
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.data.rows import letters
from limelight_models.network import Network
from limelight_models.tasks.classify import Classify
from limelight_models.tasks.task import HeldOut


@dataclass(frozen=True)
class ClassifyTargets(Classify):
    """As classification; beside accuracy, whether targets of one sentence are told apart."""

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Accuracy; and the share of pairs of targets in one sentence, of different classes, with both right: whoever
        reads the sentence alone has none of them.
        """
        metrics, right = super().judge(network, card, held_out, training), self._rights(network, held_out)
        # Pairs of one sentence are no examples of their own: a sentence is.
        apart: defaultdict[str, list[bool]] = defaultdict(list)
        for one, other in opposed(held_out.examples):
            apart[sentence(held_out.examples[one])].append(right[one] and right[other])
        if apart:
            found = ratios({number: (sum(each), len(each)) for number, each in enumerate(apart.values())})
            metrics.append(Metric.over(found, name="told apart", baseline=0.0, baseline_name="one answer a sentence"))
        return metrics


def opposed(examples: Sequence[Example]) -> Iterator[tuple[int, int]]:
    """Pairs of examples about the same sentence with different classes."""
    same: dict[str, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        same[sentence(example)].append(index)
    for group in same.values():
        yield from ((a, b) for a, b in combinations(group, 2) if examples[a].label != examples[b].label)


def sentence(example: Example) -> str:
    """The letters of a sentence, however it is cut: in three parts, or as the answer to a question."""
    parts = {name: value.text for name, value in example.instance.items() if isinstance(value, Text)}
    pairs = (value.second for value in example.instance.values() if isinstance(value, Pair))
    return letters(*(parts[name] for name in ("left", "target", "right") if name in parts), *pairs)
