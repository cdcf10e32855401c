"""Bounds on every number, name and list of a bundle's description.

The self-test checks whether a number is right; bounds protect computations before the first run of a graph.
"""

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from limelight_bundle.errors import BundleError
from limelight_bundle.tolerance import LARGEST_TOLERANCE
from limelight_bundle.v1 import bundle_pb2

_ANY_INT = (-(2**31), 2**31 - 1)
_COUNT = (0, 2**31 - 1)
# An axis of a tensor; outputs of graphs bound the tensor's size.
_AXIS = (0, 2**24)
_PIXELS = (1, 2**14)
_MAX_AXES = 8
_MAX_NAME_LENGTH = 256
_MAX_TEXT_LENGTH = 2**16
# Maximum entries of repeated fields.
_MAX_ENTRIES = 2**14
# Of these there are fewer, or more: several times as many as models have. Every call's time and memory grows with
# some, and the time of the checks with the products of others.
_MAX_OF: Mapping[str, int] = MappingProxyType(
    {
        "limelight.bundle.v1.Bundle.required_features": 2**8,
        "limelight.bundle.v1.Bundle.graphs": 2**4,
        "limelight.bundle.v1.Bundle.tensors": 2**10,
        "limelight.bundle.v1.Bundle.preprocessing": 2**6,
        "limelight.bundle.v1.Bundle.noise": 2**8,
        "limelight.bundle.v1.Bundle.maps": 2**13,
        "limelight.bundle.v1.Preprocessing.steps": 2**5,
        "limelight.bundle.v1.Generation.states": 2**12,
        "limelight.bundle.v1.Generation.more_end_tokens": 2**10,
        "limelight.bundle.v1.MapBinding.axes": _MAX_AXES,
        "limelight.bundle.v1.MapBinding.weights_inputs": 2**3,
        "limelight.v1.TensorDescription.dimensions": _MAX_AXES,
        "limelight.v1.OutputDescription.dimensions": _MAX_AXES,
        "limelight.v1.MapDescription.quantities": 2**4,
        "limelight.v1.MapDescription.interventions": 2**4,
        "limelight.v1.ModelDescription.inputs": 2**10,
        "limelight.v1.InputDescription.tensors": 2**10,
        "limelight.v1.ModelDescription.outputs": 2**10,
        "limelight.v1.ModelDescription.results": 2**7,
        "limelight.v1.ModelDescription.maps": 2**11,
        "limelight.v1.ModelDescription.label_sets": 2**11,
        "limelight.v1.ModelDescription.examples": 2**10,
        "limelight.v1.ClassesDescription.labels": 2**20,
        "limelight.v1.LabelSetDescription.names": 2**20,
    }
)

# Minimum and maximum by message and field.
BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "limelight.bundle.v1.DecodeImage.channels": (1, 3),
        "limelight.bundle.v1.ResizeImage.rows": _PIXELS,
        "limelight.bundle.v1.ResizeImage.columns": _PIXELS,
        "limelight.bundle.v1.CropImage.rows": _PIXELS,
        "limelight.bundle.v1.CropImage.columns": _PIXELS,
        "limelight.bundle.v1.DecodeAudio.sample_rate": (1, 2**20),
        "limelight.bundle.v1.LogMel.window": (2, 2**14),
        "limelight.bundle.v1.LogMel.hop": (1, 2**14),
        "limelight.bundle.v1.LogMel.mels": (1, 2**10),
        "limelight.bundle.v1.LogMel.frames": (1, 2**16),
        "limelight.bundle.v1.Fbank.window": (2, 2**14),
        "limelight.bundle.v1.Fbank.hop": (1, 2**14),
        "limelight.bundle.v1.Fbank.mels": (1, 2**10),
        "limelight.bundle.v1.Fbank.frames": (1, 2**16),
        "limelight.bundle.v1.Generation.max_new_tokens": (1, 2**20),
        "limelight.bundle.v1.State.batch_axis": (0, _MAX_AXES),
        "limelight.bundle.v1.State.growing_axis": (0, _MAX_AXES),
        "limelight.bundle.v1.Tolerance.absolute": (0, LARGEST_TOLERANCE),
        "limelight.bundle.v1.Tolerance.relative": (0, LARGEST_TOLERANCE),
        "limelight.v1.Dimension.size": _AXIS,
        "limelight.v1.Dimension.maximum": _AXIS,
        "limelight.v1.TensorDescription.minimum": _ANY_INT,
        "limelight.v1.TensorDescription.maximum": _ANY_INT,
        "limelight.v1.MapDescription.layer": (0, 2**14),
        "limelight.v1.MapDescription.heads": (1, 2**12),
        "limelight.v1.MapDescription.features": (0, 2**16),
        "limelight.v1.MapDescription.value_size": (0, 2**16),
        "limelight.v1.Grid.rows": (1, 2**12),
        "limelight.v1.Grid.columns": (1, 2**12),
        "limelight.v1.Frames.count": (1, 2**16),
        "limelight.v1.SequenceDescription.max_new_tokens": (1, 2**20),
        "limelight.v1.Citation.year": _ANY_INT,
    }
)
# Fields that may be negative.
_SIGNED = frozenset(
    {
        "limelight.bundle.v1.TensorBinding.pad_value",
        "limelight.bundle.v1.NormaliseImage.scale",
        "limelight.bundle.v1.NormaliseImage.mean",
        "limelight.bundle.v1.NormaliseImage.deviation",
        "limelight.bundle.v1.Fbank.mean",
        "limelight.bundle.v1.Fbank.deviation",
        "limelight.v1.TensorDescription.fill",
        "limelight.v1.Metric.value",
        "limelight.v1.Metric.baseline",
        "limelight.v1.Metric.float32_value",
    }
)
# Messages from callers are checked elsewhere.
_UNCHECKED_MESSAGES = frozenset({"limelight.v1.Instance", "limelight.v1.Region"})
# Fields with prose.
_TEXT_FIELDS = frozenset({"summary", "title", "venue", "licence", "library_versions", "text"})


def check_bounds(bundle: bundle_pb2.Bundle) -> None:
    """Check every number, enumeration, name and list of a bundle against its bounds.

    Raises:
        BundleError: names the field by its path, such as `description.maps[0].heads`.
    """
    _check(bundle, "")


def _check(message: Message, path: str) -> None:
    for field, content in message.ListFields():
        name = f"{path}.{field.name}" if path else field.name
        if field.is_repeated and not _is_map(field):
            maximum = _MAX_OF.get(field.full_name, _MAX_ENTRIES)
            if len(content) > maximum:
                raise BundleError(f"{name} has {len(content)} entries, more than {maximum}")
        for where, each in _values(field, content, name):
            if isinstance(each, Message):
                if each.DESCRIPTOR.full_name not in _UNCHECKED_MESSAGES:
                    _check(each, where)
            else:
                _check_value(field, each, where)
    _check_missing(message, path)


def _check_missing(message: Message, path: str) -> None:
    """Check fields whose value is 0, which `ListFields` omits."""
    for field in message.DESCRIPTOR.fields:
        minimum, _ = BOUNDS.get(field.full_name, _COUNT)
        if minimum > 0 and not getattr(message, field.name):
            raise BundleError(f"{path}.{field.name} is 0; it must be at least {minimum}")


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _values(field: FieldDescriptor, content: Any, path: str) -> Iterator[tuple[str, Any]]:
    if _is_map(field):
        for key, value in content.items():
            yield from ((path, key), (path, value))
    elif field.is_repeated:
        yield from ((f"{path}[{place}]", each) for place, each in enumerate(content))
    else:
        yield path, content


def _check_value(field: FieldDescriptor, value: Any, path: str) -> None:
    if isinstance(value, str):
        maximum = _MAX_TEXT_LENGTH if field.name in _TEXT_FIELDS else _MAX_NAME_LENGTH
        if len(value) > maximum:
            raise BundleError(f"{path} has {len(value)} characters, more than {maximum}")
    elif field.enum_type is not None:
        if value not in field.enum_type.values_by_number:
            raise BundleError(f"{path} is {value}, which is unknown to this release")
    elif isinstance(value, float):
        if not math.isfinite(value) or (value < 0 and field.full_name not in _SIGNED):
            raise BundleError(f"{path} is {value:g}; it must be a finite number" + " from 0" * math.isfinite(value))
        if field.full_name in BOUNDS and value > BOUNDS[field.full_name][1]:
            raise BundleError(f"{path} is {value:g}; it must be at most {BOUNDS[field.full_name][1]:g}")
    elif isinstance(value, int):
        least, most = BOUNDS.get(field.full_name, _COUNT)
        if not least <= value <= most:
            raise BundleError(f"{path} is {value}; it must be from {least} to {most}")
