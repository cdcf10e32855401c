"""Maps as messages."""

from limelight.v1 import attention_pb2, model_pb2
from limelight.v1.attention_pb2 import AttentionMap
from limelight.v1.service_pb2 import AttentionChunk
from limelight_service.attention.options import HeadReduction
from limelight_service.codecs.answers import MapHead, map_head
from limelight_service.codecs.framing import Frame
from limelight_service.ipc.boundary import MapResult

REDUCTIONS = {
    HeadReduction.NONE: attention_pb2.HEAD_REDUCTION_UNSPECIFIED,
    HeadReduction.MEAN: attention_pb2.HEAD_REDUCTION_MEAN,
    HeadReduction.MAX: attention_pb2.HEAD_REDUCTION_MAX,
}


def frame_map(finished: MapResult, description: model_pb2.MapDescription, quantity: int) -> Frame:
    """Put a map into its message, an `AttentionMap`. description: of the map, or of the rollout that it is."""
    frame = Frame(map_header(map_head(finished, description, quantity)).SerializeToString())
    put_arrays(frame, AttentionMap, finished)
    return frame


def map_header(head: MapHead) -> AttentionMap:
    """Describe a map without its numbers."""
    description = head.description
    return AttentionMap(
        name=description.name,
        stack=description.stack,
        layer=description.layer if description.HasField("layer") else None,
        kind=description.kind,
        quantity=head.quantity,  # type: ignore[arg-type]
        normalised=head.normalised,
        signed=head.signed,
        query_labels=head.query_labels,
        key_labels=head.key_labels,
        head_labels=description.head_labels,
        feature_labels=description.feature_labels,
        head_reduction=REDUCTIONS[head.head_reduction],
        heads=head.heads,
        queries=head.queries,
        keys=head.keys,
    )


def put_arrays(frame: Frame, message: type[AttentionMap] | type[AttentionChunk], finished: MapResult) -> None:
    """Put a map's numbers into a message that has fields for them."""
    for number, array in (
        (message.WEIGHTS_FIELD_NUMBER, finished.weights),
        (message.SCALES_FIELD_NUMBER, finished.scales),
        (message.QUERY_INDEX_FIELD_NUMBER, finished.query_index),
        (message.KEY_INDEX_FIELD_NUMBER, finished.key_index),
        (message.LEFT_OUT_FIELD_NUMBER, finished.left_out),
    ):
        if array is not None:
            frame.put_tensor(number, array)
