"""Conversion between protocol messages and values; detects every invalid tensor."""

import math
from collections.abc import Sequence

import numpy as np

from limelight.base.tensors import DATA_TYPES
from limelight.base.tensors import DTYPES as DTYPES
from limelight.base.tensors import to_tensor as to_tensor
from limelight.v1 import attention_pb2, values_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.rows import Labels
from limelight_bundle.values import Array, Audio, Graph, Image, Instance, Pair, Sentences, TensorValue, Text, Value

_MAX_AXES = 8


def data_type_name(data_type: int) -> str:
    """Return the name of a data type for messages: `FLOAT32`."""
    if data_type not in values_pb2.DataType.values():
        return f"unknown data type {data_type}"
    return str(values_pb2.DataType.Name(data_type)).removeprefix("DATA_TYPE_")


def data_type_of(array: Array) -> values_pb2.DataType:
    """Return the protocol's data type of an array."""
    return DATA_TYPES[array.dtype.newbyteorder("<")]  # type: ignore[no-any-return]


def to_array(tensor: values_pb2.Tensor, field: Path) -> Array:
    """Decode a tensor without a copy; the array is read-only.

    Raises:
        InputError: type, shape and data of `field` are inconsistent.
    """
    return array_of_bytes(tensor.data_type, tensor.shape, tensor.data, field)


def array_of_bytes(data_type: int, sizes: Sequence[int], data: bytes, field: Path) -> Array:
    """Decode the data of a tensor, as `to_array`."""
    dtype = DTYPES.get(data_type)
    if dtype is None:
        raise InputError((*field, "data_type"), "is not a known data type; set one, such as FLOAT32")
    shape = tuple(sizes)
    if len(shape) > _MAX_AXES:
        raise InputError((*field, "shape"), f"has {len(shape)} axes; at most {_MAX_AXES} are allowed")
    if shape and min(shape) < 0:
        raise InputError((*field, "shape"), f"has a negative size: {list(shape)}")
    expected = math.prod(shape) * dtype.itemsize  # Python integers do not overflow
    if expected != len(data):
        name = data_type_name(data_type)
        raise InputError((*field, "data"), f"has {len(data)} bytes; {name} of shape {list(shape)} needs {expected}")
    if dtype == np.bool_ and (np.frombuffer(data, np.uint8) > 1).any():
        raise InputError((*field, "data"), "has a byte other than 0 and 1 for BOOL")
    try:
        return np.frombuffer(data, dtype=dtype).reshape(shape)
    except ValueError as error:  # an axis of size 0 beside axes whose product overflows
        raise InputError((*field, "shape"), f"is too large: {list(shape)}") from error


def value_from_wire(value: values_pb2.Value, field: Path) -> Value:
    """Read a value from its message.

    Raises:
        InputError: no kind is set, or a kind that no model takes.
    """
    kind = value.WhichOneof("kind")
    if kind == "text":
        return Text(value.text)
    if kind == "document":
        if value.document.WhichOneof("content") == "sentences":
            return Sentences(tuple(value.document.sentences.texts))
        return Text(value.document.text)
    if kind == "pair":
        return Pair(value.pair.first, value.pair.second)
    if kind == "image":
        return Image(value.image)
    if kind == "audio":
        return _audio(value.audio, (*field, "audio"))
    if kind == "graph":
        return _graph(value.graph, (*field, "graph"))
    if kind == "tensor":
        return TensorValue(to_array(value.tensor, (*field, "tensor")))
    raise InputError(field, "has no value; set one of text, document, pair, image, audio, graph, tensor")


def _audio(audio: values_pb2.Audio, field: Path) -> Audio:
    content = audio.WhichOneof("content")
    if content is None:
        raise InputError(field, "has no content; set one of wav, samples")
    if content == "wav":
        return Audio(audio.wav)
    samples = to_array(audio.samples.samples, (*field, "samples", "samples"))
    if samples.dtype != np.float32 or samples.ndim != 1:
        raise InputError(
            (*field, "samples", "samples"),
            f"is {data_type_name(data_type_of(samples))} with {samples.ndim} axes; samples are FLOAT32 [sample], mono",
        )
    return Audio(samples, audio.samples.sample_rate)


def _graph(graph: values_pb2.Graph, field: Path) -> Graph:
    features = to_array(graph.edge_features, (*field, "edge_features")) if graph.HasField("edge_features") else None
    nodes, edges = to_array(graph.nodes, (*field, "nodes")), to_array(graph.edges, (*field, "edges"))
    return Graph(nodes, edges, features, tuple(graph.node_names))


def value_to_wire(value: Value) -> values_pb2.Value:
    """Convert a value to its message."""
    match value:
        case Text(text):
            return values_pb2.Value(text=text)
        case Sentences(texts):
            return values_pb2.Value(document=values_pb2.Document(sentences=values_pb2.Sentences(texts=texts)))
        case Pair(first, second):
            return values_pb2.Value(pair=values_pb2.Pair(first=first, second=second))
        case Image(data):
            return values_pb2.Value(image=data)
        case Audio(bytes() as wav):
            return values_pb2.Value(audio=values_pb2.Audio(wav=wav))
        case Audio(np.ndarray() as samples, rate):
            sent = values_pb2.AudioSamples(samples=to_tensor(samples), sample_rate=rate)
            return values_pb2.Value(audio=values_pb2.Audio(samples=sent))
        case Graph(nodes, edges, features, names):
            graph = values_pb2.Graph(nodes=to_tensor(nodes), edges=to_tensor(edges), node_names=names)
            if features is not None:
                graph.edge_features.CopyFrom(to_tensor(features))
            return values_pb2.Value(graph=graph)
        case TensorValue(array):
            return values_pb2.Value(tensor=to_tensor(array))
    raise TypeError(f"{type(value).__name__} is no value of an input")


def instance_from_wire(instance: values_pb2.Instance, field: Path) -> Instance:
    """Read every value of an instance; `field` is its path, such as `instances[3]`."""
    inputs = instance.inputs  # whose `items` costs several calls of Python
    return {name: value_from_wire(inputs[name], input_path(field, name)) for name in inputs}


def instance_to_wire(instance: Instance) -> values_pb2.Instance:
    """Convert values to an instance message."""
    return values_pb2.Instance(inputs={name: value_to_wire(value) for name, value in instance.items()})


def input_path(field: Path, name: str) -> Path:
    """Return the path of an input: `instances[3].inputs["text"]`."""
    return (*field, "inputs", name)


def labels_to_wire(labels: Labels) -> attention_pb2.LabelSet:
    """Convert a label set to its message."""
    return attention_pb2.LabelSet(
        name=labels.name,
        kind=labels.kind,  # type: ignore[arg-type]
        size=labels.size,
        texts=labels.texts,
        starts=labels.starts,
        ends=labels.ends,
        ids=labels.ids,
        special=labels.special,
        parents=labels.parents,
        parent=labels.parent,
        inputs=labels.inputs,
        input_indices=labels.input_indices,
        grid=labels.grid,
        words=labels.words,
    )
