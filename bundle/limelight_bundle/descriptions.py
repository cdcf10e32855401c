"""The public descriptions of a model, for code that reads bundles and speaks no protocol of the service.

The messages and enums are those of `limelight.v1`, in which bundles state them.
"""

from limelight.v1.attention_pb2 import (
    LABEL_KIND_INPUT_STEPS,
    LABEL_KIND_OUTPUT_STEPS,
    QUANTITY_SCORES,
    Quantity,
)
from limelight.v1.model_pb2 import (
    ACTIVATION_SIGMOID,
    ACTIVATION_SOFTMAX,
    MAP_FORM_EDGES,
    Dimension,
    LabelSetDescription,
    MapDescription,
    ModelDescription,
    OutputDescription,
    SequenceDescription,
    TensorDescription,
)

__all__ = [
    "ACTIVATION_SIGMOID",
    "ACTIVATION_SOFTMAX",
    "LABEL_KIND_INPUT_STEPS",
    "LABEL_KIND_OUTPUT_STEPS",
    "MAP_FORM_EDGES",
    "QUANTITY_SCORES",
    "Dimension",
    "LabelSetDescription",
    "MapDescription",
    "ModelDescription",
    "OutputDescription",
    "Quantity",
    "SequenceDescription",
    "TensorDescription",
    "input_steps",
    "sequence_description",
]


def sequence_description(description: ModelDescription) -> SequenceDescription:
    """Find the result that is a token sequence; empty where the model does not generate."""
    for each in description.results:
        if each.HasField("sequence"):
            return each.sequence
    return SequenceDescription()


def input_steps(description: ModelDescription) -> list[LabelSetDescription]:
    """Find the label sets of the input steps of a model that generates."""
    return [each for each in description.label_sets if each.kind == LABEL_KIND_INPUT_STEPS]
