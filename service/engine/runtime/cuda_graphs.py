"""CUDA graphs: runs that are captured once and replayed, as one launch, where a small batch is mostly launches.

A CUDA graph has fixed shapes and fixed places in memory, so that batches are padded to one of a few shapes. It is
captured in a session of its own: another run in the same arena would be given the memory that the graph works in.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from typing import Any, NamedTuple

import numpy as np

from bundle.values import Array
from service.engine.runtime.device_graphs import bind_outputs, like, put
from service.engine.runtime.providers import Provider, runtime

logger = logging.getLogger(__name__)

# The shapes: rows, and the size of the one axis that varies. Larger batches keep a GPU busy between launches.
ROWS = (1, 2, 4, 8)
LENGTHS = (16, 32, 64, 128)
_GRAPH, _NOT_CAPTURED = "gpu_graph_id", "-1"


class ShapeBucket(NamedTuple):
    """The shape that a batch is padded to. length: 0 where no axis varies."""

    rows: int
    length: int


def lengths_up_to(longest: int) -> tuple[int, ...]:
    """Give the sizes that are captured of an axis that has `longest` entries at most; 0 for no limit."""
    if not longest or longest >= LENGTHS[-1]:
        return LENGTHS
    return (*(each for each in LENGTHS if each < longest), longest)


def buckets(lengths: Sequence[int]) -> list[ShapeBucket]:
    """Give every shape of some lengths."""
    return [ShapeBucket(*each) for each in product(ROWS, lengths)]


def bucket_of(rows: int, length: int, lengths: Sequence[int]) -> ShapeBucket | None:
    """Give the smallest of these shapes that a batch fits into; None where none is as large."""
    if rows > ROWS[-1] or length > lengths[-1]:
        return None
    return ShapeBucket(next(each for each in ROWS if each >= rows), next(each for each in lengths if each >= length))


@dataclass(frozen=True)
class _CudaGraph:
    """The graph of one shape: its binding, the places of inputs and outputs, and the options that replay it."""

    binding: Any
    inputs: Mapping[str, Any]
    outputs: Sequence[Any]
    options: Any


class CudaGraphCache:
    """CUDA graphs of one session, which does nothing else. Thread-safe; one is replayed at a time."""

    def __init__(self, name: str, session: Any, provider: Provider, outputs: Sequence[str]) -> None:
        self._name, self._session, self._provider = name, session, provider
        self._outputs = tuple(outputs)
        self._graphs: dict[ShapeBucket, _CudaGraph] = {}
        self._numbers = count(1)  # 0 is the runtime's own
        self._replaying = threading.Lock()

    @property
    def captured(self) -> frozenset[ShapeBucket]:
        """The shapes that can be replayed."""
        return frozenset(self._graphs)

    def capture(self, bucket: ShapeBucket, feeds: Mapping[str, Array]) -> None:
        """Capture a shape. feeds: any inputs of it. A shape that cannot be captured is logged and left out."""
        try:
            self._graphs[bucket] = self._capture(feeds)
        except Exception as error:
            logger.info("%s: batches of %d x %d are not captured: %s", self._name, *bucket, error)

    def replay(self, bucket: ShapeBucket, feeds: Mapping[str, Array]) -> list[Array] | None:
        """Replay a shape; None where it was not captured, or with other inputs, or fails: then it is left out."""
        graph = self._graphs.get(bucket)
        if graph is None or graph.inputs.keys() != feeds.keys():
            return None
        try:
            with self._replaying:
                for name, value in graph.inputs.items():
                    value.update_inplace(np.ascontiguousarray(feeds[name]))
                self._session.run_with_iobinding(graph.binding, graph.options)
                return [np.array(value.numpy()) for value in graph.outputs]  # the next run writes over them
        except Exception as error:
            logger.error("%s: the CUDA graph of %d x %d failed: %s", self._name, *bucket, error)
            self._graphs.pop(bucket, None)
            return None

    def _capture(self, feeds: Mapping[str, Array]) -> _CudaGraph:
        inputs = {name: put(array.copy(), self._provider) for name, array in feeds.items()}
        with self._replaying:
            trial = self._bound(inputs)
            bind_outputs(trial, self._outputs, self._provider)
            self._session.run_with_iobinding(trial, _options(_NOT_CAPTURED))
            outputs = [like(value, self._provider) for value in trial.get_outputs()]
            binding = self._bound(inputs)
            for name, value in zip(self._outputs, outputs, strict=True):
                binding.bind_ortvalue_output(name, value)
            options = _options(str(next(self._numbers)))
            self._session.run_with_iobinding(binding, options)
        return _CudaGraph(binding, inputs, outputs, options)

    def _bound(self, inputs: Mapping[str, Any]) -> Any:
        binding = self._session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        return binding


def _options(graph: str) -> Any:
    options = runtime().RunOptions()
    options.add_run_config_entry(_GRAPH, graph)
    return options
