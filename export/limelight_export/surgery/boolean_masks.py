"""Proves from a graph that a tensor which is added to scores is a boolean mask: it holds nothing but 0 and -inf."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

_FIRST, _ALL = slice(0, 1), slice(None)
# The inputs of an operator whose elements, if they are 0 and -inf, make its result 0 and -inf too.
_SOURCES: Mapping[str, slice] = {
    **dict.fromkeys(("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile"), _FIRST),
    **dict.fromkeys(("Slice", "Split", "Gather", "GatherElements", "GatherND", "Trilu"), _FIRST),
    "Where": slice(1, 3),
    **dict.fromkeys(("Concat", "Add", "Sum", "Min", "Max"), _ALL),
}
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)


class BooleanMasks:
    """The values of a graph, branches and loops aside, that hold nothing but 0 and -inf, whatever its inputs are."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._makers = {name: node for node in graph.node for name in node.output}
        inputs = {each.name for each in graph.input}  # whose initializer is a default
        self._constants = {each.name: each for each in graph.initializer if each.name not in inputs}
        self._proven: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        if name not in self._proven:
            self._proven[name] = self._proves(name)
        return self._proven[name]

    def _proves(self, name: str) -> bool:
        if name in self._constants:
            return _is_mask(self._constants[name])
        node = self._makers.get(name)
        if node is None or node.domain not in ("", "ai.onnx"):
            return False
        given = {each.name: each for each in node.attribute}
        if node.op_type in ("Constant", "ConstantOfShape"):  # the latter makes zeros unless told otherwise
            return _is_mask(given["value"].t) if "value" in given else node.op_type == "ConstantOfShape"
        if node.op_type == "Cast":
            return given["to"].i in _FLOATS and node.input[0] in self
        read = node.input[_SOURCES.get(node.op_type, slice(0))]
        return bool(read) and all(each in self for each in read)


def _is_mask(tensor: onnx.TensorProto) -> bool:
    if tensor.data_type not in _FLOATS or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    array = numpy_helper.to_array(tensor)
    return bool(((array == 0) | (array == -np.inf)).all())
