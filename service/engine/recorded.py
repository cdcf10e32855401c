"""Runs that are recorded once and played back (CUDA graphs): one launch, where a small batch is mostly launches.

A recording has fixed shapes and fixed places in memory, so that batches are padded to one of a few shapes. It is made
in a session of its own: whatever else ran in the same arena would be given the memory that the recording works in.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from typing import Any, NamedTuple

import numpy as np

from bundle.values import Array
from service.engine.placement import DeviceValues
from service.engine.providers import runtime

logger = logging.getLogger(__name__)

# The shapes: rows, and the size of the one axis that varies. Larger batches keep a GPU busy between launches.
ROWS = (1, 2, 4, 8)
LENGTHS = (16, 32, 64, 128)
_GRAPH, _UNRECORDED = "gpu_graph_id", "-1"


class Bucket(NamedTuple):
    """What a batch is padded to. length: 0 where no axis varies."""

    rows: int
    length: int


def lengths_up_to(longest: int) -> tuple[int, ...]:
    """Give the sizes that are recorded of an axis that has `longest` entries at most; 0 for no limit."""
    if not longest or longest >= LENGTHS[-1]:
        return LENGTHS
    return (*(each for each in LENGTHS if each < longest), longest)


def buckets(lengths: Sequence[int]) -> list[Bucket]:
    """Give every shape of some lengths."""
    return [Bucket(*each) for each in product(ROWS, lengths)]


def bucket_of(rows: int, length: int, lengths: Sequence[int]) -> Bucket | None:
    """Give the smallest of these shapes that a batch fits into; None where none is as large."""
    if rows > ROWS[-1] or length > lengths[-1]:
        return None
    return Bucket(next(each for each in ROWS if each >= rows), next(each for each in lengths if each >= length))


@dataclass(frozen=True)
class _Recording:
    """One shape's: what is bound, where inputs are put and outputs found, and the options that play it back."""

    binding: Any
    inputs: Mapping[str, Any]
    outputs: Sequence[Any]
    options: Any


class Recorder:
    """Recordings of one session, which does nothing else. Thread-safe; one plays at a time."""

    def __init__(self, name: str, session: Any, placement: DeviceValues, outputs: Sequence[str]) -> None:
        self._name, self._session, self._placement = name, session, placement
        self._outputs = tuple(outputs)
        self._recordings: dict[Bucket, _Recording] = {}
        self._numbers = count(1)  # 0 is the runtime's own
        self._playing = threading.Lock()

    @property
    def recorded(self) -> frozenset[Bucket]:
        """The shapes that can be played back."""
        return frozenset(self._recordings)

    def record(self, bucket: Bucket, feeds: Mapping[str, Array]) -> None:
        """Record a shape. feeds: any inputs of it. Where that cannot be done, it is logged and the shape left out."""
        try:
            self._recordings[bucket] = self._record(feeds)
        except Exception as error:
            logger.info("%s: batches of %d x %d are not recorded: %s", self._name, *bucket, error)

    def play(self, bucket: Bucket, feeds: Mapping[str, Array]) -> list[Array] | None:
        """Run a recorded shape; None where it is not, was with other inputs, or fails, and is played no more then."""
        recording = self._recordings.get(bucket)
        if recording is None or recording.inputs.keys() != feeds.keys():
            return None
        try:
            with self._playing:
                for name, value in recording.inputs.items():
                    value.update_inplace(np.ascontiguousarray(feeds[name]))
                self._session.run_with_iobinding(recording.binding, recording.options)
                return [np.array(value.numpy()) for value in recording.outputs]  # the next run writes over them
        except Exception as error:
            logger.error("%s: the recording of %d x %d failed: %s", self._name, *bucket, error)
            self._recordings.pop(bucket, None)
            return None

    def _record(self, feeds: Mapping[str, Array]) -> _Recording:
        inputs = {name: self._placement.put(array.copy()) for name, array in feeds.items()}
        with self._playing:
            trial = self._bound(inputs)
            self._placement.bind_outputs(trial, self._outputs)
            self._session.run_with_iobinding(trial, _options(_UNRECORDED))
            outputs = [self._placement.like(value) for value in trial.get_outputs()]
            binding = self._bound(inputs)
            for name, value in zip(self._outputs, outputs, strict=True):
                binding.bind_ortvalue_output(name, value)
            options = _options(str(next(self._numbers)))
            self._session.run_with_iobinding(binding, options)
        return _Recording(binding, inputs, outputs, options)

    def _bound(self, inputs: Mapping[str, Any]) -> Any:
        binding = self._session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        return binding


def _options(graph: str) -> Any:
    options = runtime().RunOptions()
    options.add_run_config_entry(_GRAPH, graph)
    return options
