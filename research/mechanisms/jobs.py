"""The runs of the study, the most informative first: every mechanism with one seed, task by task, then more seeds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.tables import table
from research.mechanisms.line import Line
from research.mechanisms.lines import lines
from research.mechanisms.results import Results
from research.mechanisms.run import run
from research.mechanisms.tasks import TASKS, load, present


@dataclass(frozen=True)
class Job:
    """A run to come: its rates are tried with the first seed, and the one that the dev part chose is kept."""

    line: Line
    seed: int

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.line.key} · seed {self.seed}"

    def do(self, results: Results) -> Mapping[str, Any]:
        """Run it and file the result."""
        first = results.row("run", self.line.key, 0)
        rates = (first["rate"],) if self.seed and first else TASKS[self.line.task].rates
        row = run(self.line, self.seed, rates)
        results.add("run", self.line.key, self.seed, **row)
        return row


def planned() -> Iterator[Job]:
    """Every run of the study."""
    for seed in range(max(task.seeds for task in TASKS.values())):
        yield from (Job(line, seed) for line in lines() if seed < TASKS[line.task].seeds)


def missing(results: Results, only: set[str]) -> Iterator[Job]:
    """Jobs without a result, of the tasks whose data are here; `only`: of these, where any are named."""
    for job in planned():
        wanted = not only or job.line.task in only
        if wanted and present(TASKS[job.line.task]) and not counts(results.row("run", job.line.key, job.seed), job):
            yield job


def counts(row: Mapping[str, Any] | None, job: Job) -> bool:
    """Whether there is a result, of the data that the task has now."""
    return row is not None and row["of"] == load(job.line.task).of


def status(results: Results) -> list[str]:
    """Number of runs of each task, and their cost."""
    rows = []
    for task in TASKS.values():
        jobs = [job for job in planned() if job.line.task == task.name]
        done = [row for job in jobs if (row := results.row("run", job.line.key, job.seed))]
        minutes = sum(row["cpu_seconds"] for row in done) / 60
        rows.append([task.name, f"{len(done)}", f"{len(jobs)}", f"{minutes:.1f}"])
    return table(["task", "runs", "of", "processor minutes"], rows)
