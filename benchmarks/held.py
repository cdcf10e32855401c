"""Memory that a server holds for a model with maps and for the same without: `python -m benchmarks.held`.

Each on a server of its own, after predictions of 128 tokens, eight at a time; the maps are there to be asked for, and
nobody does. Ten seconds. --keep writes docs/performance.md.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.encoder import NAME, PLAIN, make_repository
from benchmarks.kept import save
from benchmarks.load.generator import run_clean
from benchmarks.load.plan import Plan
from benchmarks.load.processor import resident_bytes
from benchmarks.process import ROOT, ServerProcess
from benchmarks.serving.inputs import PREDICT, Question, rows_of
from benchmarks.tables import Bar, bar_table, table


@dataclass(frozen=True)
class Held:
    """MiB of a server with one model, ready and after predictions."""

    model: str
    ready: float
    used: float


def measure(repository: Path, model: str, seconds: float) -> Held:
    """Serve one model of a repository by itself."""
    with tempfile.TemporaryDirectory(dir=repository.parent) as alone:
        _link(repository / model, Path(alone) / model)
        with ServerProcess(Path(alone)) as server:
            ready = resident_bytes(server.pids)
            messages = [Question("", model=model).serialise(row) for row in rows_of("128")]
            run_clean(Plan(server.target, PREDICT, messages, seconds, concurrency=8, pids=server.pids))
            return Held(model, ready / 2**20, resident_bytes(server.pids) / 2**20)


def _link(source: Path, target: Path) -> None:
    """Put the same files elsewhere, by hard links: they are large."""
    for file in source.rglob("*"):
        if file.is_file():
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(file, place)


def tables(rows: Sequence[Held]) -> list[str]:
    """The table of a run."""
    lines = ([each.model, f"{each.ready:.0f}", f"{each.used:.0f}"] for each in rows)
    return table(["model", "ready, MiB", "after predictions, MiB"], lines)


def bars(rows: Sequence[Held]) -> list[str]:
    """What the run is held to."""
    used = {each.model: each.used for each in rows}

    def found() -> Iterator[Bar]:
        yield Bar("memory of a model with maps ÷ without", used[NAME] / used[PLAIN], 1.03, at_most=True)

    return bar_table(found())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of predictions")
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    repository = ROOT / "build" / "benchmarks"
    make_repository(repository)
    rows = [measure(repository, model, options.seconds) for model in (PLAIN, NAME)]
    print("\n".join([*tables(rows), "", *bars(rows)]))
    save("held", rows, keep=options.keep)


if __name__ == "__main__":
    main()
