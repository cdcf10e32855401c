"""The report of an evaluation, and its form in JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from limelight.evaluation.samples import Curve, Figure

FORMAT = 1


@dataclass(frozen=True)
class Section:
    """A measure and what came of it. skipped: the reason why it was not computed; empty if it was."""

    name: str
    title: str
    source: str
    summary: str
    skipped: str
    figures: tuple[Figure, ...] = ()
    curves: tuple[Curve, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A row without an answer, or some of whose changed forms have none. line: in the file."""

    line: int
    code: str
    message: str


@dataclass(frozen=True)
class Report:
    """A whole evaluation."""

    started: str
    """Time of the start, ISO 8601 in UTC."""
    client: str
    """Version of this package."""
    model: str
    version: int
    bundle_digest: str
    task: str
    data: str
    """Name of the file."""
    seed: int
    rows: int
    """Number of rows of the file."""
    sampled: int
    """Number of rows that were drawn from them."""
    answered: int
    seconds: float
    stopped: str
    """Reason why rows are missing from the end; empty if all sampled rows were asked for."""
    sections: tuple[Section, ...]
    failures: tuple[Failure, ...]
    format: int = FORMAT

    @property
    def headline(self) -> str:
        """Which rows the figures are of, in one line."""
        drawn = f"{self.sampled:,} of {self.rows:,} rows (seed {self.seed})"
        if self.sampled == self.rows:
            drawn = f"all {self.rows:,} rows"
        answered = "" if self.answered == self.sampled else f"; only {self.answered:,} of them were answered"
        return f"{self.data}: {drawn}{answered}"

    def to_dict(self) -> Mapping[str, Any]:
        """Return the report as JSON types."""
        return asdict(self)
