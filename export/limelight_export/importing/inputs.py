"""Inputs of a card: the tensors that they become, by which steps, and how the model takes them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_export.errors import ExportError
from limelight_export.importing import cards
from limelight_export.interface import BATCH
from limelight_models.cards.inputs import DType, ImageInput, Input, TensorInput, TensorSpec, Tokenizer
from limelight_models.cards.labels import LabelSet

# A row has up to so many numbers, an axis that varies up to so many entries, and a picture so many rows and columns.
_NUMBERS, _ENTRIES, _PIXELS = 2**26, 2**31 - 1, 2**13


@dataclass(frozen=True)
class ModelInput:
    """An input of a model, as it differs from the tensor of the card that has its name.

    Attributes:
        dtype: of a mask that a module takes.
        inverted: a mask is true at padding.
        channels_last: pixels are [batch, row, column, channel].
        mask: True for a mask.
        dropped: the axes that the model's mask lacks, last first: those along which its tensor does not vary.
    """

    name: str
    dtype: str = ""
    inverted: bool = False
    channels_last: bool = False
    mask: bool = False
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImportedInput(Input):
    """An input with everything that follows from it stated, and how the model takes its tensors."""

    name: str
    summary: str
    kind: model_pb2.InputKind
    tensors: Sequence[TensorSpec] = ()
    steps: Sequence[bundle_pb2.PreprocessingStep] = ()
    label_sets: Sequence[LabelSet] = ()
    tokenizers: Mapping[str, str] = field(default_factory=dict)
    taken: tuple[ModelInput, ...] = ()

    @property
    def files(self) -> Mapping[str, str]:
        return self.tokenizers


def imported_inputs(card: cards.Card) -> list[ImportedInput]:
    """Return the inputs of a card. Raises ExportError for an input that contradicts itself."""
    if not card.inputs:
        raise ExportError("the card has no input")
    texts = sum(isinstance(each, cards.Text) for each in card.inputs.values())
    made = []
    for name, stated in card.inputs.items():
        match stated:
            case cards.Text():
                made.append(_text(name, stated, "token" if texts == 1 else f"{name}_token"))
            case cards.Image():
                made.append(_image(name, stated))
            case cards.Tensor():
                made.append(_tensor(name, stated))
            case _:
                raise ExportError(f"the card's input {name!r} is {stated!r}; it is a Text, an Image or a Tensor")
    taken = [each.name for owner in made for each in owner.taken]
    if twice := sorted({name for name in taken if taken.count(name) > 1}):
        raise ExportError(f"the card's inputs take {twice[0]!r} of the model twice")
    return _with_shared_axes(made)


def _with_shared_axes(inputs: Sequence[ImportedInput]) -> list[ImportedInput]:
    """Let the first input that has an axis label it, where others (segments, positions) have the same."""
    owners: dict[tuple[str, str], str] = {}

    def owned(each: LabelSet) -> bool:
        return not each.dimension or owners.setdefault((each.name, each.dimension), each.input) == each.input

    return [replace(owner, label_sets=tuple(filter(owned, owner.label_sets))) for owner in inputs]


def runs_single_rows(card: cards.Card, inputs: Sequence[ImportedInput]) -> bool:
    """Return whether rows run one at a time: by default, if an axis varies without a mask."""
    if card.batch is not None:
        return not card.batch
    tensors = [each for owner in inputs for each in owner.tensors]
    masked = {axis for each in tensors if each.mask for axis in each.varying}
    return any(axis not in masked for each in tensors for axis in each.varying)


def _text(name: str, stated: cards.Text, dimension: str) -> ImportedInput:
    check_within(stated.max_tokens, 3, _ENTRIES, f"the max_tokens of the card's input {name!r}")
    try:
        text = Path(stated.tokenizer).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(f"the tokenizer of the card's input {name!r} cannot be read: {stated.tokenizer}") from error
    tensor, mask = stated.tensor or name, _mask(stated.mask)
    file = f"{name}.tokenizer.json" if dimension != "token" else "tokenizer.json"
    try:
        ids = Tokenizer(text=text, file=file, first=0).ids(
            tensor, mask.name if mask else "", {dimension: stated.max_tokens}
        )
    except Exception as error:  # the library raises its own types
        raise ExportError(
            f"the tokenizer of the card's input {name!r} is no tokenizer.json: {stated.tokenizer}"
        ) from error
    segments = [replace(ids, name=stated.segments, mask="", maximum=1)] if stated.segments else []
    tokenize = bundle_pb2.Tokenize(
        tokenizer=file, tensor=tensor, special_tokens=stated.special_tokens, segment_tensor=stated.segments
    )
    return ImportedInput(
        name=name,
        summary=stated.summary,
        kind=model_pb2.INPUT_KIND_PAIR if stated.pair else model_pb2.INPUT_KIND_TEXT,
        tensors=(ids, *segments),
        steps=(bundle_pb2.PreprocessingStep(tokenize=tokenize),),
        label_sets=(LabelSet(name=stated.labels, kind="tokens", input=name, tensor=tensor, dimension=dimension),),
        tokenizers={file: text},
        taken=(*(ModelInput(each.name) for each in (ids, *segments)), *_taken_mask(mask)),
    )


def _image(name: str, stated: cards.Image) -> ImportedInput:
    channels = len(stated.mean)
    if len(stated.deviation) != channels or channels not in (1, 3):
        raise ExportError(
            f"the card's input {name!r} has {channels} means and {len(stated.deviation)} deviations; a picture has 1 "
            "or 3 channels"
        )
    for size in (stated.rows, stated.columns, *(stated.patches or ())):
        check_within(size, 1, _PIXELS, f"a number of rows, columns or patches of the card's input {name!r}")
    picture = ImageInput(
        name=name,
        summary=stated.summary,
        rows=stated.rows,
        columns=stated.columns,
        mean=stated.mean,
        deviation=stated.deviation,
        tensor=stated.tensor or name,
        fit=stated.fit,
        resampling=stated.resampling,
    )
    try:
        steps = picture.steps
    except ValueError as error:
        raise ExportError(f"the card: {error}") from error
    cells = (
        (picture.cells(*stated.patches, leading=tuple(stated.leading), name=stated.labels),) if stated.patches else ()
    )
    taken = (ModelInput(picture.tensor, channels_last=stated.channels_last),)
    return _imported(picture, steps=steps, label_sets=cells, taken=taken)


def _imported(made: ImageInput | TensorInput, **stated: Any) -> ImportedInput:
    return ImportedInput(name=made.name, summary=made.summary, kind=made.kind, tensors=made.tensors, **stated)


def _tensor(name: str, stated: cards.Tensor) -> ImportedInput:
    tensor, mask = stated.tensor or name, _mask(stated.mask)
    where = f"the card's input {name!r}"
    if stated.dtype not in get_args(DType):
        raise ExportError(f"{where} holds {stated.dtype}; callers send {', '.join(get_args(DType))}")
    if unknown := sorted(set(stated.largest) - set(stated.axes)):
        raise ExportError(f"{where} has a largest size of {unknown[0]!r}, which is not one of its axes")
    if fixed := [axis for axis in stated.largest if stated.sizes[axis]]:
        raise ExportError(f"{where} has a largest size of {fixed[0]!r}, whose size is fixed")
    if min(stated.sizes.values(), default=0) < 0:
        raise ExportError(f"{where} has an axis of a negative size; 0 stands for an axis that varies")
    check_within(math.prod(filter(None, stated.sizes.values())), 1, _NUMBERS, f"the numbers in a row of {where}")
    for axis, size in stated.largest.items():
        check_within(size, 1, _ENTRIES, f"the largest size of {axis!r} of {where}")
    if BATCH in stated.axes:
        raise ExportError(f"{where} has an axis {BATCH!r}; axes are those of one row, without the batch")
    varying = [axis for axis, size in stated.sizes.items() if not size]
    if mask and len(varying) != 1:
        raise ExportError(f"{where} has a mask, so exactly one of its axes must vary; {len(varying)} do")
    whole = stated.dtype.startswith(("int", "uint"))
    if whole and (stated.minimum, stated.maximum) != (None, None):
        limits, least = np.iinfo(stated.dtype), stated.minimum or 0
        check_within(least, int(limits.min), int(limits.max), f"the minimum of {where}")
        check_within(stated.maximum or 0, least, int(limits.max), f"the maximum of {where}")
    spec = TensorSpec(
        name=tensor,
        dimensions={**stated.sizes, **stated.largest},
        fixed=frozenset(stated.axes) - set(varying),
        data_type=stated.dtype,
        mask=mask.name if mask else "",
        minimum=stated.minimum if whole else None,
        maximum=stated.maximum if whole else None,
    )
    kind: Any = "tokens" if whole else "frames"
    sets = (LabelSet(name=axis, kind=kind, input=name, tensor=tensor, dimension=axis) for axis in varying)
    return _imported(
        TensorInput(name=name, summary=stated.summary, tensor=spec),
        label_sets=tuple(sets),
        taken=(ModelInput(tensor), *_taken_mask(mask, tuple(stated.sizes.values()))),
    )


def _mask(stated: cards.Mask | str) -> cards.Mask | None:
    if isinstance(stated, str):
        return cards.Mask(name=stated) if stated else None
    return stated


def _taken_mask(mask: cards.Mask | None, sizes: tuple[int, ...] = (0,)) -> tuple[ModelInput, ...]:
    if mask is None:
        return ()
    dropped = tuple(place for place, size in reversed(list(enumerate(sizes, 1))) if size)
    return (ModelInput(mask.name, mask.dtype, mask.padding, mask=True, dropped=dropped),)


def check_within(number: int, least: int, most: int, what: str) -> None:
    """Raise ExportError, which says what a number is, where it is outside of limits."""
    if not least <= number <= most:
        raise ExportError(f"{what} must be from {least} to {most}")
