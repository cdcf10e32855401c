"""A graph in 16-bit floating point, for GPUs: half the size."""

import onnx
import onnx_ir

from export.errors import ExportError
from export.execution.onnx_runner import onnx_runtime
from export.writing.external_weights import is_large

# Sums over edges: the runtime has them in float32 alone on CPUs, where every bundle is checked.
_STAY = ("ScatterElements",)


def halve(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a copy of a float32 model that computes in float16; inputs and outputs stay as they are.

    Raises: ExportError where the graph has an operator that ONNX Runtime's converter cannot turn.
    """
    onnx_runtime()  # the first to import it turns its telemetry off
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    # Both the checker and the inference of shapes, which the conversion does without, take a model as one message.
    large = is_large(model)
    try:
        converted = convert_float_to_float16(
            copy, keep_io_types=True, disable_shape_infer=large, op_block_list=[*DEFAULT_OP_BLOCK_LIST, *_STAY]
        )
        _drop_repeated(converted.graph)
        # It puts its casts at the end, where they stand behind what reads them.
        sorted_ = onnx_ir.from_proto(converted)
        sorted_.graph.sort()
        proto: onnx.ModelProto = onnx_ir.to_proto(sorted_)
        if not large:
            onnx.checker.check_model(proto)
    except Exception as error:  # it raises many kinds
        raise ExportError(f"the graph cannot be turned into float16: {error}") from error
    del proto.graph.value_info[:]
    return proto


def _drop_repeated(graph: onnx.GraphProto) -> None:
    """Keep one of the casts that the converter writes for each time that a node in float32 reads the same value."""
    made: set[str] = set()
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        if made.isdisjoint(node.output):
            graph.node.append(node)
        made.update(filter(None, node.output))  # an output that is left out has no name
