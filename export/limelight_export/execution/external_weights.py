"""Weights outside a graph's file: those that several graphs of a bundle have stand once, and a file ends at 2 GB."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import helper

_FILE = "weights.data"
# Largest weights inside a graph's file; the rest of the graph must fit into 2 GiB with them.
MAX_EMBEDDED_BYTES = 2**31 - 2**26
# Tensors start at page boundaries, so that they can be mapped; smaller tensors stay in the graph.
_PAGE = 4096


def is_large(model: onnx.ModelProto) -> bool:
    """Return whether a model is too large for one protobuf message, and must not be serialised whole."""
    return sum(map(_size, model.graph.initializer)) > MAX_EMBEDDED_BYTES


def graph_files(graphs: Mapping[str, onnx.ModelProto], scratch: Path) -> dict[str, bytes | Path]:
    """Return the files of graphs by file name: of weights that several of them have, or a large one has, one beside.

    Args:
        graphs: by name of the file, such as `model.onnx`.
        scratch: folder for the file of weights.
    """
    external = _external_digests(graphs)
    if not any(external.values()):
        return {file: model.SerializeToString(deterministic=True) for file, model in graphs.items()}
    files: dict[str, bytes | Path] = {_FILE: scratch / _FILE}
    offsets: dict[bytes, int] = {}
    with (scratch / _FILE).open("wb") as written:
        for file, model in graphs.items():
            replaced: dict[str, onnx.TensorProto] = {}
            for tensor in model.graph.initializer:
                digest = external[file].get(tensor.name)
                if digest is None:
                    continue
                if digest not in offsets:
                    written.write(bytes(-written.tell() % _PAGE))
                    offsets[digest] = written.tell()
                    written.write(tensor.raw_data)
                replaced[tensor.name] = _reference(tensor, offsets[digest])
            files[file] = _replace_initializers(model, replaced).SerializeToString(deterministic=True)
    return files


def _external_digests(graphs: Mapping[str, onnx.ModelProto]) -> dict[str, dict[str, bytes]]:
    """Return the digests of the weights that lie outside their graph, by graph and name."""
    large = {file: is_large(model) for file, model in graphs.items()}
    if len(graphs) == 1 and not any(large.values()):
        return {file: {} for file in graphs}
    digests = {
        file: {
            tensor.name: hashlib.sha256(tensor.raw_data).digest()
            for tensor in model.graph.initializer
            if _size(tensor) >= _PAGE and tensor.HasField("raw_data")
        }
        for file, model in graphs.items()
    }
    having = Counter(digest for own in digests.values() for digest in set(own.values()))
    return {
        file: {name: digest for name, digest in own.items() if large[file] or having[digest] > 1}
        for file, own in digests.items()
    }


def _size(tensor: onnx.TensorProto) -> int:
    return math.prod(tensor.dims) * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _reference(tensor: onnx.TensorProto, offset: int) -> onnx.TensorProto:
    """Return a tensor that refers to its data in the file of weights."""
    made = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    made.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", _FILE), ("offset", str(offset)), ("length", str(_size(tensor)))):
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
