"""Inputs of a card: the tensors that they become, by which steps, and how the model takes them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from limelight.base.enums import number_of
from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_export.errors import ExportError
from limelight_export.importing import cards
from limelight_export.interface import BATCH
from limelight_models.cards.inputs import Input, TensorSpec, Tokenizer
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
class VaryingTensor(TensorSpec):
    """A tensor of which each axis has a fixed size, or varies. largest: of axes that vary; absent for no limit."""

    largest: Mapping[str, int]
    stored: str

    def describe(self) -> model_pb2.TensorDescription:
        return model_pb2.TensorDescription(
            name=self.name,
            data_type=number_of(values_pb2.DataType, self.stored, what="a tensor's dtype"),
            dimensions=[
                model_pb2.Dimension(name=name, size=size, maximum=0 if size else self.largest.get(name, 0))
                for name, size in self.dimensions.items()
            ],
            minimum=self.minimum,
            maximum=self.maximum,
        )


@dataclass(frozen=True, kw_only=True)
class ImportedInput(Input):
    """An input, with everything that follows from it stated."""

    name: str
    summary: str
    kind: model_pb2.InputKind
    specs: tuple[TensorSpec, ...]
    made_by: tuple[bundle_pb2.PreprocessingStep, ...] = ()
    labelled: tuple[LabelSet, ...] = ()
    read: tuple[Tokenizer, ...] = ()
    taken: tuple[ModelInput, ...] = ()

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        return self.specs

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        return self.made_by

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return self.labelled

    @property
    def files(self) -> Mapping[str, str]:
        return {each.file: each.text for each in self.read}


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

    return [replace(owner, labelled=tuple(filter(owned, owner.labelled))) for owner in inputs]


def runs_single_rows(card: cards.Card, inputs: Sequence[ImportedInput]) -> bool:
    """Return whether rows run one at a time: by default, if an axis varies without a mask."""
    if card.batch is not None:
        return not card.batch
    specs = [spec for owner in inputs for spec in owner.specs]
    masked = {axis for spec in specs if spec.mask for axis in spec.dimensions}
    return any(not size and axis not in masked for spec in specs for axis, size in spec.dimensions.items())


def _text(name: str, stated: cards.Text, dimension: str) -> ImportedInput:
    check_within(stated.max_tokens, 3, _ENTRIES, f"the max_tokens of the card's input {name!r}")
    try:
        text = Path(stated.tokenizer).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(f"the tokenizer of the card's input {name!r} cannot be read: {stated.tokenizer}") from error
    tensor, mask = stated.tensor or name, _mask(stated.mask)
    tokenizer = Tokenizer(text=text, file=f"{name}.tokenizer.json" if dimension != "token" else "tokenizer.json")
    try:
        vocabulary = tokenizer.vocabulary
    except Exception as error:  # the library raises its own types
        raise ExportError(
            f"the tokenizer of the card's input {name!r} is no tokenizer.json: {stated.tokenizer}"
        ) from error
    ids = VaryingTensor(
        name=tensor,
        mask=mask.name if mask else "",
        minimum=0,
        maximum=vocabulary - 1,
        dimensions={dimension: 0},
        largest={dimension: stated.max_tokens},
        stored="int64",
    )
    specs, taken = [ids], [ModelInput(tensor)]
    if stated.segments:
        specs.append(replace(ids, name=stated.segments, mask="", maximum=1))
        taken.append(ModelInput(stated.segments))
    tokenize = bundle_pb2.Tokenize(
        tokenizer=tokenizer.file,
        tensor=tensor,
        special_tokens=stated.special_tokens,
        segment_tensor=stated.segments,
    )
    return ImportedInput(
        name=name,
        summary=stated.summary,
        kind=model_pb2.INPUT_KIND_PAIR if stated.pair else model_pb2.INPUT_KIND_TEXT,
        specs=tuple(specs),
        made_by=(bundle_pb2.PreprocessingStep(tokenize=tokenize),),
        labelled=(LabelSet(name=stated.labels, kind="tokens", input=name, tensor=tensor, dimension=dimension),),
        read=(tokenizer,),
        taken=(*taken, *_taken_mask(mask)),
    )


def _image(name: str, stated: cards.Image) -> ImportedInput:
    channels = len(stated.mean)
    if len(stated.deviation) != channels or channels not in (1, 3):
        raise ExportError(
            f"the card's input {name!r} has {channels} means and {len(stated.deviation)} deviations; a picture has 1 "
            "or 3 channels"
        )
    tensor = stated.tensor or name
    where = f"the card's input {name!r}"
    for size in (stated.rows, stated.columns, *(stated.patches or ())):
        check_within(size, 1, _PIXELS, f"a number of rows, columns or patches of {where}")
    steps = (
        bundle_pb2.PreprocessingStep(decode_image=bundle_pb2.DecodeImage(channels=channels)),
        bundle_pb2.PreprocessingStep(
            resize_image=bundle_pb2.ResizeImage(
                rows=stated.rows,
                columns=stated.columns,
                fit=constant_of(bundle_pb2.Fit, stated.fit, f"the fit of {where}"),
                resampling=constant_of(bundle_pb2.Resampling, stated.resampling, f"the resampling of {where}"),
            )
        ),
        bundle_pb2.PreprocessingStep(
            normalise_image=bundle_pb2.NormaliseImage(
                scale=1 / 255, mean=stated.mean, deviation=stated.deviation, tensor=tensor
            )
        ),
    )
    sizes = {"channel": channels, "row": stated.rows, "column": stated.columns}
    cells = () if stated.patches is None else (_cells(name, stated, stated.patches),)
    return ImportedInput(
        name=name,
        summary=stated.summary,
        kind=model_pb2.INPUT_KIND_IMAGE,
        specs=(VaryingTensor(name=tensor, dimensions=sizes, largest={}, stored="float32"),),
        made_by=steps,
        labelled=cells,
        taken=(ModelInput(tensor, channels_last=stated.channels_last),),
    )


def _cells(name: str, stated: cards.Image, patches: tuple[int, int]) -> LabelSet:
    rows, columns = patches
    return LabelSet(name=stated.labels, kind="grid", input=name, names=tuple(stated.leading), grid=(rows, columns))


def _tensor(name: str, stated: cards.Tensor) -> ImportedInput:
    tensor, mask = stated.tensor or name, _mask(stated.mask)
    where = f"the card's input {name!r}"
    if stated.dtype not in get_args(cards.DType):
        raise ExportError(f"{where} holds {stated.dtype}; callers send {', '.join(get_args(cards.DType))}")
    if unknown := sorted(set(stated.largest) - set(stated.axes)):
        raise ExportError(f"{where} has a largest size of {unknown[0]!r}, which is not one of its axes")
    if fixed := [axis for axis in stated.largest if stated.axes[axis]]:
        raise ExportError(f"{where} has a largest size of {fixed[0]!r}, whose size is fixed")
    if min(stated.axes.values(), default=0) < 0:
        raise ExportError(f"{where} has an axis of a negative size; 0 stands for an axis that varies")
    check_within(math.prod(filter(None, stated.axes.values())), 1, _NUMBERS, f"the numbers in a row of {where}")
    for axis, size in stated.largest.items():
        check_within(size, 1, _ENTRIES, f"the largest size of {axis!r} of {where}")
    if BATCH in stated.axes:
        raise ExportError(f"{where} has an axis {BATCH!r}; axes are those of one row, without the batch")
    varying = [axis for axis, size in stated.axes.items() if not size]
    if mask and len(varying) != 1:
        raise ExportError(f"{where} has a mask, so exactly one of its axes must vary; {len(varying)} do")
    whole = stated.dtype.startswith(("int", "uint"))
    if whole and (stated.minimum, stated.maximum) != (None, None):
        limits, least = np.iinfo(stated.dtype), stated.minimum or 0
        check_within(least, int(limits.min), int(limits.max), f"the minimum of {where}")
        check_within(stated.maximum or 0, least, int(limits.max), f"the maximum of {where}")
    spec = VaryingTensor(
        name=tensor,
        dimensions=stated.axes,
        largest=stated.largest,
        stored=stated.dtype,
        mask=mask.name if mask else "",
        minimum=stated.minimum if whole else None,
        maximum=stated.maximum if whole else None,
    )
    kind: Any = "tokens" if whole else "frames"
    return ImportedInput(
        name=name,
        summary=stated.summary,
        kind=model_pb2.INPUT_KIND_TENSOR,
        specs=(spec,),
        labelled=tuple(LabelSet(name=axis, kind=kind, input=name, tensor=tensor, dimension=axis) for axis in varying),
        taken=(ModelInput(tensor), *_taken_mask(mask, tuple(stated.axes.values()))),
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


def constant_of(enum: Any, name: str, what: str) -> Any:
    """Return a constant of an enum by its short name. Raises ExportError where there is none."""
    try:
        return number_of(enum, name, what=what)
    except ValueError as error:
        raise ExportError(str(error)) from error
