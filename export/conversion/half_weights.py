"""Weights in half the room: 16 bits in the files of a bundle, 32 in its arithmetic."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.conversion.convert import check_judged, judged_again
from models.cards.card import TrainedModel

_FEWEST = 256  # numbers of a tensor that is worth a node


def rounded(trained: TrainedModel) -> TrainedModel:
    """Copy a model with every weight as near as float16 has it, and its figures with it; a tensor with numbers that are
    too large for that stays.

    Raises: ExportError, DataError or RunError where there are figures that cannot be measured again.
    """
    check_judged(trained, "with rounded weights")
    model = deepcopy(trained.model)
    for parameter in model.parameters():
        near = parameter.data.half().to(parameter.dtype)
        if near.isfinite().all():
            parameter.data.copy_(near)
    metrics = judged_again(trained.judge, trained.model, model) if trained.judge else ()
    return replace(trained, model=model, metrics=metrics)


def halve_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model with the float32 tensors that lose nothing by it in float16, each cast back by a node.

    The runtime does that once, when it opens the graph.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    casts = []
    for tensor in copy.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(tensor)
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        if values.size < _FEWEST or not np.array_equal(half.astype(np.float32), values):
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
        casts.append(helper.make_node("Cast", [tensor.name], [name], name=f"{name}.cast", to=TensorProto.FLOAT))
    nodes = [*casts, *copy.graph.node]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy
