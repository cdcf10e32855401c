"""Runs measures over rows, some rows at a time, so that maps of few rows are in memory."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import numpy as np

from limelight.base.errors import Error
from limelight.base.version import version
from limelight.client import Client
from limelight.descriptions import Model
from limelight.evaluation.asking import Asking
from limelight.evaluation.measures import ALL
from limelight.evaluation.measures.measure import Measure, Seen, Setting, Work
from limelight.evaluation.replies import COMPARED, Reply, read_reply
from limelight.evaluation.report import Failure, Report, Section
from limelight.evaluation.rows import Row
from limelight.evaluation.samples import Curve, Figure, Samples, defined
from limelight.figures import parent_maps

ROWS = 16  # whose maps are in memory

Progress = Callable[[int, int], object]
"""Told the number of rows that are done, and of all."""


@dataclass(frozen=True)
class Data:
    """Rows of a file. total: the number of rows that they were drawn from, unreadable ones included."""

    name: str
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]
    total: int


def evaluate(
    client: Client,
    model: Model,
    data: Data,
    *,
    maps: Sequence[str] = (),
    measures: Sequence[Measure] = ALL,
    seed: int = 0,
    concurrency: int = 4,
    progress: Progress = lambda done, total: None,
) -> Report:
    """Ask a served model for rows, and report its figures.

    Args:
        maps: globs of the maps to measure; all by default. Maps with signed weights are left out.
        seed: of permutations and random choices.
        concurrency: number of calls at the same time.
    Raises:
        Error: no row can be answered.
    """
    began, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    setting = Setting(
        model,
        tuple(each for each in model.maps if not each.signed and _matches(each.name, maps)),
        has_labels=any(row.expected is not None for row in data.rows),
        has_evidence=any(row.evidence for row in data.rows),
    )
    work = Work(setting, Asking(client, model, concurrency), Samples(), np.random.default_rng(seed))
    lacking = {each.name: each.lacks(setting) for each in measures}
    computed = [each for each in measures if not lacking[each.name]]
    failures, stopped = list(data.failures), ""
    progress(0, len(data.rows))
    for begin in range(0, len(data.rows), ROWS):
        part = data.rows[begin : begin + ROWS]
        try:
            seen = _answered(part, work, failures)
            if any(each.changes for each in computed):
                seen = _with_probabilities(seen, work)
            for each in computed:
                each.add(seen, work)
        except Error as error:
            if not work.seen:
                raise
            stopped = f"{error.code.name}: {error.message}"
            break
        work.seen += [(each.row, each.reply) for each in seen]
        progress(begin + len(part), len(data.rows))
    sections = []
    for measure in measures:
        figures, curves = tuple[Figure, ...](), tuple[Curve, ...]()
        if not lacking[measure.name]:
            try:
                found, drawn = measure.finish(work)
                figures, curves = tuple(defined(found)), tuple(drawn)
            except Error as error:
                stopped = stopped or f"{error.code.name}: {error.message}"
                lacking[measure.name] = f"the server stopped answering ({error.code.name})"
        reason = lacking[measure.name] or ("" if figures else "no row has a value")
        sections.append(Section(measure.name, measure.title, measure.source, measure.summary, reason, figures, curves))
    failures += [_failure(number, error) for number, error in work.failures]
    return Report(
        started=started,
        client=version(),
        model=model.name,
        version=model.version,
        bundle_digest=model.bundle_digest,
        task=model.task,
        data=data.name,
        seed=seed,
        rows=data.total,
        sampled=len(data.rows) + len(data.failures),
        answered=len(work.seen),
        seconds=round(time.monotonic() - began, 3),
        stopped=stopped,
        sections=tuple(sections),
        failures=tuple(failures),
    )


def _matches(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(name, each) for each in globs)


def _answered(rows: Sequence[Row], work: Work, failures: list[Failure]) -> list[Seen]:
    """Return the answered rows, with maps if any is measured."""
    names = [each.name for each in work.setting.maps]
    maps = [*names, *parent_maps(work.setting.model, names)]
    answers = work.asking.attend([row.instance for row in rows], maps)
    seen = []
    for row, answer in zip(rows, answers, strict=True):
        if isinstance(answer, Error):
            failures.append(_failure(row.number, answer))
        else:
            compared = work.setting.model.task in COMPARED
            reply = read_reply(work.setting.model, answer.prediction) if compared else Reply("", float("nan"), None)
            seen.append(Seen(row, reply, answer))
    return seen


def _with_probabilities(rows: Sequence[Seen], work: Work) -> list[Seen]:
    """Give texts the probabilities that they have when they are put out again, as those of changed instances are."""
    if not work.setting.forces:
        return list(rows)
    replies = work.forced([(each, each.row.instance) for each in rows])
    return [
        each if reply is None else replace(each, reply=replace(reply, text=each.reply.text))
        for each, reply in zip(rows, replies, strict=True)
    ]


def _failure(number: int, error: Error) -> Failure:
    return Failure(number, error.code.name, error.message)
