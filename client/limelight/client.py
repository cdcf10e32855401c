"""The synchronous client."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, Unpack, overload

import grpc

from limelight import calls, health, many, requests, transport
from limelight.attended import Attended
from limelight.base.errors import Error
from limelight.base.values import to_instance
from limelight.calls import Answer, Call
from limelight.connection import Connection
from limelight.described import Instances, Named, OneInstance, are_definite, is_one, listed, with_names
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
)
from limelight.streams import StreamEvent


class Client(Connection):
    """A connection to a Limelight server. Several threads may share it. Close it, or use it in a `with` block.

    Args:
        target: `host:port`, or any address that gRPC accepts. Calls take turns over the servers of `dns:///name:port`
            and of `ipv4:a:port,b:port`.
        timeout: default time limit of a call in seconds, retries included; None for no limit.
        max_response_bytes: largest attention of an answer (gRPC's default of 4 MiB is less than many answers have); the
            whole message may have 1 MiB more.
        attempts: number of attempts of a call, from 1 to 5, while no server answers; pauses between them grow.
        security: `ca`, `cert`, `key`, `tls`, `server_name`, `token`, `insecure`; see `limelight.security`.
            Without `ca`, `cert` and `tls` the connection is not encrypted.
        credentials: gRPC's channel credentials, in place of `ca`, `cert`, `key` and `tls`.
        metadata: metadata of every call.
        options: gRPC channel options; they override the client's, a service config as a whole.

    A failed call raises a subclass of `limelight.Error`. Arguments that cannot be sent raise InputError (a subclass,
    and a ValueError), ValueError or TypeError.
    """

    def _open(self) -> None:
        channel_options = transport.channel_options(self._settings)
        made = self._settings.channel_credentials
        if made is None:
            self._channel = grpc.insecure_channel(self._settings.address, channel_options)
        else:
            self._channel = grpc.secure_channel(self._settings.address, made, channel_options)
        self._stub = transport.service_methods(self._channel)

    @overload
    def predict(  # type: ignore[overload-overlap]
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[PredictOptions]
    ) -> Prediction: ...
    @overload
    def predict(
        self,
        model: str,
        inputs: Sequence[OneInstance],
        *,
        timeout: float | None = None,
        **options: Unpack[PredictOptions],
    ) -> list[Prediction]: ...
    def predict(
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[PredictOptions]
    ) -> Prediction | list[Prediction]:
        """Return the prediction for one instance, or a list for a list of instances.

        Args:
            inputs: values by input name, or the value alone where the model has one input: a text, a path, pixels, an
                image of Pillow… (`limelight.base.values`).
            options: version, truncate, outputs, seed, generation, max_classes; see `limelight.requests.PredictOptions`.
            timeout: time limit in seconds; None for the client's.
        """
        named = self._named(model, inputs, options.get("version", 0), timeout)
        answers = self._call(calls.predict(model, named, **options), timeout)
        return answers[0] if is_one(inputs) else answers

    @overload
    def attend(  # type: ignore[overload-overlap]
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> Attended: ...
    @overload
    def attend(
        self,
        model: str,
        inputs: Sequence[OneInstance],
        *,
        timeout: float | None = None,
        **options: Unpack[AttendOptions],
    ) -> list[Attended]: ...
    def attend(
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> Attended | list[Attended]:
        """Predict as `predict` does, with attention weights.

        Args:
            options: those of `predict`, and the fields of `Attention`: maps, layers, heads, queries, keys, quantity,
                reduce, rollout, key_groups, query_groups, pool, top_k, encoding, sequences…
        """
        named = self._named(model, inputs, options.get("version", 0), timeout)
        answers = self._call(calls.attend(model, named, **options), timeout)
        return answers[0] if is_one(inputs) else answers

    @overload
    def explain(  # type: ignore[overload-overlap]
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[ExplainOptions]
    ) -> Explanation: ...
    @overload
    def explain(
        self,
        model: str,
        inputs: Sequence[OneInstance],
        *,
        timeout: float | None = None,
        **options: Unpack[ExplainOptions],
    ) -> list[Explanation]: ...
    def explain(
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[ExplainOptions]
    ) -> Explanation | list[Explanation]:
        """Tell what of its input an answer depends on: for each unit (a word, a patch), its share of the attention, and
        how the answer changes without it.

        Args:
            options: target, units, unit_size, unit_inputs, ways, maps, layers, heads, queries, selections, version,
                truncate, interventions, seed, generation, max_classes; see `limelight.requests.ExplainOptions`.
        """
        version, target = options.get("version", 0), options.get("target")
        named = self._named(model, inputs, version, timeout)
        if isinstance(target, Target) and target.similar_to is not None:
            (other,) = self._named(model, [target.similar_to], version, timeout)
            options["target"] = replace(target, similar_to=other)
        answers = self._call(calls.explain(model, named, **options), timeout)
        return answers[0] if is_one(inputs) else answers

    def attend_stream(
        self, model: str, inputs: Instances, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> Iterator[StreamEvent]:
        """Predict as `attend` does, with maps of any size as a stream of chunks.

        Each instance yields a `StreamStart`, the `MapChunk`s of its maps as they are computed, and a `StreamEnd`.
        Closing the iterator cancels the call; a slow reader slows the server's computation. `limelight.put_together`
        collects the chunks in memory, `limelight.save_maps` in files.

        Args:
            options: those of `attend` except rollout, query_groups, pool and sequences; max_response_bytes limits a
                message.
            timeout: time limit of the whole stream in seconds.
        """
        named = self._named(model, inputs, options.get("version", 0), timeout)
        return self._stream(calls.attend_stream(model, named, **options), transport.check_timeout(timeout))

    def predict_many(
        self, model: str, inputs: Iterable[OneInstance], **options: Unpack[PredictManyOptions]
    ) -> Iterator[Prediction | Error]:
        """Yield the prediction for each instance, in order, and the Error of each that failed.

        Instances are sent several at a time in several calls at the same time. A call that is too large is split. A
        refused instance fails alone, and what an overloaded server refuses is sent again when it says, unless that is
        later than `timeout`.

        Args:
            inputs: any number of instances, which are read as they are sent.
            options: batch_size, concurrency, progress, timeout of each call (see `limelight.requests.ManyOptions`), and
                those of `predict`.
        Raises:
            Error: one that every call would get: an unknown model or option, no server, no permission.
        """
        requests.check_options("predict_many", options)
        many.check_several(inputs)
        return self._many(calls.predict, model, inputs, **options)

    def attend_many(
        self, model: str, inputs: Iterable[OneInstance], **options: Unpack[AttendManyOptions]
    ) -> Iterator[Attended | Error]:
        """Yield the prediction with attention for each instance as `predict_many` does.

        Args:
            options: those of `attend`.
        """
        requests.check_options("attend_many", options)
        many.check_several(inputs)
        return self._many(calls.attend, model, inputs, **options)

    def generate(
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[GenerateOptions]
    ) -> Iterator[GenerationEvent]:
        """Yield the events of one sequence as they arrive: a start, one event a token, an end.

        Closing the iterator cancels the call.

        Args:
            options: version, truncate, seed, the fields of `Generation` (strategy, temperature, top_k, top_p, beams…),
                and `attention`, an `Attention`, for weights with each token.
            timeout: time limit of the whole sequence in seconds.
        """
        # Not a generator, so that invalid inputs are reported here and not at the first event.
        (named,) = self._named(model, [inputs], options.get("version", 0), timeout)
        return self._stream(calls.generate(model, named, **options), transport.check_timeout(timeout))

    def models(self, *, timeout: float | None = None) -> list[ModelStatus]:
        """List the models in the repository by name and version, including those that failed to load."""
        return self._call(calls.models(), timeout)

    def model(self, name: str, version: int = 0, *, timeout: float | None = None) -> Model:
        """Describe one model; version 0 is the default version."""
        return self._call(calls.model(name, version), timeout)

    def load_model(self, name: str, version: int = 0, *, timeout: float | None = None) -> ModelStatus:
        """Load a version of the repository's folder, and return its state once it is loaded or refused.

        Version 0 is the highest in the folder. The server runs with `--model-control explicit`.
        """
        return self._call(calls.load_model(name, version), timeout)

    def unload_model(self, name: str, version: int = 0, *, timeout: float | None = None) -> None:
        """Unload a version; version 0 is the default version. Returns once the calls that use it have ended."""
        self._call(calls.unload_model(name, version), timeout)

    def ready(self, *, timeout: float | None = None) -> bool:
        """Return whether the server is ready: a model can answer, and the server is not stopping.

        Needs no token.
        """
        try:
            return bool(health.check(self._channel)(None, timeout=self._start_call(timeout)))
        except grpc.RpcError as error:
            if health.says_not_ready(error):
                return False
            raise transport.failure(error, self._settings) from None

    def close(self) -> None:
        """Close the connection, and cancel every running call."""
        self._channel.close()
        transport.unregister_channel(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """Send a protocol message to a unary RPC, and return the response message."""
        try:
            return getattr(self._stub, method)(
                request, timeout=self._start_call(timeout), metadata=self._settings.call_metadata
            )
        except grpc.RpcError as error:
            self._models.clear()  # another version of a model may have other inputs
            raise transport.failure(error, self._settings) from None

    def _named(self, model: str, inputs: Instances, version: int, timeout: float | None) -> Sequence[Named]:
        """Return instances whose values have names. Describes the model, once, where they have none."""
        several = listed(inputs)
        if are_definite(several):
            return several
        described = self._models.get((model, version))
        if described is None:
            described = self._keep(self.model(model, version, timeout=timeout), model, version)
        return [with_names(each, described) for each in several]

    def _many(
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
    ) -> Iterator[Answer | Error]:
        course = many.Course(batch_size, self._timeout(timeout))
        batcher, most = many.Batcher(course), 2 * many.check_concurrency(concurrency)

        def prepare(number: int, instance: OneInstance) -> many.Instance:
            try:
                (named,) = self._named(model, [instance], options.get("version", 0), timeout)
                return to_instance(named, f"instances[{number}]")
            except many.UNSENDABLE as error:
                return many.refusal(error, number)

        def exchange(batch: Sequence[tuple[int, many.Instance]]) -> list[Answer | Error]:
            return many.exchanged(batch, course, lambda step: self._reply(make(model, step, **options), timeout))

        running: deque[Future[list[Answer | Error]]] = deque()
        with many.counting(progress, many.total_of(inputs)) as count, ThreadPoolExecutor(concurrency) as pool:
            try:
                for number, instance in enumerate(inputs):
                    if batch := batcher.add(prepare(number, instance)):
                        running.append(pool.submit(exchange, batch))
                    while len(running) >= most or (running and running[0].done()):
                        count(len(found := running.popleft().result()))
                        yield from found
                running.append(pool.submit(exchange, batcher.rest()))
                while running:
                    count(len(found := running.popleft().result()))
                    yield from found
            finally:
                for each in running:
                    each.cancel()

    def _reply(self, call: Call[Answer], timeout: float | None) -> Answer | Error:
        try:
            return self._call(call, timeout)
        except Error as error:
            return error

    def _call(self, call: Call[Answer], timeout: float | None) -> Answer:
        return calls.read(call, self.call(call.method, call.request, timeout=timeout))

    def _stream(self, call: Call[Answer], timeout: float | None) -> Iterator[Answer]:
        method = getattr(self._stub, call.method)
        stream = method(call.request, timeout=self._start_call(timeout), metadata=self._settings.call_metadata)
        try:
            for response in stream:
                yield calls.read(call, response)
            calls.check_end(call)
        except grpc.RpcError as error:
            raise transport.failure(error, self._settings) from None
        finally:
            stream.cancel()

    def _start_call(self, timeout: float | None) -> float | None:
        """Register the start of a call, and return its time limit."""
        transport.register_channel(self._channel)
        return self._timeout(timeout)
