"""Runs an ONNX file on random inputs of several sizes, to see what its outputs are."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from limelight_bundle.rows import tensor_descriptions
from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.random_inputs import RandomInputs, collate_rows
from limelight_export.importing.describe import ImportedCard
from limelight_export.importing.observed import Observed, observed_sizes
from limelight_export.importing.onnx_file.card_file import shape_of, unknown_input
from limelight_export.importing.onnx_file.file import OnnxFile
from limelight_export.importing.onnx_file.reference import FileSession, file_input, own_dtype
from limelight_export.interface import BATCH, input_specs


@dataclass(frozen=True)
class Run:
    """One run of a file: its inputs and outputs, by the file's names."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def observe(
    session: FileSession, imported: ImportedCard, inner: Collection[str]
) -> tuple[dict[str, Observed], tuple[Run, ...]]:
    """Run a file at several sizes.

    Args:
        inner: values inside the file that the session returns as well.
    Returns: every tensor that it returned, by name, and the runs.
    Raises:
        ExportError: the inputs of the card are not those of the file, or the file fails on them.
    """
    file = session.file
    check_inputs(file, imported)
    sizes = [*observed_sizes(imported.card)]
    if fixed := fixed_batch(file):
        sizes = [{**each, BATCH: fixed} for each in sizes]
    _check_ranges(session, imported, sizes[0])
    runs = []
    for each in sizes:
        tensors = collate_rows(imported.card, RandomInputs(imported.card).rows(each))
        given = {name: file_input(own, tensors[name], own_dtype(file, name)) for name, own in imported.inputs.items()}
        runs.append(Run(given, session.run(given)))
    specs = {spec.name: spec for spec in input_specs(imported.card)}
    symbols = {
        str(axis): str(own)
        for name in imported.inputs
        for axis, own in zip(specs[name].axes, file.inputs[name].axes, strict=False)
    }
    observed = {
        name: Observed(
            name,
            array.dtype,
            tuple(run.outputs[name].shape for run in runs),
            tuple(sizes),
            name in inner,
            file.outputs[name].axes if name in file.outputs else (),
            symbols,
        )
        for name, array in runs[0].outputs.items()
    }
    return observed, tuple(runs)


def _check_ranges(session: FileSession, imported: ImportedCard, sizes: Mapping[str, int]) -> None:
    """Run a file on the least and the largest whole number that each tensor is stated to take.

    Raises:
        ExportError: names the tensor whose limits are wrong, or the file fails on any input.
    """
    file, card = session.file, imported.card
    limited = [each for each in tensor_descriptions(card.description.inputs) if each.HasField("maximum")]
    if not limited:
        return
    tensors = collate_rows(card, RandomInputs(card).rows(sizes))
    for each in limited:
        tensors[each.name] = np.full_like(tensors[each.name], each.minimum)

    def run(changed: Mapping[str, Array]) -> None:
        given = {**tensors, **changed}
        session.run(
            {name: file_input(own, given[name], own_dtype(file, name)) for name, own in imported.inputs.items()}
        )

    run({})
    for each in limited:
        try:
            run({each.name: np.full_like(tensors[each.name], each.maximum)})
        except ExportError as error:
            raise ExportError(
                f"the tensor {each.name!r} takes up to {each.maximum} according to the card (or its tokenizer), on "
                f"which {file.path.name} fails"
            ) from error


def fixed_batch(file: OnnxFile) -> int:
    """Return the number of rows that a file takes; 0 for any number.

    Raises:
        ExportError: it takes several, always, or its inputs differ.
    """
    sizes = {each.axes[0] if each.axes else 0 for each in file.inputs.values()}
    fixed = {each for each in sizes if isinstance(each, int)}
    if not fixed:
        return 0
    if fixed != {1} or len(sizes) > 1:
        stated = ", ".join(f"{name} {shape_of(each)}" for name, each in file.inputs.items())
        raise ExportError(
            f"{file.path}: the first axis of every input must be the batch, of any size or of 1; the file has {stated}"
        )
    return 1


def check_inputs(file: OnnxFile, imported: ImportedCard) -> None:
    """Check the inputs of a card against those of its file.

    Raises:
        ExportError: names the input that is missing, unknown, or of another type or shape.
    """
    for name in imported.inputs:
        if name not in file.inputs:
            raise ExportError(unknown_input(name, file))
    for name, own in file.inputs.items():
        if name not in imported.inputs:
            raise ExportError(f"{file.path.name} takes {name!r} ({shape_of(own)}), which no input of the card states")
    specs = {spec.name: spec for spec in input_specs(imported.card)}
    for name, stated in imported.inputs.items():
        own, axes = file.inputs[name], specs[name].axes
        axes = (axes[0], axes[2], axes[3], axes[1]) if stated.channels_last else axes
        axes = tuple(axis for place, axis in enumerate(axes) if place not in stated.dropped)
        if len(own.axes) != len(axes):
            raise ExportError(
                f"{file.path.name} takes {name!r} as {shape_of(own)}, and the card states the axes {list(axes)}"
            )
        for place, (found, wanted) in enumerate(zip(own.axes[1:], axes[1:], strict=True), 1):
            if isinstance(found, int) and isinstance(wanted, str):
                raise ExportError(
                    f"axis {place} of {file.path.name}'s input {name!r} is always {found}, and the card says that it "
                    f"varies ({wanted}); export the file with a dynamic axis"
                )
            if isinstance(found, int) and found != wanted:
                raise ExportError(
                    f"axis {place} of {file.path.name}'s input {name!r} is always {found}, and the card states {wanted}"
                )
