"""Trains the models of docs/results.md, collects what was measured, and writes its tables.

    python -m research.replication train --data ../shared/data    one run after another; Ctrl-C and again goes on
    python -m research.replication beams ROW ...                  of rows that write texts, what several beams add
    python -m research.replication collect                        runs/results/*/*.json -> records/training.json.xz
    python -m research.replication write                          records/training.json.xz -> tables of docs/results.md

Only figures are kept, never a row of the data.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.records import ROOT, read, write
from research.replication.beams import served
from research.replication.page import pages
from research.replication.runs import RECORD, RUNS, TABLE

_BEAMS = "beams.json"
_PLACES = ("path", "gold", "columns")  # of files: the command says them


def train(data: Path, names: list[str], minutes: float) -> None:
    """Train what is not finished, one run after another."""
    for run in (run for run in TABLE if not names or run.name in names):
        folder = RUNS / run.name
        if (folder / "metrics.json").exists() and json.loads((folder / "metrics.json").read_text())["finished"]:
            continue
        begun = (folder / "resume.safetensors").exists()
        arguments = ["train", run.model, "--resume"] if begun else [*run.command(data), "--overwrite"]
        arguments += ["--out", str(folder), *(["--time-limit", str(minutes)] if minutes else [])]
        print(f"== {run.name}", flush=True)
        subprocess.run(
            [sys.executable, "-m", "limelight.cli", *arguments],
            cwd=ROOT,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )


def collect() -> None:
    """Keep the figures of every run that there is; those of others stay as they are."""
    record: dict[str, Any] = read(RECORD) if RECORD.exists() else {}
    for run in TABLE:
        folder = RUNS / run.name
        if (folder / "metrics.json").exists():
            config = json.loads((folder / "config.json").read_text())
            for place in _PLACES:
                config["data"].pop(place, None)
            metrics = json.loads((folder / "metrics.json").read_text())
            record[run.name] = {
                "command": shlex.join(["limelight", *run.command(Path("../shared/data"))]),
                **{name: value for name, value in metrics.items() if name != "history"},
                **{key: config[key] for key in ("model", "config", "settings", "data", "versions")},
            }
            if (folder / _BEAMS).exists():
                record[run.name]["beams"] = json.loads((folder / _BEAMS).read_text())
    write(RECORD, {run.name: record[run.name] for run in TABLE if run.name in record})


def main() -> None:
    """Do one of the four."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("train", "beams", "collect", "write"))
    parser.add_argument("names", nargs="*", help="rows, all where none is named")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--minutes", type=float, default=0.0, help="time limit of a run")
    options = parser.parse_args()
    if options.task == "train":
        train(options.data.resolve(), options.names, options.minutes)
    elif options.task == "beams":
        for name in options.names:
            (RUNS / name / _BEAMS).write_text(json.dumps(served(RUNS / name), indent=1) + "\n")
    elif options.task == "collect":
        collect()
    else:
        for page, text in pages(read(RECORD)).items():
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
