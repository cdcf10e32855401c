"""The asynchronous client, for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self, Unpack, overload

import grpc
import grpc.aio

from limelight import calls, errors, health, requests, transport
from limelight.attended import Attended
from limelight.calls import Answer, Call
from limelight.client import OneInstance
from limelight.descriptions import Model, ModelStatus
from limelight.events import GenerationEvent
from limelight.predictions import Prediction
from limelight.requests import AttendOptions, GenerateOptions, PredictOptions
from limelight.security import SecurityOptions, security_of
from limelight.streams import StreamEvent


class AsyncClient:
    """A connection to a Limelight server, for asyncio, with the arguments, calls and errors of `Client`.

    It may be used in several event loops, in sequence or in several threads; each loop has a connection of its own.
    """

    def __init__(
        self,
        target: str = transport.DEFAULT_TARGET,
        *,
        timeout: float | None = transport.DEFAULT_TIMEOUT,
        max_response_bytes: int = transport.DEFAULT_MAX_RESPONSE_BYTES,
        attempts: int = 4,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Sequence[tuple[str, str | bytes]] = (),
        options: Sequence[tuple[str, int | str]] = (),
        **security: Unpack[SecurityOptions],
    ) -> None:
        self._settings = transport.Settings(
            target=target,
            timeout=timeout,
            max_response_bytes=max_response_bytes,
            attempts=attempts,
            credentials=credentials,
            security=security_of(**security),
            metadata=tuple(metadata),
            options=tuple(options),
        )
        # Created at the first call in a loop: an asynchronous channel belongs to the running loop.
        self._connections: dict[asyncio.AbstractEventLoop, tuple[Any, Any]] = {}

    @overload
    async def predict(
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[PredictOptions]
    ) -> Prediction: ...
    @overload
    async def predict(
        self,
        model: str,
        inputs: Sequence[OneInstance],
        *,
        timeout: float | None = None,
        **options: Unpack[PredictOptions],
    ) -> list[Prediction]: ...
    async def predict(
        self, model: str, inputs: requests.Instances, *, timeout: float | None = None, **options: Unpack[PredictOptions]
    ) -> Prediction | list[Prediction]:
        """Predict as `Client.predict` does."""
        answers = await self._call(calls.predict(model, inputs, **options), timeout)
        return answers[0] if requests.is_one(inputs) else answers

    @overload
    async def attend(
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> Attended: ...
    @overload
    async def attend(
        self,
        model: str,
        inputs: Sequence[OneInstance],
        *,
        timeout: float | None = None,
        **options: Unpack[AttendOptions],
    ) -> list[Attended]: ...
    async def attend(
        self, model: str, inputs: requests.Instances, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> Attended | list[Attended]:
        """Predict with attention as `Client.attend` does."""
        answers = await self._call(calls.attend(model, inputs, **options), timeout)
        return answers[0] if requests.is_one(inputs) else answers

    def attend_stream(
        self, model: str, inputs: requests.Instances, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> AsyncIterator[StreamEvent]:
        """Stream attention as `Client.attend_stream` does, for `async for`."""
        return self._stream(calls.attend_stream(model, inputs, **options), transport.check_timeout(timeout))

    def generate(
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[GenerateOptions]
    ) -> AsyncIterator[GenerationEvent]:
        """Generate as `Client.generate` does, for `async for`."""
        return self._stream(calls.generate(model, inputs, **options), transport.check_timeout(timeout))

    async def models(self, *, timeout: float | None = None) -> list[ModelStatus]:
        """List models as `Client.models` does."""
        return await self._call(calls.models(), timeout)

    async def model(self, name: str, version: int = 0, *, timeout: float | None = None) -> Model:
        """Describe a model as `Client.model` does."""
        return await self._call(calls.model(name, version), timeout)

    async def load_model(self, name: str, version: int = 0, *, timeout: float | None = None) -> ModelStatus:
        """Load a version as `Client.load_model` does."""
        return await self._call(calls.load_model(name, version), timeout)

    async def unload_model(self, name: str, version: int = 0, *, timeout: float | None = None) -> None:
        """Unload a version as `Client.unload_model` does."""
        await self._call(calls.unload_model(name, version), timeout)

    async def ready(self, *, timeout: float | None = None) -> bool:
        """Return whether the server is ready, as `Client.ready` does."""
        try:
            channel, _ = self._connected()
            return bool(await health.check(channel)(None, timeout=self._timeout(timeout)))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None

    async def close(self) -> None:
        """Close the connection, and cancel every running call. A later call connects again."""
        connections, self._connections = self._connections, {}
        here = connections.pop(asyncio.get_running_loop(), None)
        for loop, (channel, _) in connections.items():
            transport.unregister_channel(channel)
            if loop.is_running():  # the connections of a closed loop are closed
                asyncio.run_coroutine_threadsafe(channel.close(), loop)
        if here is not None:
            transport.unregister_channel(here[0])
            await here[0].close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(transport.NOT_COPIED)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """Send a protocol message to a unary RPC, and return the response message."""
        try:
            return await getattr(self._stub(), method)(
                request, timeout=self._timeout(timeout), metadata=self._settings.call_metadata or None
            )
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None

    async def _call(self, call: Call[Answer], timeout: float | None) -> Answer:
        return calls.read(call, await self.call(call.method, call.request, timeout=timeout))

    async def _stream(self, call: Call[Answer], timeout: float | None) -> AsyncIterator[Answer]:
        stream = getattr(self._stub(), call.method)(
            call.request, timeout=self._timeout(timeout), metadata=self._settings.call_metadata or None
        )
        try:
            async for response in stream:
                yield calls.read(call, response)
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None
        finally:
            stream.cancel()

    def _stub(self) -> Any:
        return self._connected()[1]

    def _connected(self) -> tuple[Any, Any]:
        """Return the channel of the running event loop, and the methods on it."""
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            transport.check_fork()
            self._connections = {each: made for each, made in self._connections.items() if not each.is_closed()}
            channel = open_channel(self._settings)
            transport.register_channel(channel)
            self._connections[loop] = channel, transport.service_methods(channel)
        return self._connections[loop]

    def _timeout(self, timeout: float | None) -> float | None:
        return self._settings.timeout if timeout is None else transport.check_timeout(timeout)


def open_channel(settings: transport.Settings) -> Any:
    """Open an asynchronous channel, which belongs to the running event loop."""
    options, credentials = transport.channel_options(settings), settings.channel_credentials
    if credentials is None:
        return grpc.aio.insecure_channel(settings.address, options)
    return grpc.aio.secure_channel(settings.address, credentials, options)
