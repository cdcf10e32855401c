"""The asynchronous client, for asyncio."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, Unpack, cast, overload

import grpc
import grpc.aio

from limelight import calls, health, many, requests, transport
from limelight.attended import Attended
from limelight.base.errors import Error
from limelight.base.values import to_instance
from limelight.calls import Answer, Call
from limelight.connection import Connection
from limelight.described import Instances, Named, OneInstance, are_definite, is_one, listed, reading_texts, with_names
from limelight.descriptions import Model, ModelStatus
from limelight.events import GenerationEvent
from limelight.explanations import Explanation
from limelight.predictions import Prediction
from limelight.requests import (
    AttendManyOptions,
    AttendOptions,
    ExplainOptions,
    GenerateOptions,
    PredictManyOptions,
    PredictOptions,
    Target,
    TokenizeOptions,
)
from limelight.streams import StreamEvent
from limelight.tokens import Tokenized


class AsyncClient(Connection):
    """A connection to a Limelight server, for asyncio, with the arguments, calls and errors of `Client`.

    It may be used in several event loops, in sequence or in several threads; each loop has a connection of its own.
    """

    def _open(self) -> None:
        # Created at the first call in a loop: an asynchronous channel belongs to the running loop.
        self._connections: dict[asyncio.AbstractEventLoop, tuple[Any, Any]] = {}

    @overload
    async def predict(  # type: ignore[overload-overlap]
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
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[PredictOptions]
    ) -> Prediction | list[Prediction]:
        """Predict as `Client.predict` does."""
        named = await self._named(model, inputs, options.get("version", 0), timeout)
        answers = await self._call(calls.predict(model, named, **options), timeout)
        return answers[0] if is_one(inputs) else answers

    @overload
    async def attend(  # type: ignore[overload-overlap]
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
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> Attended | list[Attended]:
        """Predict with attention as `Client.attend` does."""
        named = await self._named(model, inputs, options.get("version", 0), timeout)
        answers = await self._call(calls.attend(model, named, **options), timeout)
        return answers[0] if is_one(inputs) else answers

    @overload
    async def explain(  # type: ignore[overload-overlap]
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[ExplainOptions]
    ) -> Explanation: ...
    @overload
    async def explain(
        self,
        model: str,
        inputs: Sequence[OneInstance],
        *,
        timeout: float | None = None,
        **options: Unpack[ExplainOptions],
    ) -> list[Explanation]: ...
    async def explain(
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[ExplainOptions]
    ) -> Explanation | list[Explanation]:
        """Explain as `Client.explain` does."""
        version, target = options.get("version", 0), options.get("target")
        named = await self._named(model, inputs, version, timeout)
        if isinstance(target, Target) and target.similar_to is not None:
            (other,) = await self._named(model, [target.similar_to], version, timeout)
            options["target"] = replace(target, similar_to=other)
        answers = await self._call(calls.explain(model, named, **options), timeout)
        return answers[0] if is_one(inputs) else answers

    def attend_stream(
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> AsyncIterator[StreamEvent]:
        """Stream attention as `Client.attend_stream` does, for `async for`."""
        return self._named_stream(calls.attend_stream, model, inputs, timeout, dict(options))

    def predict_many(
        self, model: str, inputs: Iterable[OneInstance], **options: Unpack[PredictManyOptions]
    ) -> AsyncIterator[Prediction | Error]:
        """Yield predictions as `Client.predict_many` does, for `async for`."""
        requests.check_options("predict_many", options)
        many.check_several(inputs)
        return self._many(calls.predict, model, inputs, **options)

    def attend_many(
        self, model: str, inputs: Iterable[OneInstance], **options: Unpack[AttendManyOptions]
    ) -> AsyncIterator[Attended | Error]:
        """Yield predictions with attention as `Client.attend_many` does, for `async for`."""
        requests.check_options("attend_many", options)
        many.check_several(inputs)
        return self._many(calls.attend, model, inputs, **options)

    def generate(
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[GenerateOptions]
    ) -> AsyncIterator[GenerationEvent]:
        """Generate as `Client.generate` does, for `async for`."""
        return self._named_stream(calls.generate, model, inputs, timeout, dict(options))

    @overload
    async def tokenize(  # type: ignore[overload-overlap]
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[TokenizeOptions]
    ) -> Tokenized: ...
    @overload
    async def tokenize(
        self,
        model: str,
        inputs: Sequence[OneInstance],
        *,
        timeout: float | None = None,
        **options: Unpack[TokenizeOptions],
    ) -> list[Tokenized]: ...
    async def tokenize(
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[TokenizeOptions]
    ) -> Tokenized | list[Tokenized]:
        """Return tokens as `Client.tokenize` does."""
        named = await self._named(model, inputs, options.get("version", 0), timeout, texts=True)
        answers = await self._call(calls.tokenize(model, named, **options), timeout)
        return answers[0] if is_one(inputs) else answers

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
            if health.says_not_ready(error):
                return False
            raise await asyncio.to_thread(transport.failure, error, self._settings) from None

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
            self._models.clear()  # another version of a model may have other inputs
            raise await asyncio.to_thread(transport.failure, error, self._settings) from None

    async def _named(
        self, model: str, inputs: Instances, version: int, timeout: float | None, *, texts: bool = False
    ) -> Sequence[Named]:
        """Return instances whose values have names, as `Client` does."""
        several = listed(inputs)
        if are_definite(several):
            return several
        described = self._models.get((model, version))
        if described is None:
            described = self._keep(await self.model(model, version, timeout=timeout), model, version)
        described = reading_texts(described) if texts else described
        return [with_names(each, described) for each in several]

    def _named_stream(
        self,
        make: Callable[..., Call[Answer]],
        model: str,
        inputs: Instances,
        timeout: float | None,
        options: dict[str, Any],
    ) -> AsyncIterator[Answer]:
        """Stream the answers of a call. What needs no description is checked here, and not at the first event."""
        limit, one = transport.check_timeout(timeout), is_one(inputs)
        if are_definite(listed(inputs)):
            return self._stream(make(model, inputs, **options), limit)

        async def described() -> AsyncIterator[Answer]:
            named = await self._named(model, inputs, options.get("version", 0), timeout)
            async with aclosing(self._stream(make(model, named[0] if one else named, **options), limit)) as stream:
                async for each in stream:
                    yield each

        return described()

    async def _many(
        self,
        make: Callable[..., Call[list[Answer]]],
        model: str,
        inputs: Iterable[OneInstance],
        *,
        batch_size: int = many.BATCH,
        concurrency: int = many.CONCURRENCY,
        progress: many.Progress = False,
        timeout: float | None = None,
        **options: Any,
    ) -> AsyncIterator[Answer | Error]:
        course = many.Course(batch_size, self._timeout(timeout))
        places = asyncio.Semaphore(many.check_concurrency(concurrency))
        batcher, most = many.Batcher(course), 2 * concurrency

        async def prepare(number: int, instance: OneInstance) -> many.Instance:
            try:
                (named,) = await self._named(model, [instance], options.get("version", 0), timeout)
                return to_instance(named, f"instances[{number}]")
            except many.UNSENDABLE as error:
                return many.refusal(error, number)

        async def exchange(batch: Sequence[tuple[int, many.Instance]]) -> list[Answer | Error]:
            steps, reply = many.answers(batch, course), cast(Any, None)
            async with places:
                try:
                    while True:
                        step = steps.send(reply)
                        if isinstance(step, list):
                            reply = await self._reply(make(model, step, **options), timeout)
                        else:
                            await asyncio.sleep(step)
                except StopIteration as finished:
                    found: list[Answer | Error] = finished.value
                    return found

        running: deque[asyncio.Task[list[Answer | Error]]] = deque()
        with many.counting(progress, many.total_of(inputs)) as count:
            try:
                for number, instance in enumerate(inputs):
                    if batch := batcher.add(await prepare(number, instance)):
                        running.append(asyncio.create_task(exchange(batch)))
                    while len(running) >= most or (running and running[0].done()):
                        count(len(answers := await running.popleft()))
                        for answer in answers:
                            yield answer
                running.append(asyncio.create_task(exchange(batcher.rest())))
                while running:
                    count(len(answers := await running.popleft()))
                    for answer in answers:
                        yield answer
            finally:
                for each in running:
                    each.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    async def _reply(self, call: Call[Answer], timeout: float | None) -> Answer | Error:
        try:
            return await self._call(call, timeout)
        except Error as error:
            return error

    async def _call(self, call: Call[Answer], timeout: float | None) -> Answer:
        return calls.read(call, await self.call(call.method, call.request, timeout=timeout))

    async def _stream(self, call: Call[Answer], timeout: float | None) -> AsyncGenerator[Answer, None]:
        stream = getattr(self._stub(), call.method)(
            call.request, timeout=self._timeout(timeout), metadata=self._settings.call_metadata or None
        )
        try:
            async for response in stream:
                yield calls.read(call, response)
            calls.check_end(call)
        except grpc.RpcError as error:
            raise await asyncio.to_thread(transport.failure, error, self._settings) from None
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


def open_channel(settings: transport.Settings) -> Any:
    """Open an asynchronous channel, which belongs to the running event loop."""
    options, credentials = transport.channel_options(settings), settings.channel_credentials
    if credentials is None:
        return grpc.aio.insecure_channel(settings.address, options)
    return grpc.aio.secure_channel(settings.address, credentials, options)
