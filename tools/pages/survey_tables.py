"""What the surveys name, table by table and paragraph by paragraph, as `surveys.txt` has it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from limelight_models.catalogue.mechanism import Mechanism
from pages.atlas import facts
from pages.atlas.rows import STATES, rows

WORKS, HALF, IMPORT, MISSING = STATES
FILE = Path(__file__).parent / "surveys.txt"
CHECKPOINTS, ONLY, ABSENT = "hf:", "~", "-"


@dataclass(frozen=True)
class Mark:
    """What stands for a name, written `ROW`, `ROW/WORD` (those of the row with that word in their names), `~ROW` (its
    mechanism, in another system than the one named), `-ROW` (the row that will have it) or `hf:KIND` (checkpoints).
    """

    kind: str  # CHECKPOINTS, ONLY, ABSENT, or empty
    row: str
    word: str = ""

    @classmethod
    def of(cls, text: str) -> "Mark":
        """Read one."""
        kind = next((each for each in (CHECKPOINTS, ONLY, ABSENT) if text.startswith(each)), "")
        row, _, word = text.removeprefix(kind).partition("/")
        return cls(kind, row, word)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Those of the registry."""
        return tuple(each for each in facts.mechanisms(self.row) if self.word in each.name)

    @property
    def models(self) -> tuple[str, ...]:
        """Published models."""
        return tuple(name for name in facts.models(self.row) if self.word in name)

    @property
    def state(self) -> str:
        """One of `STATES`. A row that is half there works for a name whose WORD is there."""
        if self.kind:
            return {CHECKPOINTS: IMPORT, ONLY: HALF, ABSENT: MISSING}[self.kind]
        return WORKS if self.word and (self.mechanisms or self.models) else facts.state(rows()[self.row])


@dataclass(frozen=True)
class Name:
    """A name in a survey, and what stands for it."""

    name: str
    marks: tuple[Mark, ...]

    @property
    def state(self) -> str:
        """The best of its marks; a mechanism that works is half of a system that is missing."""
        found = {each.state for each in self.marks} or {MISSING}
        best = next(each for each in (WORKS, IMPORT, HALF, MISSING) if each in found)
        return HALF if best == WORKS and MISSING in found else best


def tables() -> Mapping[str, tuple[Name, ...]]:
    """Names by the table or paragraphs that they stand in."""
    text = FILE.read_text(encoding="utf-8")
    return {title: tuple(_names(part)) for title, _, part in (each.partition("\n") for each in text[2:].split("\n# "))}


def _names(part: str) -> Iterator[Name]:
    for line in part.strip().splitlines():
        name, _, marks = line.partition("|")
        yield Name(name.strip(), tuple(map(Mark.of, marks.split())))
