"""Finished maps as messages."""

from collections.abc import Iterable

from limelight.v1 import attention_pb2, model_pb2
from limelight.v1.attention_pb2 import AttentionMap
from limelight.v1.service_pb2 import AttentionChunk
from limelight_bundle.values import Array
from limelight_service.attention.options import HeadReduction
from limelight_service.codecs.v1.framing import Frame
from limelight_service.ipc.boundary import MapResult

REDUCTIONS = {
    HeadReduction.NONE: attention_pb2.HEAD_REDUCTION_UNSPECIFIED,
    HeadReduction.MEAN: attention_pb2.HEAD_REDUCTION_MEAN,
    HeadReduction.MAX: attention_pb2.HEAD_REDUCTION_MAX,
}


def frame_map(finished: MapResult, description: model_pb2.MapDescription, quantity: int) -> Frame:
    """Put a map into its message, an `AttentionMap`. description: of the map, or of the rollout that it is."""
    header = map_header(
        description,
        quantity,
        heads=finished.heads,
        reduction=finished.head_reduction,
        queries=finished.queries,
        keys=finished.keys,
        query_labels=finished.query_labels,
        key_labels=finished.key_labels,
        normalised=finished.normalised,
        signed=finished.signed,
    )
    frame = Frame(header.SerializeToString())
    put_arrays(frame, AttentionMap, finished)
    return frame


def map_header(
    description: model_pb2.MapDescription,
    quantity: int,
    *,
    heads: Iterable[int],
    reduction: HeadReduction,
    queries: Array | None,
    keys: Array | None,
    query_labels: str,
    key_labels: str,
    normalised: bool,
    signed: bool,
) -> AttentionMap:
    """Describe a map without its numbers. queries, keys: indices of those that are here; None for all."""
    return AttentionMap(
        name=description.name,
        stack=description.stack,
        layer=description.layer if description.HasField("layer") else None,
        kind=description.kind,
        quantity=quantity,  # type: ignore[arg-type]
        normalised=normalised,
        signed=signed,
        query_labels=query_labels,
        key_labels=key_labels,
        head_labels=description.head_labels,
        feature_labels=description.feature_labels,
        head_reduction=REDUCTIONS[reduction],
        heads=heads,
        queries=None if queries is None else queries.tolist(),
        keys=None if keys is None else keys.tolist(),
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
