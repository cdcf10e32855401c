"""Finished maps as messages."""

from limelight.v1 import attention_pb2
from limelight.v1.attention_pb2 import AttentionMap
from service.attention.options import HeadReduction
from service.attention.part import Finished
from service.rpc.framing import Frame

REDUCTIONS = {
    HeadReduction.NONE: attention_pb2.HEAD_REDUCTION_UNSPECIFIED,
    HeadReduction.MEAN: attention_pb2.HEAD_REDUCTION_MEAN,
    HeadReduction.MAX: attention_pb2.HEAD_REDUCTION_MAX,
}


def frame_map(finished: Finished) -> Frame:
    """Put a map into its message, an `AttentionMap`."""
    part = finished.part
    description = part.description
    small = AttentionMap(
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
        head_reduction=REDUCTIONS[part.head_reduction],
        heads=part.heads,
        queries=None if part.queries is None else part.queries.tolist(),
        keys=None if part.keys is None else part.keys.tolist(),
    )
    frame = Frame(small.SerializeToString())
    for number, array in (
        (AttentionMap.WEIGHTS_FIELD_NUMBER, finished.weights),
        (AttentionMap.SCALES_FIELD_NUMBER, finished.scales),
        (AttentionMap.QUERY_INDEX_FIELD_NUMBER, part.query_index),
        (AttentionMap.KEY_INDEX_FIELD_NUMBER, part.key_index),
        (AttentionMap.LEFT_OUT_FIELD_NUMBER, part.left_out),
    ):
        if array is not None:
            frame.put_tensor(number, array)
    return frame
