"""Examples of an imported ONNX file: those of its card or of an .npz file, or inputs drawn at random."""

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from limelight.base.errors import InputError
from limelight.base.values import Image, to_instance
from limelight_bundle.rows import tensor_descriptions
from limelight_bundle.samples import Sample
from limelight_bundle.tolerance import Tolerances
from limelight_bundle.values import Array, Instance, TensorValue
from limelight_bundle.wire import DTYPES, instance_from_wire
from limelight_export.errors import ExportError
from limelight_export.execution.random_inputs import RandomInputs
from limelight_export.importing import cards
from limelight_export.importing.numbers import as_numbers
from limelight_export.interface import BATCH, max_sizes
from limelight_export.tracing.example_sizes import example_sizes
from limelight_export.verification.comparison import Comparison
from limelight_models.cards.card import Card

_DRAWN = 2


@dataclass(frozen=True)
class Example:
    """An input, and outputs that the file must give for it, by name."""

    instance: Instance
    outputs: Mapping[str, Array] = field(default_factory=dict)


def read_npz(path: Path, card: cards.Card, described: Card) -> list[Example]:
    """Read examples from an archive of arrays.

    Arrays have the names of inputs, outputs or maps, with the sample as first axis; or, where samples differ in size,
    one array a sample, `0/NAME`, `1/NAME`. Strings are texts.

    Raises:
        ExportError: the archive cannot be read, or names something else.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:  # a TypeError for a single array
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, EOFError, TypeError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ExportError(f"{path}: the samples are not a readable .npz file of arrays") from error
    samples: dict[int, dict[str, Array]] = {}
    for name, array in arrays.items():
        number, slash, rest = name.partition("/")
        if slash and number.isdigit():
            samples.setdefault(int(number), {})[rest] = array
        elif not array.ndim:
            raise ExportError(f"{path}: {name!r} is one value; its first axis counts the samples")
        else:
            for place, each in enumerate(array):
                samples.setdefault(place, {})[name] = each
    outputs = {each.name for each in described.description.outputs} | {each.name for each in described.description.maps}
    tensors = {each.name for each in tensor_descriptions(described.description.inputs)}
    found = []
    for number, sample in sorted(samples.items()):
        if unknown := sorted(set(sample) - outputs - tensors - set(card.inputs)):
            raise ExportError(f"{path}: {unknown[0]!r} is neither an input nor an output of the card")
        inputs = {name: array for name, array in sample.items() if name not in outputs}
        expected = {name: array for name, array in sample.items() if name in outputs}
        found.append(Example(_instance(card, described, inputs, Path(), f"{path}: sample {number}"), expected))
    return found


def read_stated(
    examples: Sequence[Mapping[str, Any]], card: cards.Card, described: Card, folder: Path
) -> list[Example]:
    """Read the examples of a card. folder: where the paths of their files begin."""
    return [
        Example(_instance(card, described, example, folder, f"examples[{number}]"))
        for number, example in enumerate(examples)
    ]


def drawn_examples(described: Card) -> list[Example]:
    """Draw inputs at random, as tensors."""
    sizes = example_sizes(max_sizes(described))
    rows = RandomInputs(described, seed=3).rows({**sizes, BATCH: _DRAWN})
    names = [each.name for each in tensor_descriptions(described.description.inputs)]
    return [Example({name: TensorValue(row.tensors[name]) for name in names}) for row in rows]


def check_given(examples: Sequence[Example], samples: Sequence[Sample], comparison: Comparison) -> None:
    """Compare the file's answers with those that were given. Raises ExportError where one differs."""
    allowed = Tolerances(comparison.tolerances, "CPUExecutionProvider")
    for number, (example, sample) in enumerate(zip(examples, samples, strict=True)):
        for name, expected in example.outputs.items():
            is_map = name in sample.maps
            actual = sample.maps[name].weights if is_map else sample.outputs[name]
            if expected.dtype.kind not in "biuf":
                raise ExportError(f"{name!r} of sample {number} holds {expected.dtype}, not numbers")
            wanted = np.asarray(expected, actual.dtype)
            if problem := allowed.difference(name, actual, wanted, is_map=is_map):
                raise ExportError(f"the file's answer to sample {number} differs from the given one: {problem}")


def _instance(card: cards.Card, described: Card, values: Mapping[str, Any], folder: Path, field: str) -> Instance:
    types = {each.name: DTYPES[each.data_type] for each in tensor_descriptions(described.description.inputs)}
    try:
        made = {name: _value(card.inputs.get(name), value, types.get(name), folder) for name, value in values.items()}
        return instance_from_wire(to_instance(made, field), (field,))
    except (InputError, TypeError, ValueError) as error:
        raise ExportError(f"{field}: {error}") from error
    except OSError as error:
        raise ExportError(f"{field}: {error.filename}: {error.strerror}") from error


def _value(stated: cards.Input | None, value: Any, dtype: "np.dtype[Any] | None", folder: Path) -> Any:
    """Return a value as a caller would send it."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        value = value.item() if value.ndim == 0 else value.tolist()
    match stated:
        case cards.Text(pair=True) if isinstance(value, list) and len(value) == 2:
            return tuple(value)
        case cards.Image() if isinstance(value, str):
            return folder / value
        case cards.Image() if isinstance(value, np.ndarray) and value.dtype == np.uint8:
            return Image(value)
    if isinstance(value, list | int | float | np.ndarray) and dtype is not None:
        return as_numbers(value, dtype)
    return value
