"""Weights outside the graph's file: a protobuf message, and so an .onnx file, ends at 2 GB."""

import math
from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import helper

# Largest weights inside a graph's file; the rest of the graph must fit into 2 GiB with them.
MAX_EMBEDDED_BYTES = 2**31 - 2**26
# Tensors start at page boundaries, so that they can be mapped; smaller tensors stay in the graph.
_PAGE = 4096


def is_large(model: onnx.ModelProto) -> bool:
    """Return whether a model is too large for one protobuf message, and must not be serialised whole."""
    return sum(map(_size, model.graph.initializer)) > MAX_EMBEDDED_BYTES


def graph_files(file: str, model: onnx.ModelProto, scratch: Path) -> dict[str, bytes | Path]:
    """Return the files of a graph by file name.

    Args:
        file: name of the graph's file, such as `model.onnx`.
        scratch: folder for the weights of a large graph, such as `model.data`.
    """
    if not is_large(model):
        return {file: model.SerializeToString(deterministic=True)}
    data = str(Path(file).with_suffix(".data"))
    external: dict[str, onnx.TensorProto] = {}
    with (scratch / data).open("wb") as written:
        for tensor in model.graph.initializer:
            if _size(tensor) < _PAGE or not tensor.HasField("raw_data"):
                continue
            written.write(bytes(-written.tell() % _PAGE))
            external[tensor.name] = _reference(tensor, data, written.tell())
            written.write(tensor.raw_data)
    return {file: _replace_initializers(model, external).SerializeToString(deterministic=True), data: scratch / data}


def _size(tensor: onnx.TensorProto) -> int:
    return math.prod(tensor.dims) * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _reference(tensor: onnx.TensorProto, file: str, offset: int) -> onnx.TensorProto:
    """Return a tensor that refers to its data in a file."""
    made = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    made.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", str(offset)), ("length", str(_size(tensor)))):
        made.external_data.add(key=key, value=value)
    return made


def _replace_initializers(model: onnx.ModelProto, external: Mapping[str, onnx.TensorProto]) -> onnx.ModelProto:
    """Copy a model, with some of its initializers replaced and not copied."""
    graph = onnx.GraphProto()
    for field, content in model.graph.ListFields():
        if field.name != "initializer":
            _copy(graph, field.name, content)
    graph.initializer.extend(external.get(each.name, each) for each in model.graph.initializer)
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
