"""Statistics as messages."""

from collections.abc import Mapping

from limelight_service.observability.statistics import Part, VersionStatistics
from limelight_service.open_inference import open_inference_pb2 as pb


def statistics_message(name: str, version: int, of: VersionStatistics) -> pb.ModelStatistics:
    """Put the statistics of a version into their message."""
    success = of.calls.get(Part.SUCCESS, 0)
    message = pb.ModelStatistics(
        name=name, version=str(version), last_inference=of.last, inference_count=sum(of.rows.values())
    )
    stats = message.inference_stats
    for field, part in _FIELDS.items():
        count = success if part in _OF_EVERY_ANSWER else of.calls.get(part, 0)
        _set(getattr(stats, field), count, of.nanoseconds.get(part, 0))
    for size in sorted(of.rows):
        batches = of.batches(size)
        message.execution_count += batches
        batch = message.batch_stats.add(batch_size=size)
        _set(batch.compute_infer, batches, of.computing.get(size, 0))
        for each in (batch.compute_input, batch.compute_output):
            _set(each, batches, 0)
    return message


_FIELDS: Mapping[str, Part] = {
    "success": Part.SUCCESS,
    "fail": Part.FAIL,
    "queue": Part.QUEUE,
    "compute_input": Part.PREPROCESS,
    "compute_infer": Part.COMPUTE,
    "compute_output": Part.ENCODE,
    "cache_hit": Part.CACHE_HIT,
    "cache_miss": Part.CACHE_MISS,
}
_OF_EVERY_ANSWER = {Part.QUEUE, Part.PREPROCESS, Part.COMPUTE, Part.ENCODE}


def _set(duration: pb.StatisticDuration, count: int, nanoseconds: int) -> None:
    duration.count, duration.ns = count, nanoseconds
