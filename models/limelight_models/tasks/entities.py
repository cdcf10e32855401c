"""Named entities: spans of words, tagged with where they begin and go on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from limelight_models.cards.by_example import ByExample, ratios
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Network
from limelight_models.tasks.tag import Tag
from limelight_models.tasks.task import HeldOut, answers

Entity = tuple[str, int, int]
_NOTHING = "O"


@dataclass(frozen=True)
class Entities(Tag):
    """As tagging, with tags `B-kind`, `I-kind` and `O`: what is judged is spans, which are right or wrong as wholes."""

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """F1 of the entities, precision and recall, all over spans with both ends and the kind right (Tjong Kim Sang
        & De Meulder 2003); then accuracy of the tags. A word that was cut off is taken for none.
        """
        counts = self._counts(network, held_out, training)
        figures = {
            "F1": _f1(counts),
            "precision": ratios({index: (right, said) for index, (right, said, _) in counts.items()}),
            "recall": ratios({index: (right, true) for index, (right, _, true) in counts.items()}),
        }
        return [
            *(Metric.over(each, name=f"entity {name}") for name, each in figures.items()),
            *super().judge(network, card, held_out, training),
        ]

    def standing(self, network: Network, dev: HeldOut, training: Sequence[Example], loss: float) -> float:
        """1 - F1: nearly all words are no entity, and the loss is lowest for a network that hardly ever says one. While
        no entity is right, the loss tells whether it learns.
        """
        found = _f1(self._counts(network, dev, training)).value
        return 1 - found if found else 1 + loss

    def _counts(
        self, network: Network, held_out: HeldOut, training: Sequence[Example]
    ) -> dict[int, tuple[int, int, int]]:
        """Entities of each example that were found rightly, that were said to be there, and that are there."""
        labels = sorted({label for each in training for label in each.labels if label})
        counts = {}
        for batch, answer in answers(network, held_out):
            best = answer.outputs[self.output].argmax(-1).tolist()
            for index, row in zip(batch.indices, best, strict=True):
                wanted = held_out.examples[index].labels
                found = set(entities([labels[number] for number in row[: len(wanted)]]))
                there = set(entities(wanted))
                counts[index] = len(found & there), len(found), len(there)
        return counts


def _f1(counts: Mapping[int, tuple[int, int, int]]) -> ByExample:
    return ratios({index: (2 * right, said + true) for index, (right, said, true) in counts.items()})


def entities(tags: Sequence[str]) -> Iterator[Entity]:
    """The kind, the first word and the one behind the last of each entity.

    `I-kind` that does not go on with an entity of its kind begins one.
    """
    kind, begin = "", 0
    for place, tag in enumerate([*tags, _NOTHING]):
        how, _, of = tag.partition("-")
        if kind and (how != "I" or of != kind):
            yield kind, begin, place
            kind = ""
        if not kind and tag not in ("", _NOTHING):
            kind, begin = of, place
