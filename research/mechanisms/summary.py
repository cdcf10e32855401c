"""Summaries of the results: one row a mechanism, and the standings of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from research.mechanisms.line import UNIFORM, Line, latency_key
from research.mechanisms.lines import of_task
from research.mechanisms.looks import ACTED
from research.mechanisms.results import Results, unpacked
from research.mechanisms.statistics import Effect, effect, holm, smallest_difference
from research.mechanisms.tasks import TASKS, Task

OF_FORM = {"aer": "writing", "facts": "story"}  # figures that say something of one kind of task alone
LEARNED = 0.5  # of all examples: what nothing reaches was not learned
SOLVED = 0.8  # of what the best mechanism has right: below the seeds that learned a task, above those that did not
FIGURES = ("share", "even", "aer", "facts", "entropy", "longer", "permuted", "step_ms", "kept_mb", "acted")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A mechanism on a task: means over its seeds. figures: those that were measured, by name.

    right: bool by seed. beside_uniform, beside_plain: differences to the control and to the plain mechanism on the
    seeds that both have, with p-values that are corrected within the task; None for those two themselves, or where
    there is nothing to compare with. latency: milliseconds of the exported graph. runs: as they were filed, by seed.
    """

    line: Line
    right: Mapping[int, np.ndarray]
    accuracy: float
    deviation: float
    figures: Mapping[str, float]
    parameters: int
    latency: float | None
    runs: Sequence[Mapping[str, Any]]
    beside_uniform: tuple[Effect, float] | None = None
    beside_plain: tuple[Effect, float] | None = None

    @property
    def name(self) -> str:
        """The mechanism's."""
        return self.line.name

    @property
    def idle(self) -> bool:
        """Whether its idea was not seen to act."""
        return self.figures.get("acted", 1.0) < ACTED


@dataclass(frozen=True)
class Standings:
    """A task: rows in their order, the controls first. smallest: the difference that could have been found."""

    task: Task
    rows: tuple[Row, ...]
    smallest: float

    def row(self, name: str) -> Row | None:
        """A row by the mechanism's name."""
        return next((each for each in self.rows if each.name == name), None)

    @property
    def mechanisms(self) -> list[Row]:
        """Those that are no control, and whose idea acted."""
        return [each for each in self.rows if not each.line.control and not each.idle]

    @property
    def best(self) -> Row:
        """The mechanism with most right answers."""
        return max(self.mechanisms, key=lambda each: each.accuracy)

    @property
    def learned(self) -> bool:
        """Whether anything, the controls included, answers half of the examples."""
        return max(row.accuracy for row in self.rows if not row.idle) >= LEARNED

    def solved(self, row: Row) -> int:
        """The seeds with which a row has at least 80 % of what the best mechanism has right in the mean."""
        return sum(float(right.mean()) >= SOLVED * self.best.accuracy for right in row.right.values())


def beats(one: Row, other: Row, by: float = 0.0) -> bool:
    """Whether the interval of their difference lies above so much."""
    found = compared(one, other)
    return found is not None and found.low > by


def compared(one: Row, other: Row) -> Effect | None:
    """The difference of two rows on the seeds that both have."""
    seeds = sorted(set(one.right) & set(other.right))
    if not seeds:
        return None
    return effect(np.stack([one.right[seed] for seed in seeds]), np.stack([other.right[seed] for seed in seeds]))


def standings(results: Results) -> list[Standings]:
    """Every task that has results of its plain mechanism or more."""
    return [found for task in TASKS.values() if (found := standing(task, results))]


def standing(task: Task, results: Results) -> Standings | None:
    """Sum up a task; None where no mechanism has a result."""
    rows = [row for line in of_task(task.name) if (row := row_of(line, results))]
    if all(row.line.control or row.idle for row in rows):
        return None
    by_name = {row.name: row for row in rows}
    uniform = beside(rows, by_name.get(UNIFORM), {UNIFORM})
    plain = beside(rows, by_name.get(task.plain), {UNIFORM, task.plain})
    found = tuple(replace(row, beside_uniform=uniform.get(row.name), beside_plain=plain.get(row.name)) for row in rows)
    effects = [each for each, _ in (*plain.values(), *uniform.values())]
    return Standings(task, found, smallest_difference(effects) if effects else float("nan"))


def beside(rows: Sequence[Row], other: Row | None, without: set[str]) -> dict[str, tuple[Effect, float]]:
    """Rows against one of them, with p-values corrected for how many are compared."""
    if other is None:
        return {}
    found = {row.name: each for row in rows if row.name not in without and (each := compared(row, other))}
    corrected = holm([each.p for each in found.values()])
    return {name: (each, p) for (name, each), p in zip(found.items(), corrected, strict=True)}


def row_of(line: Line, results: Results) -> Row | None:
    """Means over the seeds of one line; None where it has none. Only runs of the latest data count."""
    runs = list(results.of("run", line.key))
    if not runs:
        return None
    latest = results.latest(line.task)
    runs = [run for run in runs if run["of"] == latest]
    if not runs:
        return None
    form = TASKS[line.task].form
    known = [name for name in FIGURES if OF_FORM.get(name, form) == form and all(name in run for run in runs)]
    accuracies = [run["accuracy"] for run in runs]
    timed: dict[str, Any] = (results.row("latency", latency_key(line)) if line.latency else None) or {}
    return Row(
        line=line,
        right={run["seed"]: unpacked(run["right"], run["examples"]) for run in runs},
        accuracy=fmean(accuracies),
        deviation=stdev(accuracies) if len(runs) > 1 else float("nan"),
        figures={name: fmean(run[name] for run in runs) for name in known},
        parameters=runs[0]["parameters"],
        latency=timed.get("ms"),
        runs=runs,
    )
