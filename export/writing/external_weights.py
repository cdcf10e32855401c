"""Graphs with a file of weights beside them: a protobuf message, and so an .onnx file, ends at 2 GB."""

import math
from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import helper

# What weights may weigh inside of a graph's file; below 2 GiB, which everything else in it must fit as well.
LARGEST = 2**31 - 2**26
# Tensors begin where memory can be mapped; smaller ones stay in the graph.
_PAGE = 4096


def is_large(model: onnx.ModelProto) -> bool:
    """Tell whether a model is too large for one message: nothing may serialise it as it is."""
    return sum(map(_bytes, model.graph.initializer)) > LARGEST


def graph_files(file: str, model: onnx.ModelProto, scratch: Path) -> dict[str, bytes | Path]:
    """Give the files of a graph, by the names that they must have beside each other.

    file: of the graph, `model.onnx`. scratch: a folder for the weights of a large one, `model.data`.
    """
    if not is_large(model):
        return {file: model.SerializeToString(deterministic=True)}
    data = str(Path(file).with_suffix(".data"))
    outside: dict[str, onnx.TensorProto] = {}
    with (scratch / data).open("wb") as written:
        for tensor in model.graph.initializer:
            if _bytes(tensor) < _PAGE or not tensor.HasField("raw_data"):
                continue
            written.write(bytes(-written.tell() % _PAGE))
            outside[tensor.name] = _reference(tensor, data, written.tell())
            written.write(tensor.raw_data)
    return {file: _with(model, outside).SerializeToString(deterministic=True), data: scratch / data}


def _bytes(tensor: onnx.TensorProto) -> int:
    return math.prod(tensor.dims) * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _reference(tensor: onnx.TensorProto, file: str, offset: int) -> onnx.TensorProto:
    """Say where a tensor is, in its place."""
    made = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    made.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", str(offset)), ("length", str(_bytes(tensor)))):
        made.external_data.add(key=key, value=value)
    return made


def _with(model: onnx.ModelProto, outside: Mapping[str, onnx.TensorProto]) -> onnx.ModelProto:
    """Copy a model with other initializers in the place of some, which are not copied on the way."""
    graph = onnx.GraphProto()
    for field, content in model.graph.ListFields():
        if field.name != "initializer":
            _copy(graph, field.name, content)
    graph.initializer.extend(outside.get(each.name, each) for each in model.graph.initializer)
    made = onnx.ModelProto()
    for field, content in model.ListFields():
        _copy(made, field.name, graph if field.name == "graph" else content)
    return made


def _copy(message: onnx.GraphProto | onnx.ModelProto, name: str, content: object) -> None:
    if isinstance(content, str | int):
        setattr(message, name, content)
    elif hasattr(content, "CopyFrom"):
        getattr(message, name).CopyFrom(content)
    else:
        getattr(message, name).extend(content)
