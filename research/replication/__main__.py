"""Trains the models of docs/results.md, collects what was measured, and writes its tables.

    python -m research.replication train --data ../shared/data    one run after another; Ctrl-C and again goes on
    python -m research.replication train NAME --command '…'       a new row, of `limelight train …`
    python -m research.replication beams ROW ...                  of rows that write texts, what several beams add
    python -m research.replication collect                        runs/results/*/*.json -> records/training.json.xz
    python -m research.replication write                          records/training.json.xz -> tables of docs/results.md

Only figures are kept, never a row of the data.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.records import ROOT, read, write
from limelight_models.training.runs import BY_EXAMPLE
from research.replication.beams import served
from research.replication.page import pages
from research.replication.papers import is_compared
from research.replication.runs import COMMAND, DATA, RECORD, RUNS, TABLE, Run

_BEAMS = "beams.json"
_PLACES = ("path", "gold", "columns")  # of files: the command says them


def train(data: Path, rows: Sequence[Run], minutes: float) -> None:
    """Train what is not finished, one run after another."""
    for run in rows:
        folder = RUNS / run.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / COMMAND).write_text(run.command)
        if (folder / "metrics.json").exists() and json.loads((folder / "metrics.json").read_text())["finished"]:
            continue
        begun = (folder / "resume.safetensors").exists()
        arguments = ["train", run.model, "--resume"] if begun else [*run.arguments(data), "--overwrite"]
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
    record: dict[str, Any] = read(RECORD)
    for file in sorted(RUNS.glob(f"*/{COMMAND}")):
        folder = file.parent
        if not (folder / "metrics.json").exists():
            continue
        config, metrics = (json.loads((folder / f"{name}.json").read_text()) for name in ("config", "metrics"))
        for place in _PLACES:
            config["data"].pop(place, None)
        by_example = metrics.get(BY_EXAMPLE, {})
        metrics[BY_EXAMPLE] = {name: by_example[name] for name in by_example if is_compared(name, metrics["metrics"])}
        record[folder.name] = {
            "command": file.read_text(),
            **{name: value for name, value in metrics.items() if name != "history"},
            **{key: config[key] for key in ("model", "config", "settings", "data", "versions")},
        }
        if (folder / _BEAMS).exists():
            record[folder.name]["beams"] = json.loads((folder / _BEAMS).read_text())
    write(RECORD, record)


def main() -> None:
    """Do one of the four."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("train", "beams", "collect", "write"))
    parser.add_argument("names", nargs="*", help="rows, all where none is named")
    parser.add_argument("--data", type=Path, default=Path(DATA))
    parser.add_argument("--command", default="", help="of a new row, which the one name names")
    parser.add_argument("--minutes", type=float, default=0.0, help="time limit of a run")
    options = parser.parse_args()
    if options.task == "train":
        chosen = [run for run in TABLE if not options.names or run.name in options.names]
        if options.command:
            chosen = [Run(*options.names, options.command)]
        train(options.data.resolve(), chosen, options.minutes)
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
