"""Answers with attention maps."""

import os
from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from limelight import archive, bertviz, notebook, tables
from limelight.base.printing import printable
from limelight.labels import LabelSet, read_label_sets
from limelight.maps import AttentionMap, find, read_map
from limelight.predictions import Prediction, check_count, read_prediction
from limelight.records import FrozenMapping, Record
from limelight.v1 import service_pb2, values_pb2

if TYPE_CHECKING:
    import pandas
    import xarray

_SHOWN = 12  # maps that a representation lists


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

    def _listed(self) -> str:
        """Return a line for each of the first maps."""
        lines = [f"\n  {each.summary}" for each in self.maps[:_SHOWN]]
        more = len(self.maps) - len(lines)
        return "".join(lines) + (f"\n  and {more} more maps" if more > 0 else "")


@dataclass(frozen=True, eq=False, repr=False)
class SequenceAttention(_Maps):
    """Attention of one of several sequences: only the maps that depend on its tokens."""

    _array = "its maps are: `.maps`"

    sequence: int
    """Index in `prediction.sequences`."""
    maps: tuple[AttentionMap, ...]
    label_sets: Mapping[str, LabelSet]
    """Label sets by name, including those shared with the best sequence."""

    def __repr__(self) -> str:
        return f"<SequenceAttention {self.sequence}{self._listed()}>"


@dataclass(frozen=True, eq=False, repr=False)
class Attended(_Maps):
    """The answer to one instance, and a mapping from names to its maps: `answer["encoder.0.self"]`."""

    _array = 'its maps are: `answer["encoder.0.self"]`, `answer.maps`'

    prediction: Prediction
    maps: tuple[AttentionMap, ...]
    """In the order of the model's description; for a generating model, of the best sequence."""
    other_sequences: tuple[SequenceAttention, ...] = ()
    """Maps of the other sequences, as `sequences` requests."""

    @property
    def label(self) -> str | None:
        """The most probable class; None for a model without classes."""
        return self.prediction.label

    @property
    def text(self) -> str | None:
        """The generated text; None for a model that does not generate."""
        return self.prediction.text

    @property
    def probability(self) -> float | None:
        """The probability of `label`, or of the whole `text`."""
        return self.prediction.probability

    def __repr__(self) -> str:
        return f"<Attended {printable(self.prediction.heading)}{self._listed()}>"

    def _repr_html_(self) -> str:
        return notebook.page(self.maps, self.prediction.heading)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON types: `prediction`, `maps` and `other_sequences`."""
        others = [
            {
                "sequence": other.sequence,
                # Label sets shared with the best sequence are in the prediction.
                "label_sets": {
                    name: each.to_dict()
                    for name, each in other.label_sets.items()
                    if each is not self.label_sets.get(name)
                },
                "maps": [each.to_dict() for each in other.maps],
            }
            for other in self.other_sequences
        ]
        return {
            "prediction": self.prediction.to_dict(),
            "maps": [each.to_dict() for each in self.maps],
            "other_sequences": others,
        }

    @property
    def label_sets(self) -> Mapping[str, LabelSet]:
        """The whole label sets of maps and results, by name."""
        return self.prediction.label_sets

    def to_pandas(self, names: str = "*") -> "pandas.DataFrame":
        """Return the rows of `AttentionMap.to_pandas` of all maps that match a glob, in one pandas DataFrame.

        Raises:
            KeyError: no map matches.
            ModuleNotFoundError: pandas is not installed.
        """
        return tables.frame(self._matching(names))

    def to_xarray(self, names: str = "*") -> "xarray.DataArray":
        """Return the maps that match a glob as one xarray DataArray [map, head, query, key] (`AttentionMap.to_xarray`).

        Raises:
            KeyError: no map matches.
            ValueError: the maps differ in heads or labels.
            ModuleNotFoundError: xarray is not installed.
        """
        return tables.stacked(self._matching(names))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the answer into a file that `limelight.load` reads: NumPy's `.npz`, without pickles."""
        archive.save(self, file)

    def _matching(self, names: str) -> tuple[AttentionMap, ...]:
        chosen = tuple(each for each in self.maps if fnmatchcase(each.name, names))
        return chosen or (find(self.maps, names),)

    def to_bertviz(self, names: str = "*") -> dict[str, Any]:
        """Return arguments of bertviz's views for the maps that match a glob (`limelight.bertviz.arguments`)."""
        return bertviz.arguments(self.maps, names)


def read_attended(message: service_pb2.Attended, instance: values_pb2.Instance) -> Attended:
    """Read the answer to one instance. Raises ValueError for a message whose parts are inconsistent."""
    check_count(len(message.maps) + sum(len(each.maps) for each in message.other_sequences), "maps")
    prediction = read_prediction(message.prediction, instance)
    sequences = len(prediction.sequences)
    return Attended(
        prediction=prediction,
        maps=tuple(read_map(each, prediction.label_sets) for each in message.maps),
        other_sequences=tuple(
            _sequence(each, instance, prediction.label_sets, sequences) for each in message.other_sequences
        ),
    )


def _sequence(
    message: service_pb2.SequenceAttention,
    instance: values_pb2.Instance,
    shared: Mapping[str, LabelSet],
    sequences: int,
) -> SequenceAttention:
    if not 0 <= message.sequence < sequences:
        raise ValueError(f"maps of sequence {message.sequence} of {sequences}")
    label_sets = {**shared, **read_label_sets(message.label_sets, instance, shared)}
    maps = tuple(read_map(each, label_sets) for each in message.maps)
    return SequenceAttention(message.sequence, maps, FrozenMapping(label_sets))
