"""Storage of weights as float16; computation stays in float32."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from limelight_export.conversion.convert import check_remeasurable, remeasure
from limelight_models.cards.card import TrainedModel

_MIN_VALUES = 256  # below this many values, the cast costs more than it saves


def round_to_float16(trained: TrainedModel) -> TrainedModel:
    """Copy a model with every weight rounded to float16, and measure its metrics again.

    A tensor with values beyond float16's range stays as it is.

    Raises:
        ExportError, DataError, RunError: the model has metrics that cannot be measured again.
    """
    check_remeasurable(trained, "with rounded weights")
    model = deepcopy(trained.model)
    for parameter in model.parameters():
        nearest = parameter.data.half().to(parameter.dtype)
        if nearest.isfinite().all():
            parameter.data.copy_(nearest)
    metrics = remeasure(trained.judge, trained.model, model) if trained.judge else ()
    return replace(trained, model=model, metrics=metrics)


def store_as_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model with its weights stored as float16 where that is exact, and cast back by nodes.

    ONNX Runtime computes the cast once, when it loads the graph.
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
        if values.size < _MIN_VALUES or not np.array_equal(half.astype(np.float32), values):
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
        casts.append(helper.make_node("Cast", [tensor.name], [name], name=f"{name}.cast", to=TensorProto.FLOAT))
    nodes = [*casts, *copy.graph.node]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy
