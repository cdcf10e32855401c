"""Conversion of an instance, as callers send it, to a row of tensors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from limelight.base.suggestions import similar
from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import BundleError, InputError, OutOfRangeError, Path
from limelight_bundle.label_sets import fixed_labels
from limelight_bundle.preprocess.input_steps import InputSteps
from limelight_bundle.preprocess.step_types import PreprocessedInput, StepContext
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import BoundTensor, Labels, Row, bound_tensors
from limelight_bundle.text import Encoder
from limelight_bundle.tokenizer_files import read_tokenizer
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array, Instance, TensorValue
from limelight_bundle.wire import input_path


@dataclass(frozen=True)
class Bounds:
    """Upper limits of inputs for all models; 0 for no limit.

    Attributes:
        characters: characters of a text, or of all sentences of a document.
        pixels: pixels of an image.
    """

    characters: int = 0
    pixels: int = 0

    def of(self, limits: model_pb2.Limits) -> model_pb2.Limits:
        """Return the lower of a model's own limits and these."""
        return model_pb2.Limits(
            max_characters=_lower(limits.max_characters, self.characters),
            max_pixels=_lower(limits.max_pixels, self.pixels),
            max_audio_seconds=limits.max_audio_seconds,
        )


_NO_BOUNDS = Bounds()


class Preprocessor:
    """Turns instances into rows as one bundle declares; safe to use from several threads.

    Raises:
        BundleError: a tokenizer is invalid, or a step does not fit its input.
    """

    def __init__(self, folder: BundleFolder, bounds: Bounds = _NO_BOUNDS) -> None:
        tokenizers = {
            step.tokenize.tokenizer: read_tokenizer(folder.file(step.tokenize.tokenizer))
            for each in folder.bundle.preprocessing
            for step in each.steps
            if step.HasField("tokenize")
        }
        self._set_up(folder.bundle, tokenizers, bounds)

    @classmethod
    def from_parts(cls, bundle: bundle_pb2.Bundle, tokenizers: Mapping[str, str]) -> "Preprocessor":
        """Build a preprocessor without a folder. tokenizers: text of each tokenizer file by name."""
        preprocessor = cls.__new__(cls)
        preprocessor._set_up(bundle, tokenizers, _NO_BOUNDS)
        return preprocessor

    def _set_up(self, bundle: bundle_pb2.Bundle, tokenizers: Mapping[str, str], bounds: Bounds) -> None:
        self._description = bundle.description
        limits = bounds.of(bundle.description.limits)
        self._fixed_labels = fixed_labels(bundle.description)
        steps = {each.input: each.steps for each in bundle.preprocessing}
        for name in steps.keys() - {each.name for each in bundle.description.inputs}:
            raise BundleError(f"there is preprocessing of the input {name!r}, which the model does not have")
        # Input steps include generated tokens, which are unknown here.
        grown = attention_pb2.LABEL_KIND_INPUT_STEPS
        known: dict[str, list[model_pb2.LabelSetDescription]] = {}
        for labels in bundle.description.label_sets:
            if labels.kind != grown:
                known.setdefault(labels.input, []).append(labels)
        tensors = bound_tensors(bundle.description.inputs, bundle.tensors)
        self._indexing = tuple(each for each in tensors.values() if each.indexes)
        inputs = bundle.description.inputs
        self._tensors_of = {each.name: [one.name for one in each.tensors if one.name != each.name] for each in inputs}
        self._names = {*self._tensors_of, *tensors}
        self._inputs = {
            each.name: InputSteps(
                StepContext(
                    each,
                    {tensor.name: tensors[tensor.name] for tensor in each.tensors},
                    known.get(each.name, ()),
                    limits,
                    tokenizers,
                ),
                steps.get(each.name, ()),
            )
            for each in bundle.description.inputs
        }
        self._texts = [each for each in self._inputs.values() if each.encoder is not None]

    @cached_property
    def blanks(self) -> Mapping[str, int | None]:
        """The token of each tensor of token ids that stands for any word; None for a vocabulary without one."""
        return {name: blank for steps in self._inputs.values() for name, blank in steps.blanks()}

    @cached_property
    def encoders(self) -> Mapping[str, Encoder]:
        """What makes the ids of each tensor of token ids."""
        return {name: encoder for steps in self._inputs.values() for name, encoder in steps.encoders()}

    def row(self, instance: Instance, *, field: Path = (), truncate: bool = False) -> Row:
        """Check and convert one instance; `field` is its path in the request, such as `instances[3]`.

        Raises:
            InputError: names the input that is missing, unknown, of the wrong kind, or too large.
        """
        self.check_names(instance, field)
        prepared: list[PreprocessedInput] = []
        for name, steps in self._inputs.items():
            found = _run(steps, instance, field, truncate=truncate)
            if found is not None:
                prepared.append(found)
            elif not steps.description.optional:
                raise InputError(input_path(field, name), f"is missing; the model takes {self._expected()}")
        return self._merge(prepared, field)

    @property
    def has_texts(self) -> bool:
        """True if some input is cut into tokens."""
        return bool(self._texts)

    def tokens(self, instance: Instance, *, field: Path = (), truncate: bool = False) -> tuple[list[Labels], bool]:
        """Cut the texts of an instance into tokens; other inputs are not read, and each may be missing.

        Returns:
            The label sets of the tokens of each text, and of the sentences of a document; whether one was truncated.
        Raises:
            InputError: no text is there, or one is of the wrong kind, or too large.
        """
        self.check_names(instance, field)
        found = [_run(steps, instance, field, truncate=truncate) for steps in self._texts]
        cut = [each for each in found if each is not None]
        if not cut:
            names = " or ".join(repr(each.description.name) for each in self._texts)
            raise InputError((*field, "inputs"), f"have no text; send {names}")
        labels = [{**{own.name: own for own in each.tokens.values()}, **each.labels} for each in cut]
        return [own for each in labels for own in each.values()], any(each.truncated for each in cut)

    def text_of(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Write tokens as text, by the tokenizer of the first input with texts."""
        encoder = self._texts[0].encoder
        assert encoder is not None
        return encoder.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def check_names(self, instance: Iterable[str], field: Path) -> None:
        """Check the names of an instance's inputs. Raises: InputError naming one that the model lacks."""
        for name in instance:
            if name not in self._names:
                takes = f"{self._expected()}{similar(name, sorted(self._names))}"
                raise InputError(input_path(field, name), f"is not an input of the model; the model takes {takes}")
            for tensor in self._tensors_of.get(name, ()):
                if tensor in instance:
                    raise InputError(
                        input_path(field, tensor), f"is a tensor of the input {name!r}; send one of the two"
                    )

    def _expected(self) -> str:
        kinds = model_pb2.InputKind
        return ", ".join(
            f"{name!r} ({kinds.Name(steps.description.kind).removeprefix('INPUT_KIND_').lower()}"
            + (", optional)" if steps.description.optional else ")")
            for name, steps in self._inputs.items()
        )

    def _merge(self, prepared: list[PreprocessedInput], field: Path) -> Row:
        tensors: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        labels: dict[str, Labels] = dict(self._fixed_labels)
        tokens: dict[str, Labels] = {}
        for each in prepared:
            tensors |= each.tensors
            labels |= each.labels
            tokens |= each.tokens
            for name, size in each.sizes.items():
                if sizes.setdefault(name, size) != size:
                    raise InputError(
                        input_path(field, each.input), f"has {size} for {name} where another input has {sizes[name]}"
                    )
        _check_indices(tensors, self._indexing, sizes, field)
        return Row(tensors, sizes, labels, True in [each.truncated for each in prepared], tokens)


def _run(steps: InputSteps, instance: Instance, field: Path, *, truncate: bool) -> PreprocessedInput | None:
    """Convert the value of one input, or check its tensors; None where the instance has neither."""
    name = steps.description.name
    value = instance.get(name)
    if value is not None and not (isinstance(value, TensorValue) and steps.is_own_tensor):
        return steps.run(value, field=input_path(field, name), truncate=truncate)
    sent = {each.name: instance[each.name] for each in steps.description.tensors if each.name in instance}
    return steps.check_sent_tensors(sent, field=field) if sent else None


def _lower(own: int, bound: int) -> int:
    return min(own, bound) if own and bound else own or bound


def _check_indices(
    tensors: Mapping[str, Array], bound: Iterable[BoundTensor], sizes: Mapping[str, int], field: Path
) -> None:
    """Check that indices refer to entries of their own instance."""
    for each in bound:
        if each.name in tensors:
            array, count = tensors[each.name], sizes.get(each.indexes, 0)
            outside = (array < 0) | (array >= count)
            if outside.any():
                place = [int(index) for index in np.argwhere(outside)[0]]
                raise OutOfRangeError(
                    (*input_path(field, each.name), "tensor", "data"),
                    f"has {int(array[tuple(place)])} at {place}; there {'is' if count == 1 else 'are'} {count} for "
                    f"{each.indexes}",
                )
