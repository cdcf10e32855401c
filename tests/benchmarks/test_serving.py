"""The comparison of servers: batches of the runtime alone, medians, the peers' protocol."""

import numpy as np

from benchmarks.peers import kserve
from benchmarks.serving.figures import Figure, Medians
from benchmarks.serving.runtime_alone import _Queue


def _figure(who: str, load: str, rate: float) -> Figure:
    return Figure("predict", "32", "Predict", who, load, rate, rate, p50=1, p99=2, cpu=3)


def test_a_batch_is_the_oldest_row_and_those_nearest_to_it_in_length() -> None:
    waiting = _Queue([np.zeros(size, np.int64) for size in (30, 100, 31, 5, 28, 90)], callers=6)
    assert [len(row) for row in waiting.take(3)] == [30, 31, 28]
    assert [len(row) for row in waiting.take(3)] == [100, 5, 90]
    assert waiting.take(3) == []
    waiting.come(1)  # the rows come round again
    assert [len(row) for row in waiting.take(3)] == [30]


def test_the_best_way_takes_no_more_callers_than_there_are() -> None:
    medians = Medians([_figure("runtime, a", "1", 10), _figure("runtime, b", "8", 20), _figure("Limelight", "1", 99)])
    found = [medians.best_runtime("predict", "32", "Predict", callers) for callers in (1, 7, 8, 64)]
    assert [each.rate if each else None for each in found] == [10, 10, 20, 20]


def test_rounds_are_taken_together_by_their_median() -> None:
    medians = Medians([_figure("Limelight", "8", rate) for rate in (5, 100, 7)])
    assert [each.rate for each in medians.all] == [7]


def test_a_request_of_the_inference_protocol_reads_back() -> None:
    ids = np.arange(1, 201, dtype=np.int64)[None]
    found = dict(_fields(kserve.infer("encoder", {"token_ids": ids}, ["logits"])))
    assert found[1] == b"encoder"
    assert dict(_fields(found[5])) == {1: b"token_ids", 2: b"INT64", 3: b"\x01\xc8\x01"}  # shape [1, 200]
    assert dict(_fields(found[6])) == {1: b"logits"}
    assert found[7] == ids.tobytes()


def _fields(message: bytes) -> list[tuple[int, bytes]]:
    """Take a message of nothing but bytes apart: number and content of each field."""
    found, at = [], 0
    while at < len(message):
        number, at, size, shift = message[at] >> 3, at + 1, 0, 0
        while True:
            byte, at = message[at], at + 1
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        found.append((number, message[at : at + size]))
        at += size
    return found
