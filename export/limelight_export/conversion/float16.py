"""Conversion to 16-bit floating point, for GPUs: half the size."""

import onnx
import onnx_ir

from limelight_export.errors import ExportError
from limelight_export.execution.external_weights import is_large
from limelight_export.execution.onnx_runner import onnx_runtime
from limelight_export.surgery.interventions import CHANGING
from limelight_export.surgery.optional_inputs import READER

# Sums over edges: on CPUs, where every bundle is verified, ONNX Runtime has only the float32 kernel.
_FLOAT32_OPERATORS = ("ScatterElements",)


def convert_to_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a float32 model that computes in float16. Its inputs and outputs keep their types.

    Raises:
        ExportError: ONNX Runtime's converter cannot convert an operator of the graph.
    """
    onnx_runtime()  # telemetry must be off before the first import
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    # The checker and shape inference need the model as one message; the conversion works without both.
    large = is_large(model)
    try:
        converted = convert_float_to_float16(
            copy,
            keep_io_types=True,
            disable_shape_infer=large,
            op_block_list=[*DEFAULT_OP_BLOCK_LIST, *_FLOAT32_OPERATORS],
            node_block_list=[each.name for each in copy.graph.node if _changes_weights(each)],
        )
        _drop_duplicate_casts(converted.graph)
        # The converter appends its casts behind the nodes that read them.
        sorted_ = onnx_ir.from_proto(converted)
        sorted_.graph.sort()
        proto: onnx.ModelProto = onnx_ir.to_proto(sorted_)
        if not large:
            onnx.checker.check_model(proto)
    except Exception as error:  # the converter raises many types
        raise ExportError(f"the graph cannot be converted to float16: {error}") from error
    del proto.graph.value_info[:]
    return proto


def _changes_weights(node: onnx.NodeProto) -> bool:
    """Tell whether a node is of an intervention, whose factors may be larger than float16 has numbers."""
    return node.name.startswith(CHANGING) or node.name.endswith(READER)


def _drop_duplicate_casts(graph: onnx.GraphProto) -> None:
    """Drop repeated casts of one value: the converter writes one for each float32 node that reads it."""
    made: set[str] = set()
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        if made.isdisjoint(node.output):
            graph.node.append(node)
        made.update(filter(None, node.output))  # an omitted output has no name
