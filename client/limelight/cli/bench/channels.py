"""gRPC connections that send serialised requests, for any protocol over gRPC."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc

from limelight import aio, transport
from limelight.base import errors
from limelight.cli.bench.load import OK, Reply, Send
from limelight.cli.connection import Connection
from limelight.security import Security


class Channels:
    """Several connections to one server, used in turn."""

    def __init__(self, channels: Sequence[Any], settings: transport.Settings) -> None:
        self._channels, self._settings = channels, settings
        self._metadata = settings.call_metadata or None
        self._timeout = settings.timeout

    async def call(self, path: str, request: bytes) -> bytes:
        """Call a unary method, `/package.Service/Method`. Raises errors.Error."""
        try:
            method = self._channels[0].unary_unary(path)  # without serialisers: bytes
            answer: bytes = await method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise await asyncio.to_thread(transport.failure, error, self._settings) from None
        return answer

    def sender(self, path: str, requests: Sequence[bytes], *, streams: bool = False) -> Send:
        """Return a function that sends the requests in turn to a method. streams: whether it answers with a stream."""
        methods = [each.unary_stream(path) if streams else each.unary_unary(path) for each in self._channels]

        async def send(number: int) -> Reply:
            method = methods[number % len(methods)]
            call = method(requests[number % len(requests)], timeout=self._timeout, metadata=self._metadata)
            try:
                size = sum([len(each) async for each in call]) if streams else len(await call)
            except grpc.RpcError as failed:
                error = errors.from_rpc(failed)
                return Reply(error.code.name, message=error.message, retry_after=error.retry_after)
            return Reply(OK, size)

        return send


@asynccontextmanager
async def opened(
    connection: Connection, *, count: int, attempts: int, timeout: float, service: str | None = None
) -> AsyncIterator[Channels]:
    """Open connections for the length of a block.

    Args:
        count: number of connections. A server of several processes gives each to one of them.
        service: full name of the service whose calls have `attempts`, unless it is that of limelight.v1.
    """
    settings = transport.Settings(
        target=connection.target,
        timeout=timeout,
        attempts=attempts,
        security=Security(**connection.security),
        options=(
            # Even with one attempt, gRPC retries calls that the server did not process, which would hide refusals.
            ("grpc.enable_retries", int(attempts > 1)),
            # Channels with one pool of connections would share one connection.
            ("grpc.use_local_subchannel_pool", 1),
            *((("grpc.service_config", _service_config(service, attempts)),) if service else ()),
        ),
    )
    channels = [aio.open_channel(settings) for _ in range(count)]
    try:
        yield Channels(channels, settings)
    finally:
        await asyncio.gather(*(each.close() for each in channels))


def _service_config(service: str, attempts: int) -> str:
    """Return the client's service config for another service."""
    config = json.loads(transport.service_config(attempts))
    config["methodConfig"][0]["name"] = [{"service": service}]
    return json.dumps(config)
