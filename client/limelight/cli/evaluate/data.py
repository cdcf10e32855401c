"""The rows of a file with expected answers and evidence, sampled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from limelight.base.commands import CommandError
from limelight.base.errors import InputError
from limelight.cli.input_rows import instance_of, rows
from limelight.descriptions import Model
from limelight.evaluation.report import Failure
from limelight.evaluation.rows import Row, read_evidence
from limelight.evaluation.running import Data

LABELS = ("label", "expected", "answer", "target")
EVIDENCE = "evidence"


def read_data(file: Path, model: Model, *, label: str | None, limit: int, seed: int) -> Data:
    """Read rows, and draw at most `limit` of them by a seed; they stay in the order of the file.

    Args:
        label: name of the column of expected answers; None for the first of `LABELS` that is no input of the model.
    Raises:
        CommandError: no file of rows, no row that can be sent, or no such column.
        OSError: the file cannot be read.
    """
    found = list(rows(file, model))
    if not found:
        raise CommandError(f"{file} has no rows")
    names = [each for each in LABELS if each not in {one.name for one in model.inputs}] if label is None else [label]
    if label is not None and not any(isinstance(row, Mapping) and label in row for _, row in found):
        raise CommandError(f"--label: no row of {file} has {label!r}", status=2)
    drawn = found
    if limit and limit < len(found):
        places = np.random.default_rng(seed).choice(len(found), limit, replace=False)
        drawn = [found[place] for place in sorted(places.tolist())]
    read, failures = list[Row](), list[Failure]()
    for number, values in drawn:
        try:
            read.append(_row(number, values, model, file.parent, names))
        except (InputError, OSError, TypeError) as error:
            failures.append(Failure(number, "INVALID_ARGUMENT", str(error)))
    if not read:
        raise CommandError(f"{file}: no row can be sent; line {failures[0].line}: {failures[0].message}")
    _check_labels(file, read, model)
    return Data(file.name, tuple(read), tuple(failures), len(found))


def _row(number: int, values: Any, model: Model, folder: Path, labels: list[str]) -> Row:
    instance = instance_of(values, model, folder)
    if not isinstance(values, Mapping):
        return Row(number, instance, None)
    label = next((values[name] for name in labels if values.get(name) is not None), None)
    evidence = values.get(EVIDENCE)
    if isinstance(evidence, str) and evidence:  # in a table
        try:
            evidence = json.loads(evidence)
        except ValueError as error:
            raise InputError(f"evidence is not JSON: {error}") from error
    if label is not None and not isinstance(label, str | int):
        raise InputError(f"the expected answer is a text or a whole number, not {type(label).__name__}")
    return Row(number, instance, None if label is None else str(label), read_evidence(evidence, model, instance))


def _check_labels(file: Path, read: list[Row], model: Model) -> None:
    """Refuse expected answers of which the model has none."""
    expected = {row.expected for row in read if row.expected is not None}
    if model.task == "classification" and expected and model.classes and not expected & set(model.classes):
        known = ", ".join(map(repr, model.classes[:6])) + (", …" if len(model.classes) > 6 else "")
        example = repr(min(expected))
        raise CommandError(f"{file}: no expected answer, such as {example}, is a class of {model.name!r}: {known}")
