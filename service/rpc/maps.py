"""Finished maps as messages."""

from bundle.wire import to_tensor
from limelight.v1 import attention_pb2
from service.attention.apply import Finished


def map_to_wire(finished: Finished) -> attention_pb2.AttentionMap:
    """Put a map into its message."""
    description = finished.description
    message = attention_pb2.AttentionMap(
        name=description.name,
        stack=description.stack,
        layer=description.layer if description.HasField("layer") else None,
        kind=description.kind,
        normalised=description.normalised,
        signed=description.signed,
        query_labels=description.query_labels,
        key_labels=description.key_labels,
        heads=finished.heads,
        weights=to_tensor(finished.weights),
    )
    if finished.queries is not None:
        message.queries.extend(finished.queries.tolist())
    if finished.keys is not None:
        message.keys.extend(finished.keys.tolist())
    if finished.scales is not None:
        message.scales.CopyFrom(to_tensor(finished.scales))
    if finished.query_index is not None and finished.key_index is not None:
        message.query_index.CopyFrom(to_tensor(finished.query_index))
        message.key_index.CopyFrom(to_tensor(finished.key_index))
    return message
