"""Answers for a file of instances, into a file: in order, and resumed where an earlier run ended."""

import json
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from limelight.attended import Attended
from limelight.base.commands import CommandError
from limelight.base.errors import Error, InputError
from limelight.base.streams import show_progress
from limelight.cli.input_rows import instances, needed
from limelight.descriptions import Model
from limelight.predictions import Prediction
from limelight.v1 import values_pb2

Answer: TypeAlias = Prediction | Attended | Error
Answering: TypeAlias = Callable[[Iterable[values_pb2.Instance]], Iterable[Answer]]
"""`predict_many` or `attend_many` of a client."""

_ENDINGS = (".jsonl", ".parquet")
_PATH = re.compile(r"(?:instances\[\d+\]|line)\.")
_PAUSE = 0.25  # seconds between progress lines
_NUMBERS = 10  # failed lines that the summary names
_ROWS = 1000  # of a Parquet file that are written at once
_COLUMNS = ("label", "probability", "text")


def answer_file(file: Path, out: Path | None, model: Model, answering: Answering) -> int:
    """Write an answer for each row of a file, and return the exit status: 1 if rows failed.

    A line of the output is `{"line": number, …}` with what `--json` prints, or with `error`. A Parquet file has the
    columns line, label, probability, text, error, and answer, which is that JSON; until it is complete, the lines are
    in a file beside it.

    Args:
        out: a file of JSON lines or a Parquet file; None for JSON lines on standard output.
    Raises:
        CommandError: a file that cannot be written, or holds the answers of something else.
        Error: no call can be answered; what was written stays.
    """
    if out is None:
        return _answer(file, sys.stdout, model, answering, _Counts())
    if out.suffix.lower() not in _ENDINGS:
        raise CommandError(f"--out: {out} ends with none of {', '.join(_ENDINGS)}", status=2)
    is_parquet = out.suffix.lower() == ".parquet"
    if is_parquet:
        needed("pyarrow.parquet", "a Parquet file")  # refuse before anything is computed
        if out.exists():
            raise CommandError(f"{out} exists; remove it to compute its answers again")
    lines = out.with_name(f"{out.name}.jsonl") if is_parquet else out
    try:
        lines.parent.mkdir(parents=True, exist_ok=True)
        counts = _resumed(lines, model.name)
        with lines.open("a", encoding="utf-8") as written:
            status = _answer(file, written, model, answering, counts)
        if is_parquet:
            _write_parquet(lines, out)
            lines.unlink()
    except OSError as error:
        raise CommandError(f"{error.filename or out}: {error.strerror}") from error
    return status


class _Counts:
    """Counts of answered instances, and the progress line that prints them."""

    def __init__(self, last: int = 0) -> None:
        self.last = last
        """The last line that an earlier run answered."""
        self.answers = 0
        self.failed: list[int] = []
        self._start = self._shown = time.monotonic()

    def add(self, number: int, *, failed: bool) -> None:
        self.answers += 1
        if failed:
            self.failed.append(number)
        if sys.stderr.isatty() and time.monotonic() - self._shown > _PAUSE:
            self._shown = time.monotonic()
            show_progress(str(self))

    def show(self, line: str) -> None:
        """Write a line to standard error, in place of the progress line of a terminal."""
        show_progress("")
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self._start, 1e-9)
        said = f"{self.answers:,} answers in {seconds:.1f} s ({self.answers / seconds:,.1f}/s)"
        if self.last:
            said += f", after the {self.last:,} lines of an earlier run"
        if self.failed:
            named = ", ".join(map(str, self.failed[:_NUMBERS])) + (", …" if len(self.failed) > _NUMBERS else "")
            said += f"; {len(self.failed):,} failed: line{'s' * (len(self.failed) > 1)} {named}"
        return said


def _answer(file: Path, written: IO[str], model: Model, answering: Answering, counts: _Counts) -> int:
    read: deque[tuple[int, Error | None]] = deque()

    def sent() -> Iterator[values_pb2.Instance]:
        for number, instance in instances(file, model, after=counts.last):
            if isinstance(instance, InputError):
                read.append((number, instance))
            else:
                read.append((number, None))
                yield instance

    def write(number: int, answer: Answer) -> None:
        failed = isinstance(answer, Error)
        document = {"error": _described(answer)} if isinstance(answer, Error) else answer.to_dict()
        print(json.dumps({"line": number, **document}), file=written, flush=True)
        counts.add(number, failed=failed)

    def write_unsent() -> None:
        while read and (refused := read[0][1]) is not None:
            write(read.popleft()[0], refused)

    try:
        for answer in answering(sent()):
            write_unsent()
            write(read.popleft()[0], answer)
        write_unsent()
    except BaseException:
        if counts.answers:
            counts.show(f"{counts}; the same command goes on from there")
        raise
    counts.show(str(counts))
    return 1 if counts.failed else 0


def _described(error: Error) -> dict[str, Any]:
    """Describe an error without the place of the instance in its call."""
    field = error.field and _PATH.sub("", error.field)
    return {"code": error.code.name, "message": _PATH.sub("", error.message), "field": field}


def _resumed(lines: Path, model: str) -> _Counts:
    """Find the last answered line, and remove a line that an interrupted run has not finished.

    Raises:
        CommandError: the file holds something else, or the answers of another model.
    """
    if not lines.exists():
        return _Counts()
    last, end = 0, 0
    with lines.open("r+b") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            try:
                document = json.loads(line)
                last = int(document["line"])
                made_by = document.get("prediction", document).get("provenance", {}).get("model", model)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise CommandError(f"{lines} is there and holds no answers: choose another --out") from None
            if made_by != model:
                raise CommandError(f"{lines} holds answers of model {made_by!r}: choose another --out")
            end += len(line)
        file.truncate(end)
    return _Counts(last)


def _write_parquet(lines: Path, out: Path) -> None:
    pyarrow, parquet = needed("pyarrow", "a Parquet file"), needed("pyarrow.parquet", "a Parquet file")
    texts = {name: pyarrow.string() for name in ("label", "text", "error", "answer")}
    schema = pyarrow.schema({"line": pyarrow.int64(), "probability": pyarrow.float64(), **texts})
    beside = out.with_name(f".{out.name}")
    try:
        with lines.open(encoding="utf-8") as file, parquet.ParquetWriter(beside, schema) as writer:
            table: list[dict[str, Any]] = []
            for line in file:
                document = json.loads(line)
                said = document.get("prediction", document)
                row = {"line": document["line"], **{name: said.get(name) for name in _COLUMNS}}
                error = document.get("error")
                table.append(
                    {**row, "error": error and error["message"], "answer": None if error else line.rstrip("\n")}
                )
                if len(table) == _ROWS:
                    writer.write_table(pyarrow.Table.from_pylist(table, schema))
                    table = []
            writer.write_table(pyarrow.Table.from_pylist(table, schema))
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
