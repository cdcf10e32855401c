"""The steps of one input: construction, checks of their order, and execution."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.errors import BundleError, InputError, Path
from limelight_bundle.preprocess.audio_steps import DecodeAudio, Fbank, LogMel
from limelight_bundle.preprocess.graph_steps import ReadGraph
from limelight_bundle.preprocess.image_steps import CropImage, DecodeImage, NormaliseImage, ResizeImage
from limelight_bundle.preprocess.step_types import (
    DataFormat,
    DataKind,
    PreprocessedInput,
    RunOptions,
    Step,
    StepContext,
)
from limelight_bundle.preprocess.tensor_checks import check_tensor, real_places
from limelight_bundle.preprocess.text_steps import FillTokens, SplitLines, SplitSentences, SplitWords, Tokenize
from limelight_bundle.rows import Labels
from limelight_bundle.text import Encoder
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array, Audio, Graph, Image, Pair, Sentences, TensorValue, Text, Value
from limelight_bundle.wire import input_path

# Steps by name in `PreprocessingStep`.
STEPS: Mapping[str, type[Step]] = MappingProxyType(
    {
        "split_sentences": SplitSentences,
        "split_lines": SplitLines,
        "split_words": SplitWords,
        "tokenize": Tokenize,
        "decode_image": DecodeImage,
        "resize_image": ResizeImage,
        "crop_image": CropImage,
        "normalise_image": NormaliseImage,
        "read_graph": ReadGraph,
        "decode_audio": DecodeAudio,
        "log_mel": LogMel,
        "fbank": Fbank,
        "fill_tokens": FillTokens,
    }
)
# Data kind and value types of each kind of input.
_INPUTS: Mapping[int, tuple[DataKind, tuple[type, ...]]] = MappingProxyType(
    {
        model_pb2.INPUT_KIND_TEXT: (DataKind.TEXT, (Text,)),
        model_pb2.INPUT_KIND_DOCUMENT: (DataKind.DOCUMENT, (Text, Sentences)),
        model_pb2.INPUT_KIND_PAIR: (DataKind.PAIR, (Pair,)),
        model_pb2.INPUT_KIND_IMAGE: (DataKind.FILE, (Image,)),
        model_pb2.INPUT_KIND_GRAPH: (DataKind.GRAPH, (Graph,)),
        model_pb2.INPUT_KIND_AUDIO: (DataKind.RECORDING, (Audio,)),
        model_pb2.INPUT_KIND_TENSOR: (DataKind.TENSORS, ()),
    }
)


class InputSteps:
    """Runs the steps of one input, or checks tensors sent in its place.

    Raises:
        BundleError: names the step that does not fit its input.
    """

    def __init__(self, context: StepContext, messages: Sequence[bundle_pb2.PreprocessingStep]) -> None:
        self.context = context
        self.description = context.input
        self._steps = _build_steps(context, messages)
        made = {name for step in self._steps for name in step.tensors}
        missing = [] if self.is_tensor else [name for name in context.tensors if name not in made]
        if missing:
            raise BundleError(f"no step of the input {context.input.name!r} outputs its tensor {missing[0]!r}")
        _check_label_sets(context)
        indexed = {each.description.dimensions[0].name for each in context.tensors.values() if each.indexes}
        self._may_be_empty = {
            name
            for name, each in context.tensors.items()
            if each.joined and each.description.dimensions[0].name in indexed
        }

    @property
    def is_tensor(self) -> bool:
        """True if callers send the input as a tensor only."""
        return self.description.kind == model_pb2.INPUT_KIND_TENSOR

    @property
    def encoder(self) -> Encoder | None:
        """What makes tokens of its texts; None for an input without texts."""
        return next((each.encoder for each in self._steps if isinstance(each, Tokenize)), None)

    @property
    def is_own_tensor(self) -> bool:
        """True if one of its tensors has the name of the input."""
        return self.description.name in self.context.tensors

    def blanks(self) -> Iterator[tuple[str, int | None]]:
        """Yield its tensors of token ids, each with the token that stands for any word."""
        for step in self._steps:
            if isinstance(step, Tokenize):
                yield from step.blanks()

    def encoders(self) -> Iterator[tuple[str, Encoder]]:
        """Yield its tensors of token ids, each with what makes them."""
        for step in self._steps:
            if isinstance(step, Tokenize):
                yield from ((each.name, step.encoder) for each in step.bound)

    def run(self, value: Value, *, field: Path, truncate: bool) -> PreprocessedInput:
        """Convert a value. Raises InputError if it is of another kind, empty, or too large."""
        _, values = _INPUTS[self.description.kind]
        if not isinstance(value, values):
            raise InputError(field, self._wrong_kind(value))
        _check_limits(value, self.context.limits, field)
        options = RunOptions(field, truncate)
        current: Any = value
        for step in self._steps:
            current = step.run(current, options)
        prepared: PreprocessedInput = current
        tensors = dict(prepared.tensors)
        for name, bound in self.context.tensors.items():
            if bound.mask and bound.mask not in tensors:
                tensors[bound.mask] = np.ones(tensors[name].shape, dtype=np.bool_)
        return replace(prepared, tensors=tensors)

    def check_sent_tensors(self, values: Mapping[str, Value], *, field: Path) -> PreprocessedInput:
        """Check the tensors of the input that a caller sent. field: path of the instance.

        Raises:
            InputError: names the tensor that is missing or invalid.
        """
        tensors: dict[str, Array] = {}
        masks: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        for name, bound in self.context.tensors.items():
            value, path = values.get(name), input_path(field, name)
            if value is None:
                raise InputError(path, "is missing; send all tensors of an input or none")
            if not isinstance(value, TensorValue):
                raise InputError(path, "must be a tensor")
            check_tensor(value.array, bound.description, (*path, "tensor"), may_be_empty=name in self._may_be_empty)
            tensors[name] = value.array
            for dimension, size in zip(bound.description.dimensions, value.array.shape, strict=True):
                if sizes.setdefault(dimension.name, size) != size:
                    other = sizes[dimension.name]
                    raise InputError(
                        (*path, "tensor", "shape"), f"has {size} for {dimension.name} where another tensor has {other}"
                    )
            real = real_places(value.array, bound.description, (*path, "tensor"))
            if bound.mask:
                masks[bound.mask] = real
        labels = self._count_labels(tensors)
        tokens: dict[str, Labels] = {}
        for step in self._steps:
            if step.tensors:
                labels |= step.check_sent_tensors(tensors, RunOptions(field, truncate=False))
            if isinstance(step, Tokenize):
                tokens = {tensor: labels[each.name] for tensor, each in step.token_sets.items()}
                labels = {each.name: labels[each.name] for each in self.context.label_sets if each.name in labels}
        return PreprocessedInput(self.description.name, {**tensors, **masks}, sizes, labels, tokens=tokens)

    def _count_labels(self, tensors: Mapping[str, Array]) -> dict[str, Labels]:
        """Label sent tensors, of which only the number of entries is known."""
        labels = {}
        for each in self.context.label_sets:
            if each.tensor and not each.HasField("grid"):
                names = [axis.name for axis in self.context.tensors[each.tensor].description.dimensions]
                size = tensors[each.tensor].shape[names.index(each.dimension)]
                inputs = (self.description.name,)
                labels[each.name] = Labels(each.name, each.kind, size, parent=each.parent, inputs=inputs)
        return labels

    def _wrong_kind(self, value: Value) -> str:
        kind = model_pb2.InputKind.Name(self.description.kind).removeprefix("INPUT_KIND_").lower()
        sent = "a tensor" if isinstance(value, TensorValue) else type(value).__name__.lower()
        names = ", ".join(repr(name) for name in self.context.tensors)
        return f"is {sent}; expected {kind} (or tensors under the names {names})"


def _build_steps(context: StepContext, messages: Sequence[bundle_pb2.PreprocessingStep]) -> list[Step]:
    """Build the steps, and check that each accepts the output of the previous one."""
    name = context.input.name
    if context.input.kind not in _INPUTS:
        raise BundleError(f"the input {name!r} is of a kind unknown to this release")
    output_format = DataFormat(_INPUTS[context.input.kind][0])
    steps: list[Step] = []
    for place, message in enumerate(messages):
        chosen = message.WhichOneof("step")
        if chosen is None:
            raise BundleError(f"the input {name!r}: step {place + 1} is unknown to this release")
        kind = STEPS[chosen]
        where = f"the input {name!r}: step {place + 1}, {chosen},"
        if output_format.kind not in kind.accepts:
            accepts = " or ".join(sorted(each.value for each in kind.accepts))
            raise BundleError(f"{where} accepts {accepts}, but gets {output_format.kind.value}")
        next_step = messages[place + 1] if place + 1 < len(messages) else None
        try:
            steps.append(kind.make(getattr(message, chosen), context, output_format, next_step))
        except BundleError as error:
            raise BundleError(f"{where} {error.message}") from error
        output_format = steps[-1].output_format
    if output_format.kind is not DataKind.TENSORS:
        end = f"its steps end with {output_format.kind.value}" if steps else f"{output_format.kind.value} has no step"
        raise BundleError(f"the input {name!r}: {end}, but the model takes tensors")
    return steps


def _check_label_sets(context: StepContext) -> None:
    for each in context.label_sets:
        if each.tensor and each.tensor not in context.tensors:
            raise BundleError(
                f"the label set {each.name!r} refers to the tensor {each.tensor!r}, which its input does not have"
            )
        if each.tensor:
            axes = [axis.name for axis in context.tensors[each.tensor].description.dimensions]
            if each.dimension not in axes:
                raise BundleError(
                    f"the label set {each.name!r} refers to the axis {each.dimension!r}, which its tensor does not have"
                )


def _check_limits(value: Value, limits: model_pb2.Limits, field: Path) -> None:
    """Refuse texts that are empty or too long before any work; images and recordings are checked by their header."""
    match value:
        case Text(text):
            _check_text(text, limits, field)
        case Pair(first, second):
            _check_text(first, limits, (*field, "first"))
            _check_text(second, limits, (*field, "second"))
        case Sentences(texts):
            _check_length(sum(len(text) for text in texts), limits, field)
            if not texts:
                raise InputError(field, "is empty")


def _check_text(text: str, limits: model_pb2.Limits, field: Path) -> None:
    _check_length(len(text), limits, field)
    if not text.strip():
        raise InputError(field, "is empty")


def _check_length(length: int, limits: model_pb2.Limits, field: Path) -> None:
    most = limits.max_characters
    if most and length > most:
        raise InputError(field, f"has {length} characters; at most {most} are allowed, even with truncate")
