"""Answers with attention maps."""

from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass
from typing import Any

from limelight import bertviz
from limelight.labels import LabelSet, read_label_sets
from limelight.maps import AttentionMap, find, read_map
from limelight.predictions import Prediction, read_prediction
from limelight.records import FrozenMapping, Record
from limelight.v1 import service_pb2, values_pb2


class _Maps(Record, Mapping[str, AttentionMap]):
    """A mapping from names to maps, in order."""

    maps: tuple[AttentionMap, ...]

    def __getitem__(self, name: str) -> AttentionMap:
        return find(self.maps, name)

    def __iter__(self) -> Iterator[str]:
        return iter([each.name for each in self.maps])

    def __len__(self) -> int:
        return len(self.maps)

    def keys(self) -> KeysView[str]:
        return {each.name: each for each in self.maps}.keys()


@dataclass(frozen=True, eq=False)
class SequenceAttention(_Maps):
    """Attention of one of several sequences: only the maps that depend on its tokens."""

    _array = "its maps are: `.maps`"

    sequence: int
    """Index in `prediction.sequences`."""
    maps: tuple[AttentionMap, ...]
    label_sets: Mapping[str, LabelSet]
    """Label sets by name, including those shared with the best sequence."""


@dataclass(frozen=True, eq=False)
class Attended(_Maps):
    """The answer to one instance, and a mapping from names to its maps: `answer["encoder.0.self"]`."""

    _array = 'its maps are: `answer["encoder.0.self"]`, `answer.maps`'

    prediction: Prediction
    maps: tuple[AttentionMap, ...]
    """In the order of the model's description; for a generating model, of the best sequence."""
    other_sequences: tuple[SequenceAttention, ...] = ()
    """Maps of the other sequences, as `sequences` requests."""

    @property
    def label_sets(self) -> Mapping[str, LabelSet]:
        """The whole label sets of maps and results, by name."""
        return self.prediction.label_sets

    def to_bertviz(self, names: str = "*") -> dict[str, Any]:
        """Return arguments of bertviz's views for the maps that match a glob (`limelight.bertviz.arguments`)."""
        return bertviz.arguments(self.maps, names)


def read_attended(message: service_pb2.Attended, instance: values_pb2.Instance) -> Attended:
    """Read the answer to one instance. Raises ValueError for a message whose parts are inconsistent."""
    prediction = read_prediction(message.prediction, instance)
    return Attended(
        prediction=prediction,
        maps=tuple(read_map(each, prediction.label_sets) for each in message.maps),
        other_sequences=tuple(_sequence(each, instance, prediction.label_sets) for each in message.other_sequences),
    )


def _sequence(
    message: service_pb2.SequenceAttention, instance: values_pb2.Instance, shared: Mapping[str, LabelSet]
) -> SequenceAttention:
    label_sets = {**shared, **read_label_sets(message.label_sets, instance, shared)}
    maps = tuple(read_map(each, label_sets) for each in message.maps)
    return SequenceAttention(message.sequence, maps, FrozenMapping(label_sets))
