"""Attention mechanisms on equal terms, each where its idea can act: the study behind docs/mechanisms.md.

    python -m research.mechanisms run                # what is missing, one run after the other
    python -m research.mechanisms run --minutes 60   # for so long
    python -m research.mechanisms latency            # ONNX Runtime's time for exported graphs that have none
    python -m research.mechanisms status             # what is there
    python -m research.mechanisms write              # the tables and the pictures

Each run appends its result to research/records/mechanisms.jsonl.xz and is never repeated; one that was interrupted is.
Real data sets are found at --data, LIMELIGHT_DATA or ../shared/data; tasks without theirs are named and left out.
Times are processor seconds of one thread.
"""

import argparse
import time
import traceback
from pathlib import Path

import torch

from research.mechanisms import tasks
from research.mechanisms.jobs import missing, status
from research.mechanisms.latency import time_graphs
from research.mechanisms.page import picks, tables
from research.mechanisms.pictures import pictures, save
from research.mechanisms.results import FILE, Results
from research.mechanisms.summary import standings
from research.replication.tables import with_tables

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "latency", "status", "write"))
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--results", type=Path, default=FILE, help="the file of results")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no run after so many")
    parser.add_argument("--task", default="", help="only these, parted by commas")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.data:
        tasks.Folder.path = arguments.data
    for task in tasks.TASKS.values():
        if not tasks.present(task):
            print(f"left out: {task.name}, since {tasks.Folder.path / task.folder} is not here", flush=True)
    results = Results(arguments.results)
    only = set(filter(None, arguments.task.split(",")))
    match arguments.command:
        case "run":
            try:
                work(results, arguments.minutes, only)
            finally:
                results.pack()
        case "latency":
            for key, milliseconds in time_graphs(results):
                print(f"{key} · {milliseconds:.3f} ms", flush=True)
            results.pack()
        case "status":
            print("\n".join(status(results)))
        case "write":
            write(results)


def work(results: Results, minutes: float, only: set[str]) -> None:
    """Do what is missing, the most informative first; a run that fails is named, left out, and tried again next time.

    Raises: SystemExit at the end where any failed.
    """
    began, failed = time.monotonic(), set[str]()
    while job := next((each for each in missing(results, only) if each.name not in failed), None):
        if minutes and time.monotonic() - began > 60 * minutes:
            break
        try:
            row = job.do(results)
        except Exception:
            traceback.print_exc()
            failed.add(job.name)
        else:
            print(f"{job.name} · {row['accuracy']:.3f} · {row['cpu_seconds']} s", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(sorted(failed))}")


def write(results: Results) -> None:
    """Write the tables, that of advice on the page, and the pictures."""
    found = standings(results)
    page, record = DOCS / "mechanisms.md", DOCS / "records" / "mechanisms.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), {"picks": picks(found)}), encoding="utf-8")
    record.write_text(tables(found), encoding="utf-8")
    (DOCS / "pictures").mkdir(exist_ok=True)
    for name, picture in pictures(found).items():
        save(picture, DOCS / "pictures" / f"mechanisms-{name}.svg")


if __name__ == "__main__":
    main()
