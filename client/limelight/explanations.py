"""Explanations: what of its input an answer depends on, by parts of the input and by ways to tell."""

import os
from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limelight import archive, notebook, unit_figures
from limelight.base.enums import name_of
from limelight.base.optional import package
from limelight.base.printing import printable
from limelight.base.suggestions import similar
from limelight.figures import sent_texts
from limelight.files import write_file
from limelight.labels import LabelSet, read_label_sets
from limelight.predictions import Prediction, check_count, read_prediction
from limelight.records import FrozenMapping, Record
from limelight.v1 import service_pb2, values_pb2

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class ExplainedTarget(Record):
    """What was explained."""

    result: str
    """Name of the result."""
    label: str
    """Name of the class or number; text of the span, token or sequence; empty for a vector."""
    index: int | None
    """Index of the class in the model; None for others."""
    entry: int | None
    """Entry or output step; None if it is none."""
    score_kind: str
    """What scores are: "log_probability" (natural), "value" or "similarity" (cosine)."""
    score: float
    """Score of the answer to the instance as it is."""


@dataclass(frozen=True, eq=False, repr=False)
class WayValues(Record):
    """The values of all units in one way."""

    _array = "`values` are"

    way: str
    """"attention", "rollout", "look_away", "look_only", "erase" or "erase_others"."""
    values: NDArray[np.float64]
    """[unit]. Attention and rollout: share of the weights, from 0 to 1. Otherwise the change of the target's score."""
    maps: tuple[str, ...]
    """Maps whose attention counts, or that look away; empty for erasures."""


@dataclass(frozen=True)
class Agreement(Record):
    """How far two ways order the units alike: Spearman's correlation, of losses where a way takes the unit away."""

    first: str
    second: str
    correlation: float | None
    """From -1 to 1; None if a way has the same value for all units, or there are fewer than 3."""
    low: float | None
    """Lower end of its 95 % interval (Bonett and Wright 2000); None if there are fewer than 4 units."""
    high: float | None
    """Upper end."""

    @property
    def verdict(self) -> str:
        """ "agree" if the whole interval is above 0, "disagree" if it is below, else "cannot tell"."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "cannot tell"
        return "agree" if self.low > 0 else "disagree"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the verdict as JSON types."""
        return {**super().to_dict(), "verdict": self.verdict}


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Record, Mapping[str, NDArray[np.float64]]):
    """The explanation of the answer to one instance, and a mapping from ways to their values: `why["look_away"]`."""

    _array = 'its columns are: `explanation["attention"]`'

    prediction: Prediction
    """The usual answer."""
    target: ExplainedTarget
    units: LabelSet
    """The units, with their places in the input."""
    unit_kind: str
    """"words", "sentences", "lines", "tokens", "patches", "nodes", "frames"; "units" for given and mixed ones."""
    ways: Mapping[str, WayValues]
    """By name, in the order of the request."""
    agreements: tuple[Agreement, ...]
    """One for each pair of ways."""
    rows: int
    """Rows that the server computed, the usual one among them."""
    texts: Mapping[str, str]
    """The texts as sent, by the inputs that units name; without sentences, whose places are their own."""

    def __getitem__(self, way: str) -> NDArray[np.float64]:
        if way not in self.ways:
            names = list(self.ways)
            raise KeyError(f"no way {way!r} in this explanation; it has {', '.join(names)}{similar(str(way), names)}")
        return self.ways[way].values

    def __iter__(self) -> Iterator[str]:
        return iter(self.ways)

    def __len__(self) -> int:
        return len(self.ways)

    def keys(self) -> KeysView[str]:
        return self.ways.keys()

    def agreement(self, first: str, second: str) -> Agreement:
        """Return the agreement of two ways, in either order. Raises KeyError if there is none."""
        for each in self.agreements:
            if {each.first, each.second} == {first, second} and first != second:
                return each
        raise KeyError(f"no agreement of {first!r} and {second!r}; the ways are {', '.join(self.ways)}")

    @property
    def sentence(self) -> str:
        """One sentence that says whether attention agrees with what the answer depends on; empty for one way."""
        return unit_figures.sentence(self)

    def __repr__(self) -> str:
        ways = ", ".join(self.ways)
        return f"<Explanation {printable(self.prediction.heading)}; {len(self.units)} {self.unit_kind} by {ways}>"

    def _repr_html_(self) -> str:
        return self._html()

    def _html(self, image: bytes | None = None) -> str:
        units = [(self.units.labels[at], unit_figures.values_of(self, at)) for at in unit_figures.largest(self)]
        shown = "; ".join(f"{label} {' '.join(values)}" for label, values in units)
        ways = ", ".join(self).replace("_", " ")
        notes = [f"largest ({ways}): {shown}", *unit_figures.notes(self)]
        return notebook.panel(unit_figures.figures(self), self.prediction.heading, notes, image)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON types; `ways` is a list, in order."""
        return {
            "prediction": self.prediction.to_dict(),
            "target": self.target.to_dict(),
            "units": self.units.to_dict(),
            "unit_kind": self.unit_kind,
            "ways": [each.to_dict() for each in self.ways.values()],
            "agreements": [each.to_dict() for each in self.agreements],
            "rows": self.rows,
            "sentence": self.sentence,
        }

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a pandas DataFrame with a row for each unit.

        Columns: unit, input, start and end (of parts of a text or recording), and one for each way.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        pandas = package("pandas", "to_pandas()")
        places = {"input": self.units.origins, "start": self.units.starts, "end": self.units.ends}
        columns = {name: column for name, column in places.items() if len(column) == len(self.units)}
        return pandas.DataFrame({"unit": self.units.labels, **columns, **self})

    def save(self, file: str | os.PathLike[str], *, image: bytes | None = None) -> None:
        """Write the explanation into a file, by its ending.

        `.png` is a picture (which needs `limelight-client[cli]`), `.html` a page that loads nothing; any other is what
        `limelight.load` reads: NumPy's `.npz`, without pickles.

        Args:
            image: the sent image, for a picture or page of its patches.
        Raises:
            OSError: the file cannot be written.
            ModuleNotFoundError: Pillow is not installed.
        """
        path = Path(file)
        match path.suffix.lower():
            case ".html":
                write_file(path, notebook.document(self._html(image), self.prediction.provenance.model))
            case ".png":
                package("PIL", "a picture", extra="cli")
                import_module("limelight.cli.render_png").save(
                    unit_figures.figures(self), path, image=image, heading=unit_figures.heading(self)
                )
            case _:
                archive.save(self, path)


def read_explanation(
    message: service_pb2.Explanation, instance: values_pb2.Instance, asked: service_pb2.UnitOptions
) -> Explanation:
    """Read the explanation of the answer to one instance. Raises ValueError for one whose parts are inconsistent."""
    check_count(len(message.ways) + len(message.agreements), "ways and agreements")
    prediction = read_prediction(message.prediction, instance)
    (units,) = read_label_sets([message.units], instance, prediction.label_sets).values()
    ways = {}
    for each in message.ways:
        name, values = name_of(service_pb2.Way, each.way), np.array(each.values, np.float64)
        if len(values) != len(units):
            raise ValueError(f"way {name!r} has {len(values)} values for {len(units)} units")
        values.flags.writeable = False
        ways[name] = WayValues(name, values, tuple(each.maps))
    target = message.target
    return Explanation(
        prediction=prediction,
        target=ExplainedTarget(
            result=target.result,
            label=target.label,
            index=_optional(target, "index"),
            entry=_optional(target, "entry"),
            score_kind=name_of(service_pb2.ScoreKind, target.score_kind),
            score=target.score,
        ),
        units=units,
        unit_kind=_kind(asked, units),
        ways=FrozenMapping(ways),
        agreements=tuple(map(_agreement, message.agreements)),
        rows=message.rows,
        texts=FrozenMapping(sent_texts(instance)),
    )


_USUAL = {"tokens": "words", "grid": "patches", "groups": "units"}
"""Units by the kind of the label set that they come from."""


def _kind(asked: service_pb2.UnitOptions, units: LabelSet) -> str:
    return name_of(service_pb2.UnitKind, asked.kind) if asked.kind else _USUAL.get(units.kind, units.kind)


def _agreement(message: service_pb2.Agreement) -> Agreement:
    first, second = (name_of(service_pb2.Way, each) for each in (message.first, message.second))
    return Agreement(first, second, *(_optional(message, name) for name in ("correlation", "low", "high")))


def _optional(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None
