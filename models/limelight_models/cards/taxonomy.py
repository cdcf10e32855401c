"""A model's place in the taxonomy: its row of the survey's table, and its paper."""

import re
from dataclasses import asdict, dataclass

from limelight.v1 import model_pb2

Names = str | tuple[str, ...]
# Names whose column need not be said; `singular` alone is in two, and here means one look.
COLUMNS = {
    "scoring": "additive, multiplicative, scaled multiplicative, general, activated general, concat, location-based",
    "features": "parallel co-attention, rotatory",
    "levels": "hierarchical",
    "representations": "multi-representational",
    "alignment": "global, hard, local, reinforced, sigmoid, α-entmax",
    "dimensionality": "single-dimensional, multi-dimensional",
    "query": "basic, specialised, self-attentive",
    "multiplicity": "singular, multi-hop, multi-head, capsule",
}
_COLUMN_OF = {name: column for column, names in COLUMNS.items() for name in names.split(", ")}
_KNOWN = f"one of {', '.join(_COLUMN_OF)}"
_CITATION = re.compile(r"(.+?) \((\d{4})\): (.+)\. (.+)")


@dataclass(frozen=True, kw_only=True)
class Taxonomy:
    """The eight columns of BF Table 3; what is not said is the plain case."""

    scoring: Names
    features: Names = "singular"
    levels: Names = "single-level"
    representations: Names = "single-representational"
    alignment: Names = "global"
    dimensionality: Names = "single-dimensional"
    query: Names = "basic"
    multiplicity: Names = "singular"

    @classmethod
    def of(cls, text: str) -> "Taxonomy":
        """Read `additive, multi-head, alignment: sparsemax`: names, those of a column in their order.

        Raises: ValueError where a name is not in `COLUMNS` and has no column in front of it.
        """
        found: dict[str, list[str]] = {}
        for part in text.split(", "):
            said, _, name = part.rpartition(": ")
            column = said or _COLUMN_OF.get(name, "")
            if column not in COLUMNS:
                raise ValueError(f"{part!r} is in no column of the taxonomy; write `COLUMN: NAME`, or {_KNOWN}")
            found.setdefault(column, []).append(name)
        return cls(**{column: tuple(names) for column, names in found.items()})

    def describe(self) -> model_pb2.Taxonomy:
        """As a description has it."""
        columns = asdict(self)
        return model_pb2.Taxonomy(
            **{name: [value] if isinstance(value, str) else list(value) for name, value in columns.items()}
        )


@dataclass(frozen=True)
class Citation:
    """A paper; authors: last names, in order."""

    authors: str
    title: str
    year: int
    venue: str

    @classmethod
    def of(cls, text: str) -> "Citation":
        """Read `Last, Last (2018): A Title. Venue`. Raises: ValueError where a part is missing."""
        found = _CITATION.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no citation; write `Last, Last (2018): A Title. Venue`")
        authors, year, title, venue = found.groups()
        return cls(authors, title, int(year), venue)

    def describe(self) -> model_pb2.Citation:
        """As a description has it."""
        return model_pb2.Citation(authors=self.authors.split(", "), title=self.title, year=self.year, venue=self.venue)
