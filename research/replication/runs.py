"""The runs behind docs/results.md: the record holds the command of each, from which it can be run again."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from benchmarks.records import ROOT, read

RUNS = ROOT / "runs" / "results"
RECORD = ROOT / "research" / "records" / "training.json.xz"
PAGES = ROOT / "docs"
COMMAND = "command.txt"  # of a run, beside what it left
DATA = "../shared/data"  # the folder of data sets, as commands name it


@dataclass(frozen=True)
class Run:
    """A run. command: `limelight train MODEL …`, with data sets below `DATA`."""

    name: str
    command: str

    @property
    def model(self) -> str:
        """The name of what is trained."""
        return shlex.split(self.command)[2]

    @property
    def data(self) -> str:
        """A path below the folder of data sets, a `builtin:NAME`, or empty for the data that come with the model."""
        words = shlex.split(self.command)
        return words[words.index("--data") + 1].removeprefix(f"{DATA}/") if "--data" in words else ""

    def arguments(self, data: Path) -> list[str]:
        """Give the arguments of `limelight`. data: the folder of data sets."""
        _, *words = shlex.split(self.command)
        return [f"{data}/{word.removeprefix(f'{DATA}/')}" if word.startswith(f"{DATA}/") else word for word in words]


TABLE = tuple(Run(name, run["command"]) for name, run in read(RECORD).items())
