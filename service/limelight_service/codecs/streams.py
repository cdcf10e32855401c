"""Answers of limelight.v1 that come in parts, for every encoding: the core's events become what a protocol sends."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Protocol

from limelight_service.codecs.answers import StreamSums
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest, CheckedCall, Prediction, PreparedInstance
from limelight_service.frontend.core import Core
from limelight_service.ipc.boundary import ChunkResult, GenerationBegun, StreamBegun, TokenResult
from limelight_service.observability.observer import Stage

_LARGE_CHUNK = 2**18  # bytes of weights from which a chunk is written on a thread


class MapStream(Protocol):
    """Writes the parts of AttendStream for one instance."""

    @property
    def sums(self) -> StreamSums: ...

    def begin(self, prediction: Prediction, begun: StreamBegun) -> bytes:
        """Write the first part. Raises: TooLargeError; InputError for keys that the instance lacks."""

    def chunk(self, chunk: ChunkResult) -> bytes:
        """Write a chunk. Raises: TooLargeError."""

    def end(self) -> bytes:
        """Write the last part."""


class Generation(Protocol):
    """Writes the parts of one Generate call."""

    def begin(self, begun: GenerationBegun) -> bytes:
        """Write the first part, with the label sets that are known before the first token."""

    def token(self, token: TokenResult) -> bytes:
        """Write one token, with its row of every map."""

    def end(self, prediction: Prediction) -> bytes:
        """Write the last part: the whole sequence, and the maps that no token brought."""


async def map_stream(
    core: Core, request: CallRequest, call: Call, writer: Callable[[CheckedCall, int], MapStream]
) -> AsyncGenerator[bytes, None]:
    """Answer with maps chunk by chunk, one instance after the other. writer: for an instance, by its place."""
    stream: MapStream | None = None
    async with aclosing(core.stream_maps(request, call)) as events:
        async for event in events:
            if isinstance(event, tuple):
                checked, place, prediction, begun = event
                stream = writer(checked, place)
                data = await core.made(checked, partial(stream.begin, prediction, begun), call)
                yield data
                continue
            assert stream is not None
            if isinstance(event, ChunkResult):
                large = event.map.weights.nbytes >= _LARGE_CHUNK
                yield await asyncio.to_thread(stream.chunk, event) if large else stream.chunk(event)
            else:
                core.stage(Stage.ENCODE, stream.sums.encode_nanoseconds, call)
                yield stream.end()


async def generation(
    core: Core, request: CallRequest, call: Call, writer: Callable[[CheckedCall, PreparedInstance], Generation]
) -> AsyncGenerator[bytes, None]:
    """Answer token by token; the limit on an answer's bytes counts the whole stream."""
    parts: Generation | None = None
    async with aclosing(core.generate(request, call)) as events:
        async for event in events:
            if isinstance(event, tuple):
                checked, prepared, begun = event
                parts = writer(checked, prepared)
                data = await core.made(checked, partial(parts.begin, begun), call)
                yield data
                continue
            assert parts is not None
            if isinstance(event, TokenResult):
                yield parts.token(event)
            else:
                data = await core.made(checked, partial(parts.end, event), call)
                yield data
