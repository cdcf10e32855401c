"""Results and raw outputs of a card, checked against the tensors that they are read from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.wire import data_type_name, data_type_of
from limelight_export.errors import ExportError
from limelight_export.importing import cards
from limelight_export.importing.inputs import ImportedInput
from limelight_export.importing.label_sets import axis_of, find_labels
from limelight_export.importing.observed import Observed, find_observed, listed, shape_at
from limelight_export.interface import BATCH, Axes
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.results import Boxes, Classes, Numbers, Result, Vector


def imported_result(
    name: str,
    stated: cards.Result,
    observed: Mapping[str, Observed],
    free: Sequence[str],
    known: Mapping[str, LabelSet],
) -> Result:
    """Return a result of a card.

    Raises:
        ExportError: its output is missing, ambiguous, or has another type or shape.
    """
    where = f"the card's result {name!r}"
    if not isinstance(stated, cards.Result):
        raise ExportError(f"{where} is {stated!r}; it is Classes, Numbers, an Embedding or Boxes")
    if not stated.output and len(free) != 1:
        raise ExportError(f"{where} must name its output: the model returns {listed(free)}")
    tensor = find_observed(observed, stated.output or free[0], where)
    axes = _output_axes(tensor)
    match stated:
        case cards.Classes():
            over = find_labels(known, stated.over, where) if stated.over else None
            wanted: Axes = (BATCH, *([axis_of(over)] if over else []), len(stated.labels))
            made: Result = Classes(
                name=name,
                scores=tensor.name,
                labels=stated.labels,
                activation=stated.activation,
                over=over,
            )
            what = f"scores of {len(stated.labels)} classes"
        case cards.Numbers():
            wanted, what = (BATCH, len(stated.units)), f"{len(stated.units)} numbers"
            made = Numbers(name=name, values=tensor.name, targets=stated.units)
        case cards.Embedding():
            size = axes[-1] if len(axes) == 2 and isinstance(axes[-1], int) else 0
            wanted, what = (BATCH, size), "a vector of one size"
            made = Vector(name=name, vector=tensor.name, size=size, summary="")
        case cards.Boxes():
            queries, grid = (find_labels(known, each, where) for each in (stated.over, stated.grid))
            if not 0 <= stated.threshold <= 1:
                raise ExportError(f"{where} has the threshold {stated.threshold:g}; it is from 0 to 1")
            if grid.grid is None:
                raise ExportError(f"{where} names the label set {stated.grid!r}, which is not the cells of a picture")
            wanted, what = (BATCH, axis_of(queries), len(stated.labels) + 1), "scores of the classes and of no object"
            _check_axes(where, "boxes", (BATCH, axis_of(queries), 4), find_observed(observed, stated.boxes, where))
            made = Boxes(
                name=name,
                labels=stated.labels,
                over=queries,
                grid=grid,
                scores=tensor.name,
                boxes=stated.boxes,
                threshold=stated.threshold,
            )
    _check_axes(where, what, wanted, tensor)
    return made


def _check_axes(where: str, what: str, wanted: Axes, tensor: Observed) -> None:
    """Check the axes and the type of an output that a result is read from. Raises ExportError."""
    axes = _output_axes(tensor)
    if axes != wanted:
        raise ExportError(
            f"{where} reads {what}, {axes_of(wanted)}, from the output {tensor.name!r}, which is {axes_of(axes)}: "
            f"it has the shape {shape_at(tensor)}"
        )
    if not np.issubdtype(tensor.dtype, np.floating):
        raise ExportError(f"{where} reads the output {tensor.name!r}, which holds {tensor.dtype}, not floating point")


def raw_output(tensor: Observed, inputs: Sequence[ImportedInput]) -> model_pb2.OutputDescription:
    """Describe an output that callers get as a tensor. Raises ExportError where no input decides an axis of it."""
    varying = {axis for owner in inputs for each in owner.tensors for axis in each.varying}
    axes = _output_axes(tensor)
    for place, axis in enumerate(axes[1:], 1):
        if isinstance(axis, str) and axis not in varying:
            raise ExportError(
                f"axis {place} of the output {tensor.name!r} varies, but follows no axis of an input; leave it out of "
                f"the card's outputs: it has the shape {shape_at(tensor)}"
            )
    try:
        data_type = data_type_of(np.empty(0, _stored(tensor.dtype)))
    except KeyError as error:
        held = "texts" if tensor.dtype == object else tensor.dtype
        raise ExportError(
            f"the output {tensor.name!r} holds {held}, which no answer can hold; leave it out of the card's outputs"
        ) from error
    return model_pb2.OutputDescription(
        name=tensor.name,
        data_type=data_type,
        dimensions=[
            model_pb2.Dimension(name=axis)
            if isinstance(axis, str)
            else model_pb2.Dimension(name=f"axis_{place}", size=axis)
            for place, axis in enumerate(axes[1:], 1)
        ],
        summary=f"{data_type_name(data_type)}, as the model returns it.",
    )


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which an output is kept: floating point as float32, for results and maps alike."""
    return np.dtype(np.float32) if np.issubdtype(dtype, np.floating) else dtype


def _output_axes(tensor: Observed) -> Axes:
    axes = tensor.axes
    if not axes or axes[0] != BATCH:
        raise ExportError(
            f"the first axis of the output {tensor.name!r} is not the batch: it has the shape {shape_at(tensor)}"
        )
    return axes


def axes_of(axes: Axes) -> str:
    return f"[{', '.join(map(str, axes))}]"
