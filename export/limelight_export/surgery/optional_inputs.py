"""Optional inputs of a graph: those with a default."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from limelight_bundle.values import Array
from limelight_export.interface import Axes
from limelight_export.surgery.subgraphs import rename_reads

# What the name of the node that reads an optional input ends with.
READER = ":reader"


def declare_optional_input(model: onnx.ModelProto, name: str, default: Array, axes: Axes) -> None:
    """Add an input with a default to a graph, in place.

    It is read by one node. On CUDA the runtime copies an initializer that nodes of both providers read, and those of
    CUDA read the copy: they would get the default, whatever a caller gives.
    """
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(default.dtype), axes))
    graph.initializer.append(numpy_helper.from_array(default, name))  # an input with an initializer is optional
    read = f"{name}:read"
    rename_reads(graph, {name: read})
    # Of a value with itself: a node that no optimiser removes.
    same = helper.make_node("Or" if default.dtype == np.bool_ else "Max", [name, name], [read], name=f"{name}{READER}")
    graph.node.insert(0, same)
