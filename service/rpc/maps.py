"""Finished maps as messages."""

from bundle.wire import to_tensor
from limelight.v1 import attention_pb2
from service.attention.options import HeadReduction
from service.attention.part import Finished

_REDUCTIONS = {
    HeadReduction.NONE: attention_pb2.HEAD_REDUCTION_UNSPECIFIED,
    HeadReduction.MEAN: attention_pb2.HEAD_REDUCTION_MEAN,
    HeadReduction.MAX: attention_pb2.HEAD_REDUCTION_MAX,
}


def map_to_wire(finished: Finished) -> attention_pb2.AttentionMap:
    """Put a map into its message."""
    part = finished.part
    description = part.description
    message = attention_pb2.AttentionMap(
        name=description.name,
        stack=description.stack,
        layer=description.layer if description.HasField("layer") else None,
        kind=description.kind,
        quantity=part.quantity,  # type: ignore[arg-type]
        normalised=part.normalised,
        signed=part.signed,
        query_labels=part.query_labels,
        key_labels=part.key_labels,
        head_labels=description.head_labels,
        feature_labels=description.feature_labels,
        head_reduction=_REDUCTIONS[part.head_reduction],
        heads=part.heads,
        weights=to_tensor(finished.weights),
    )
    if part.queries is not None:
        message.queries.extend(part.queries.tolist())
    if part.keys is not None:
        message.keys.extend(part.keys.tolist())
    if finished.scales is not None:
        message.scales.CopyFrom(to_tensor(finished.scales))
    if part.query_index is not None and part.key_index is not None:
        message.query_index.CopyFrom(to_tensor(part.query_index))
        message.key_index.CopyFrom(to_tensor(part.key_index))
    if part.left_out is not None:
        message.left_out.CopyFrom(to_tensor(part.left_out))
    return message
