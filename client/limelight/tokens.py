"""The tokens that a model reads of texts."""

from collections.abc import Mapping
from dataclasses import dataclass

from limelight.labels import LabelSet, read_label_sets
from limelight.records import FrozenMapping, Record
from limelight.v1 import service_pb2, values_pb2


@dataclass(frozen=True, eq=False, repr=False)
class Tokenized(Record):
    """The tokens of one instance. `len(tokenized)` is their number, special tokens included."""

    _array = "`label_sets` have columns"

    label_sets: Mapping[str, LabelSet]
    """Tokens of each text, and the sentences of a document, by the name of the label set, in the order of the model's
    inputs."""
    truncated: bool
    """True if the input was truncated to the model's limits."""

    def __len__(self) -> int:
        return sum(len(each) for each in self._sets)

    @property
    def tokens(self) -> LabelSet:
        """The tokens of the first text: texts, offsets, ids, special, words."""
        return self._sets[0]

    @property
    def _sets(self) -> list[LabelSet]:
        return [each for each in self.label_sets.values() if each.kind == "tokens"]


def read_tokenized(message: service_pb2.Tokenized, instance: values_pb2.Instance) -> Tokenized:
    """Read the tokens of an instance. Raises ValueError for an inconsistent message."""
    found = Tokenized(FrozenMapping(read_label_sets(message.label_sets, instance)), message.truncated)
    if not len(found):
        raise ValueError("an instance has no tokens")
    return found
