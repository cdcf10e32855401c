"""Results of rows, kept for callers who send the same row again.

They are found by callers with the same token alone: an answer that comes at once tells that somebody has asked before.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CheckedCall
from limelight_service.ipc import wire
from limelight_service.ipc.boundary import InferenceRequest, RowResult, Timing
from limelight_service.ipc.client import EngineClient
from limelight_service.observability.metrics import Metrics

T = TypeVar("T")

_LARGE = 2**16  # bytes of rows that are hashed on a thread
_ENTRY = 512  # bytes that a row takes beside its tensors, and a kept result beside its own: about
_SHARE = 4  # a result may take this part of all bytes


@dataclass(frozen=True, slots=True)
class _Kept:
    """The result of a row of a version, encoded: it takes the bytes that are counted, and nobody can change it."""

    data: bytes
    version: tuple[str, int]

    @property
    def size(self) -> int:
        return len(self.data) + _ENTRY


class ResponseCache:
    """Results by the hash of all that decides them; those that nobody asked for longest make room. For one event loop.

    limit: bytes of all results.
    """

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self._limit = limit
        self._metrics = metrics
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._size = 0

    def engine(self, checked: CheckedCall, call: Call) -> "CachedEngine":
        """Give the engine of a call, which is handed the rows whose results are not kept for the caller."""
        served = checked.schema.served
        owner = served.digest, served.provider, call.caller.name
        return CachedEngine(self, checked.model.engine(), owner, checked.is_large)

    def gone(self, name: str, version: int) -> None:
        """Drop the results of a version that is gone."""
        for key in [key for key, each in self._kept.items() if each.version == (name, version)]:
            self._size -= self._kept.pop(key).size
        self._metrics.cache_size(self._size, evicted=0)

    def _find(self, key: bytes) -> bytes | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return kept.data

    def _keep(self, key: bytes, kept: _Kept) -> None:
        if kept.size * _SHARE > self._limit or key in self._kept:
            return
        self._kept[key] = kept
        self._size += kept.size
        evicted = 0
        while self._size > self._limit:
            self._size -= self._kept.popitem(last=False)[1].size
            evicted += 1
        self._metrics.cache_size(self._size, evicted=evicted)

    def _encoded(self, result: RowResult) -> bytes | None:
        """Encode a result as the next caller gets it; None for one that is not kept."""
        size = sum([each.nbytes for each in result.outputs.values()]) + sum(
            [each.weights.nbytes for each in result.maps]
        )
        if result.seed is not None or size * _SHARE > self._limit:
            return None
        kept = msgspec.structs.replace(result, timing=Timing(0, 0), reduce_nanoseconds=0, cached=True)
        return wire.to_bytes(kept)


@dataclass(frozen=True)
class CachedEngine:
    """An engine with a cache in front, for one call. owner: the bundle that answers, and the caller."""

    _cache: ResponseCache
    _engine: EngineClient
    _owner: tuple[str, ...]
    _is_large: bool

    async def answer(self, request: InferenceRequest, make: Callable[[int, RowResult], T]) -> list[T]:
        """As `EngineClient.answer`. Rows for which something is drawn are neither looked up nor kept."""
        if request.generation.draws:
            return await self._engine.answer(request, make)
        cache, began = self._cache, time.perf_counter_ns()
        rows, seeds, count = request.rows, request.seeds, len(request.rows)
        size = sum([each.nbytes for row in rows for each in row.tensors.values()]) + count * _ENTRY
        keys = await _run(lambda: wire.fingerprints(request, self._owner), on_thread=size > _LARGE)
        found = {place: data for place, key in enumerate(keys) if (data := cache._find(key)) is not None}
        missing = [place for place in range(count) if place not in found]
        results = await _run(lambda: [wire.from_bytes(each) for each in found.values()], on_thread=self._is_large)
        made = {place: make(place, result) for place, result in zip(found, results, strict=True)}
        looking, keeping = time.perf_counter_ns() - began, 0
        if missing:
            of_missing = replace(
                request, rows=tuple([rows[each] for each in missing]), seeds=tuple([seeds[each] for each in missing])
            )
            pairs = await self._engine.answer(of_missing, lambda index, result: (make(missing[index], result), result))
            began = time.perf_counter_ns()
            encoded = await _run(lambda: [cache._encoded(result) for _, result in pairs], on_thread=self._is_large)
            for place, (value, _), data in zip(missing, pairs, encoded, strict=True):
                made[place] = value
                if data is not None:
                    cache._keep(keys[place], _Kept(data, (request.model, request.version)))
            keeping = time.perf_counter_ns() - began
        cache._metrics.cache_asked(
            request.model, request.version, len(found), len(missing), looking=looking, keeping=keeping
        )
        return [made[place] for place in range(count)]


async def _run(function: Callable[[], T], *, on_thread: bool) -> T:
    return await asyncio.to_thread(function) if on_thread else function()
