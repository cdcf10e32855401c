"""`limelight evaluate`: measures of the attention of a served model."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from limelight.base.commands import CommandError
from limelight.base.counts import counted
from limelight.base.streams import show_progress
from limelight.cli import options
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.evaluate.data import read_data
from limelight.cli.evaluate.page import page
from limelight.cli.evaluate.table import lines
from limelight.evaluation.measures import ALL
from limelight.evaluation.measures.measure import Measure
from limelight.evaluation.running import evaluate as evaluate_model
from limelight.files import write_file

_PAUSE = 0.25  # seconds between progress lines

DataFile = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FILE",
        help="Rows with inputs by name, expected answers and evidence: .jsonl, .csv, .tsv or .parquet.",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        help="Column of expected answers. [default: label, expected, answer or target, where it is no input]",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Evaluate so many rows, drawn by --seed; 0 for all.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the drawn rows, and of random choices.")]
Measures = Annotated[
    list[str] | None,
    typer.Option("--measure", metavar="NAME", help=f"Only this: {', '.join(each.name for each in ALL)}. Repeatable."),
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Calls at the same time.")]
JsonFile = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the report as JSON.")]
HtmlFile = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report as a page.")]


@with_connection_options
def evaluate(
    connection: Connection,
    model: options.ModelName,
    data: DataFile,
    label: Label = None,
    limit: Limit = 100,
    seed: Seed = 0,
    maps: options.Maps = None,
    measures: Measures = None,
    concurrency: Concurrency = 4,
    out: JsonFile = None,
    html: HtmlFile = None,
    version: options.Version = 0,
) -> int | None:
    """Measure what a model's attention is worth: `limelight evaluate slips --data slips.jsonl`

    Asks the server for the rows of a file, changes their attention and their words, and prints figures with 95 %
    bootstrap intervals. What cannot be measured is named with the reason. The exit status is 1 if rows have errors.
    """
    chosen = _chosen(measures or ())
    for file in (out, html):
        if file is not None and not file.absolute().parent.is_dir():
            raise CommandError(f"{file}: there is no folder {file.parent}", status=2)
    with connection.client() as client:
        description = client.model(model, version)
        if description.status.state != "ready":
            raise CommandError(f"model {model!r} is not ready: {description.status.reason or 'it is loading'}")
        rows = read_data(data, description, label=label, limit=limit, seed=seed)
        shown = _Progress(model)
        try:
            report = evaluate_model(
                client,
                description,
                rows,
                maps=maps or (),
                measures=chosen,
                seed=seed,
                concurrency=concurrency,
                progress=shown,
            )
        finally:
            shown.end()
    print("\n".join(lines(report)))
    if out is not None:
        write_file(out, json.dumps(report.to_dict(), indent=1, allow_nan=False) + "\n")
    if html is not None:
        write_file(html, page(report))
    return 1 if report.failures or report.stopped else None


def _chosen(names: list[str] | tuple[str, ...]) -> tuple[Measure, ...]:
    known = {each.name: each for each in ALL}
    for name in names:
        if name not in known:
            raise CommandError(f"--measure: there is no measure {name!r}; there are {', '.join(known)}", status=2)
    return tuple(each for each in ALL if not names or each.name in names)


class _Progress:
    """A line on standard error, rewritten in place while it is a terminal."""

    def __init__(self, model: str) -> None:
        self._model, self._start, self._shown = model, time.monotonic(), 0.0

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._shown > _PAUSE:
            self._shown = time.monotonic()
            show_progress(f"{self._model}: {done} of {counted(total, 'row')}, {self._shown - self._start:.0f} s")

    def end(self) -> None:
        """Remove the line."""
        show_progress("")
