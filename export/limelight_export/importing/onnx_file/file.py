"""Reading of an ONNX file, with every check that needs no runtime."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter
from onnx.external_data_helper import load_external_data_for_model

from limelight_bundle.checks.onnx_traversal import tensors_of
from limelight_bundle.checks.operators import check_graph
from limelight_bundle.errors import BundleError
from limelight_export.errors import ExportError

# A row of an input may have so many numbers, where an axis that varies has so many.
_LARGEST_ROW, _VARYING = 2**26, 16
# From this operator set on, the operators that are added take their axes as inputs.
_OLDEST_OPSET = 13
# Before version 4 an initializer was an input too, which ONNX Runtime lets no run give. Newer versions than the last
# added types and notes, which a graph that runs here does without.
_OLDEST_IR, _NEWEST_IR = 4, 10
# What exporters write for an axis of any size, beside nothing, zero and negative sizes.
_NAMELESS = frozenset({"", "?", "-1", "None"})


@dataclass(frozen=True)
class FileTensor:
    """An input or output of a graph. axes: the size of each axis, or its name where it varies; empty if unknown."""

    name: str
    dtype: np.dtype[Any]
    axes: tuple[int | str, ...]


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file in memory, weights of other files included.

    Attributes:
        model: in an operator set that the graphs of bundles may have, and without inputs that have a default.
        own: the same in the file's own operator set.
        softmaxes: the name of each Softmax node outside branches and loops, by its output.
        values: every value of the graph, outside branches and loops.
    """

    path: Path
    model: onnx.ModelProto
    own: onnx.ModelProto
    inputs: Mapping[str, FileTensor]
    outputs: Mapping[str, FileTensor]
    softmaxes: Mapping[str, str]
    values: frozenset[str]

    @property
    def opset(self) -> int:
        """Version of the file's standard operators."""
        return _opset(self.own)


def read_onnx(path: Path) -> OnnxFile:
    """Read and check an ONNX file.

    Raises:
        ExportError: the file is missing, empty, truncated, or too old to be converted; uses an operator that bundles
            may not, or a file outside its folder.
    """
    path = Path(path)
    if not path.is_file():
        raise ExportError(f"{path}: there is no such file")
    if not path.stat().st_size:
        raise ExportError(f"{path}: the file is empty")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # the parser raises its own C++ errors
        raise ExportError(f"{path}: this is not a readable ONNX file; is it complete?") from error
    if not model.graph.output or not model.graph.node:
        raise ExportError(f"{path}: this is not a readable ONNX file: its graph has no node or no output")
    files = _weight_files(path, model)
    try:
        check_graph(path, path.name, files)
    except BundleError as error:
        raise ExportError(f"{path.parent / error.message}") from error
    try:
        load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # a file that is too short raises different types
        raise ExportError(
            f"{path}: its weights in {', '.join(sorted(files))} cannot be read; are they complete?"
        ) from error
    _normalise(model)
    inputs = {each.name: _tensor(path, each) for each in model.graph.input}
    for value in model.graph.input:
        if not value.type.tensor_type.HasField("shape"):
            raise ExportError(f"{path}: the file does not state the axes of {value.name!r}; export it again")
    for name, each in inputs.items():
        numbers = math.prod(axis if isinstance(axis, int) else _VARYING for axis in each.axes[1:])
        if numbers > _LARGEST_ROW:
            raise ExportError(
                f"{path}: a row of {name!r} has {numbers} numbers; an input may have up to {_LARGEST_ROW}"
            )
    converted = _converted(path, model)
    kept = {name for node in converted.graph.node for name in node.output}
    return OnnxFile(
        path,
        converted,
        model,
        inputs,
        {each.name: _tensor(path, each) for each in model.graph.output},
        {
            node.output[0]: node.name or node.output[0]
            for node in model.graph.node
            if _is_softmax(node) and node.output[0] in kept
        },
        frozenset(name for node in model.graph.node for name in node.output if name and name in kept),
    )


def _normalise(model: onnx.ModelProto) -> None:
    """Let a file say as newer ones do what it says: weights are no inputs, and axes of any size state none."""
    weights = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    for value in (*model.graph.input, *model.graph.output):
        for each in value.type.tensor_type.shape.dim:
            if each.HasField("dim_value") and each.dim_value <= 0:
                each.ClearField("dim_value")
    model.ir_version = min(max(model.ir_version, _OLDEST_IR), _NEWEST_IR)


def _converted(path: Path, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in an operator set that is new enough; the import compares its answers with the file's own."""
    opset = _opset(model)
    if opset >= _OLDEST_OPSET:
        return model
    if not opset:
        raise ExportError(f"{path}: the file does not say which set of standard operators it uses; export it again")
    try:
        return version_converter.convert_version(model, _OLDEST_OPSET)
    except Exception as error:  # the converter raises its own C++ errors
        raise ExportError(
            f"{path}: the file uses operator set {opset}, and cannot be converted to {_OLDEST_OPSET}; export it again "
            "with a newer one"
        ) from error


def vocabulary_of(file: OnnxFile, name: str) -> int:
    """Return the number of rows of the table that an input of ids is looked up in; 0 where there is none."""
    tables = {each.name: each.dims[0] for each in file.model.graph.initializer if len(each.dims) == 2}
    tables |= {
        node.output[0]: numpy_helper.to_array(node.attribute[0].t).shape[0]
        for node in file.model.graph.node
        if node.op_type == "Constant" and node.attribute[0].name == "value" and len(node.attribute[0].t.dims) == 2
    }
    same = {name}
    for node in file.model.graph.node:
        if node.op_type in ("Cast", "Identity") and node.input[0] in same:
            same.add(node.output[0])
        if node.op_type == "Gather" and node.input[1] in same and node.input[0] in tables:
            return int(tables[node.input[0]])
    return 0


def _opset(model: onnx.ModelProto) -> int:
    return max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)


def _weight_files(path: Path, model: onnx.ModelProto) -> frozenset[str]:
    """Return the files that hold weights. Raises ExportError for one that is missing or outside the folder."""
    found = {entry.value for each in tensors_of(model) for entry in each.external_data if entry.key == "location"}
    for location in found:
        parts = PurePosixPath(location).parts
        if os.path.isabs(location) or ".." in parts or "\\" in location:
            raise ExportError(f"{path}: it reads weights from a file outside its folder")
        if not (path.parent / location).is_file():
            raise ExportError(f"{path}: its weights are in {location!r}, which is not beside it")
    return frozenset(found)


def _tensor(path: Path, value: onnx.ValueInfoProto) -> FileTensor:
    stated = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or not stated.elem_type:
        raise ExportError(f"{path}: {value.name!r} is not a tensor, or the file does not state its type")
    try:
        dtype = helper.tensor_dtype_to_np_dtype(stated.elem_type)
    except KeyError as error:
        raise ExportError(f"{path}: {value.name!r} has a type without an equivalent in NumPy") from error
    return FileTensor(value.name, dtype, tuple(_axis(place, each) for place, each in enumerate(stated.shape.dim)))


def _axis(place: int, stated: onnx.TensorShapeProto.Dimension) -> int | str:
    """Return a size, or the name of an axis; axes without a name are called by their place, the same in every input."""
    if stated.HasField("dim_value"):
        return int(stated.dim_value)
    if stated.dim_param.strip() in _NAMELESS:
        return f"axis_{place}"
    return "".join(each if each.isprintable() else "_" for each in stated.dim_param)


def _is_softmax(node: onnx.NodeProto) -> bool:
    return node.op_type == "Softmax" and node.domain in ("", "ai.onnx")
