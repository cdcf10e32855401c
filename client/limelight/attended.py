"""An answer with its attention."""

from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass
from typing import Any

from limelight import bertviz
from limelight.labels import LabelSet, read_label_sets
from limelight.maps import AttentionMap, find, read_map
from limelight.predictions import Prediction, read_prediction
from limelight.records import Named, Record
from limelight.v1 import service_pb2, values_pb2


class _Maps(Record, Mapping[str, AttentionMap]):
    """What has maps: a mapping from their names, in order."""

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
    """The attention behind one of several sequences: those maps alone that its tokens decide."""

    _array = "its maps are: `.maps`"

    sequence: int
    """Its place among `prediction.sequences`."""
    maps: tuple[AttentionMap, ...]
    label_sets: Mapping[str, LabelSet]
    """By name: its own, and those that it shares with the best sequence."""


@dataclass(frozen=True, eq=False)
class Attended(_Maps):
    """One instance's answer and the weights behind it: a mapping from names to maps, `answer["encoder.0.self"]`."""

    _array = 'its maps are: `answer["encoder.0.self"]`, `answer.maps`'

    prediction: Prediction
    maps: tuple[AttentionMap, ...]
    """In the order of the model's description; for a generating model, of the best sequence."""
    other_sequences: tuple[SequenceAttention, ...] = ()
    """The maps of the other sequences, as many as `sequences` asked for."""

    @property
    def label_sets(self) -> Mapping[str, LabelSet]:
        """The label sets of the maps, and of the results, by name, whole."""
        return self.prediction.label_sets

    def to_bertviz(self, names: str = "*") -> dict[str, Any]:
        """What bertviz's views take, for the maps whose names match a glob: see `limelight.bertviz.arguments`."""
        return bertviz.arguments(self.maps, names)


def read_attended(message: service_pb2.Attended, instance: values_pb2.Instance) -> Attended:
    """One instance's answer. Raises: ValueError where its parts do not fit each other."""
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
    return SequenceAttention(message.sequence, maps, Named(label_sets))
