"""Inputs that a model's description makes definite: a value without a name, an array of pixels, a file of any name."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, cast

import numpy as np

from limelight.base.errors import FailedPrecondition, InputError
from limelight.base.strings import decode_utf8, quote
from limelight.base.values import SUFFIXES, Audio, Image, Input, Inputs, LoneInput, is_pair
from limelight.descriptions import InputInfo, Model
from limelight.v1 import values_pb2

Named: TypeAlias = Inputs | values_pb2.Instance
OneInstance: TypeAlias = Named | LoneInput
Instances: TypeAlias = OneInstance | Sequence[OneInstance]


TEXTS = frozenset({"text", "document", "pair"})
"""Kinds of inputs that are cut into tokens."""


def is_one(inputs: Instances) -> bool:
    """Return whether the argument is a single instance and no list or tuple; two strings in a tuple are a pair."""
    return isinstance(inputs, str | bytes) or is_pair(inputs) or not isinstance(inputs, Sequence)


def listed(inputs: Instances) -> Sequence[OneInstance]:
    """Return the instances of an argument of one or several."""
    return [cast(OneInstance, inputs)] if is_one(inputs) else cast(Sequence[OneInstance], inputs)


def are_definite(instances: Sequence[OneInstance]) -> TypeGuard[Sequence[Named]]:
    """Return whether instances can be sent without knowing the model's inputs."""
    return not any(map(needs_description, instances))


def needs_description(instance: OneInstance) -> bool:
    """Return whether an instance can be sent only if the model's inputs are known."""
    if isinstance(instance, values_pb2.Instance):
        return False
    return not isinstance(instance, Mapping) or any(map(_is_open, instance.values()))


def _is_open(value: Input) -> bool:
    """Return whether a value is of a kind that only the model's input says: pixels or a tensor, a text or a picture."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.uint8 and value.ndim in (2, 3)
    return isinstance(value, os.PathLike) and Path(value).suffix.lower() not in SUFFIXES


def with_names(instance: OneInstance, model: Model) -> Named:
    """Return an instance whose values have names, and are of the kinds of the model's inputs.

    Raises:
        InputError: a value without a name for a model of several inputs, or a value of another kind than the input.
        FailedPrecondition: the model is not loaded, so that its inputs are unknown.
    """
    if isinstance(instance, values_pb2.Instance):
        return instance
    inputs = {each.name: each for each in model.inputs}
    if isinstance(instance, Mapping):
        return {name: _definite(value, inputs[name]) if name in inputs else value for name, value in instance.items()}
    if not inputs:
        raise FailedPrecondition(f"model {model.name!r} is not ready, so its inputs are unknown: {model.status.state}")
    several = model.required_inputs or model.inputs
    if len(several) != 1:
        names = ", ".join(f"{each.name!r} ({each.kind})" for each in several)
        raise InputError(f"model {model.name!r} takes {names}: give values by name, {{{quote(several[0].name)}: …}}")
    return {several[0].name: _definite(instance, several[0])}


def reading_texts(model: Model) -> Model:
    """Return a description with those inputs alone that are texts; with all where none is."""
    texts = tuple(each for each in model.inputs if each.kind in TEXTS)
    return replace(model, inputs=texts or model.inputs)


def _definite(value: Any, info: InputInfo) -> Input:
    """Return a value as the kind of its input."""
    what = f"input {info.name!r} is of kind {info.kind}"
    if isinstance(value, os.PathLike):
        match info.kind:
            case "image":
                return Image(value)
            case "audio":
                return Audio(value)
            case "text" | "document":
                return decode_utf8(Path(value).read_bytes(), info.name, str(value))
    if info.kind in ("image", "audio") and isinstance(value, str):
        raise InputError(f"{what}, and this is a string; for a file, give pathlib.Path({value[:40]!r})")
    if info.kind == "image" and isinstance(value, np.ndarray) and info.name not in {each.name for each in info.tensors}:
        return Image(value)
    if info.kind == "audio" and isinstance(value, np.ndarray):
        raise InputError(f"{what}; samples need their rate: limelight.Audio(samples, sample_rate=16000)")
    result: Input = value
    return result
