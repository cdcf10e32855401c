"""Inspection of an ONNX file: what goes in, what comes out, what of it looks like attention; and a first card."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.random_inputs import RandomInputs, collate_rows
from limelight_export.importing import cards
from limelight_export.importing.describe import ImportedCard, card_of_inputs
from limelight_export.importing.maps import guess_map
from limelight_export.importing.observed import Observed
from limelight_export.importing.onnx_file.card_writer import write_card
from limelight_export.importing.onnx_file.file import FileTensor, OnnxFile, read_onnx, vocabulary_of
from limelight_export.importing.onnx_file.importing import map_names
from limelight_export.importing.onnx_file.observing import fixed_batch, observe
from limelight_export.importing.onnx_file.reference import FileSession, file_input, own_dtype
from limelight_export.importing.onnx_file.weighing import WeighedValues
from limelight_export.interface import BATCH, Axes, max_sizes
from limelight_export.tracing.example_sizes import example_sizes

_ROUNDING = 1e-3
# The sums of rows of a uniform tensor of such a size would be a coincidence.
_LEAST_KEYS = 2


@dataclass(frozen=True)
class Weights:
    """A tensor that weighs values in the graph, and whose rows summed to 1 when it was run.

    Attributes:
        axes: the name of the axis that each follows, or its size.
        is_inner: whether it is inside the file, and can be exposed.
        map: what it would be as a map of the card; None where its axes are not clear.
    """

    name: str
    axes: Axes
    is_inner: bool
    map: cards.Map | None


@dataclass(frozen=True)
class Inspection:
    """Facts about an ONNX file.

    Attributes:
        outputs: of each output the axes that were seen.
        weights: outputs that look like attention, then Softmax outputs inside.
        others: other tensors whose rows sum to 1, and other Softmax nodes inside.
        card: a first card, in TOML.
        problem: why the file could not be run on random inputs; empty if it was.
    """

    file: OnnxFile
    outputs: Mapping[str, Axes]
    weights: tuple[Weights, ...]
    others: tuple[str, ...]
    card: str
    problem: str


def inspect_onnx(path: Path) -> Inspection:
    """Inspect an ONNX file: run it on random inputs of several sizes.

    Raises:
        ExportError: the file cannot be read, or ONNX Runtime cannot load it.
    """
    file = read_onnx(path)
    inner = [value for value in file.softmaxes if value not in file.outputs]
    session = FileSession(file, inner)
    card = _draft(file)
    try:
        card = _with_mask_polarity(session, card)
        observed, runs = observe(session, card_of_inputs(card), inner)
    except ExportError as error:
        outputs = {name: each.axes for name, each in file.outputs.items()}
        return Inspection(file, outputs, (), tuple(inner), write_card(card, file), error.message)
    normalised = [name for name in observed if all(_sums_to_one(observed[name], run.outputs[name]) for run in runs)]
    weighed = WeighedValues(file.model.graph)
    found = [name for name in normalised if weighed.weighs(name)]
    card = _with_labels(card, [observed[name] for name in found])
    weights = tuple(
        Weights(name, observed[name].axes, name in inner, guess_map(card, observed[name])) for name in found
    )
    names = map_names(each.name for each in weights)
    card = replace(
        card,
        maps={names[each.name]: each.map for each in weights if each.map is not None},
        outputs=[
            name
            for name in file.outputs
            if name not in found and name not in file.inputs and _can_be_sent(observed[name])
        ],
    )
    return Inspection(
        file,
        {name: observed[name].axes for name in file.outputs},
        tuple(sorted(weights, key=lambda each: each.is_inner)),
        tuple(name for name in dict.fromkeys([*normalised, *inner]) if name not in found),
        write_card(card, file),
        "",
    )


def _can_be_sent(tensor: Observed) -> bool:
    """Tell whether it holds numbers of each row, and every axis that varies follows one of an input."""
    is_of_rows = tensor.axes[:1] == (BATCH,) and tensor.dtype != object
    return is_of_rows and all(isinstance(axis, int) or axis in tensor.sizes[0] for axis in tensor.axes)


def _sums_to_one(tensor: Observed, array: Array) -> bool:
    """Tell whether rows sum to 1 (or 0), and whether there may be several of them."""
    if not np.issubdtype(array.dtype, np.floating) or array.ndim < 2 or array.shape[-1] < _LEAST_KEYS or not array.size:
        return False
    if array.ndim == 2 and isinstance(tensor.axes[-1], int):
        return False  # probabilities of classes
    totals = array.astype(np.float64).sum(-1)
    rows = np.minimum(np.abs(totals - 1), np.abs(totals))
    return bool(array.min() >= 0 and rows.max() < _ROUNDING and np.abs(totals - 1).min() < _ROUNDING)


def _draft(file: OnnxFile) -> cards.Card:
    """Guess the inputs of a card from names, types and axes."""
    masks = dict(_masks(file))
    inputs: dict[str, cards.Input] = {}
    for name, own in file.inputs.items():
        if name in masks.values():
            continue
        inputs[name] = _image(own) or _tensor(file, own, masks.get(name, ""))
    return cards.Card(name=_model_name(file.path.stem), inputs=inputs, batch=False if fixed_batch(file) else None)


def _masks(file: OnnxFile) -> Iterator[tuple[str, str]]:
    """Yield pairs of a tensor and its mask: an input of the same axes with `mask` or `padding` in its name."""
    for name, own in file.inputs.items():
        if not _is_mask(name):
            continue
        for other, tensor in file.inputs.items():
            varying = tuple(axis for axis in tensor.axes[1:] if isinstance(axis, str))
            is_masked = len(varying) == 1 and own.axes == (tensor.axes[0], *varying)
            if other != name and not _is_mask(other) and is_masked:
                yield other, name
                break


def _is_mask(name: str) -> bool:
    return any(word in name.lower() for word in ("mask", "padding"))


def _image(own: FileTensor) -> cards.Image | None:
    sizes = own.axes[1:]
    if len(sizes) != 3 or not all(isinstance(size, int) for size in sizes) or not np.issubdtype(own.dtype, np.floating):
        return None
    last = sizes[0] not in (1, 3)
    channels, rows, columns = (sizes[2], sizes[0], sizes[1]) if last else sizes
    if channels not in (1, 3):
        return None
    assert isinstance(channels, int) and isinstance(rows, int) and isinstance(columns, int)
    return cards.Image(
        rows=rows, columns=columns, mean=(0.0,) * channels, deviation=(1.0,) * channels, channels_last=last
    )


def _tensor(file: OnnxFile, own: FileTensor, mask: str) -> cards.Tensor:
    names: list[str] = []
    for place, axis in enumerate(own.axes[1:], 1):
        name = axis if isinstance(axis, str) and axis not in (BATCH, cards.ONE) else f"{own.name}_{place}"
        names.append(name if name not in names else f"{name}_{place}")
    sizes = {name: axis if isinstance(axis, int) else 0 for name, axis in zip(names, own.axes[1:], strict=True)}
    entries = vocabulary_of(file, own.name) if np.issubdtype(own.dtype, np.integer) else 0
    return cards.Tensor(
        axes=sizes,
        dtype=str(own.dtype),  # type: ignore[arg-type]
        minimum=0 if entries else None,
        maximum=entries - 1 if entries else None,
        mask=mask,
    )


def _with_mask_polarity(session: FileSession, card: cards.Card) -> cards.Card:
    """Find out whether masks are true at padding: with the right ones, a row is answered the same padded and alone.

    Where neither is right, rows run one at a time.
    """
    masked = [name for name, each in card.inputs.items() if isinstance(each, cards.Tensor) and each.mask]
    if not masked or fixed_batch(session.file):
        return card
    tried = [
        replace(
            card,
            inputs={
                name: replace(each, mask=cards.Mask(name=str(each.mask), padding=padding))
                if isinstance(each, cards.Tensor) and each.mask
                else each
                for name, each in card.inputs.items()
            },
        )
        for padding in (False, True)
    ]
    right = next((each for each in tried if _ignores_padding(session, card_of_inputs(each))), None)
    return replace(tried[0], batch=False) if right is None else right


def _ignores_padding(session: FileSession, imported: ImportedCard) -> bool:
    sizes = example_sizes(max_sizes(imported.card))
    random_inputs = RandomInputs(imported.card)
    masked = {axis.name for each in imported.card.bound().values() if each.mask for axis in each.description.dimensions}
    shorter = {name: 2 if name in masked else size for name, size in sizes.items()}
    rows = [*random_inputs.rows({**sizes, BATCH: 1}), *random_inputs.rows({**shorter, BATCH: 1})]
    answers = []
    for some in (rows, rows[1:]):
        tensors = collate_rows(imported.card, some)
        feeds = {
            name: file_input(own, tensors[name], own_dtype(session.file, name)) for name, own in imported.inputs.items()
        }
        answers.append(session.run(feeds))
    padded, alone = answers
    for name in session.file.outputs:
        short = alone[name][0]
        cut = padded[name][1][tuple(slice(size) for size in short.shape)]
        if np.issubdtype(short.dtype, np.floating) and not np.allclose(cut, short, rtol=1e-3, atol=1e-4):
            return False
    return True


def _with_labels(card: cards.Card, weights: Sequence[Observed]) -> cards.Card:
    """Add label sets for axes of a fixed size that no input counts: the patches of a picture, or numbered entries."""
    fixed = {axis for each in weights for axis in each.axes[-2:] if isinstance(axis, int) and axis > 1}
    for size in sorted(fixed):
        found = next(
            (name for name, each in card.inputs.items() if isinstance(each, cards.Image) and _patches(each, size)), ""
        )
        stated = card.inputs.get(found)
        if isinstance(stated, cards.Image) and stated.patches is None and (cells := _patches(stated, size)):
            side, leading = cells
            image = replace(stated, patches=(side, side), leading=[f"token {n + 1}" for n in range(leading)])
            card = replace(card, inputs={**card.inputs, found: image})
        else:
            card = replace(card, labels={**card.labels, f"entries_{size}": size})
    return card


def _patches(image: cards.Image, size: int) -> tuple[int, int] | None:
    """Return the side of a square of cells, and how many entries stand before them."""
    for leading in (0, 1, 2):
        side = math.isqrt(max(size - leading, 0))
        if side > 1 and side * side == size - leading and image.rows % side == 0 and image.columns % side == 0:
            return side, leading
    return None


def _model_name(stem: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:64] or "model"
