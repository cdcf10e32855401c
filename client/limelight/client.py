"""The synchronous client."""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NoReturn, Self, Unpack, overload

import grpc

from limelight import calls, errors, health, requests, transport
from limelight.attended import Attended
from limelight.calls import Answer, Call
from limelight.descriptions import Model, ModelStatus
from limelight.events import GenerationEvent
from limelight.predictions import Prediction
from limelight.requests import AttendOptions, GenerateOptions, PredictOptions
from limelight.security import Security, SecurityOptions
from limelight.streams import StreamEvent
from limelight.v1 import values_pb2
from limelight.values import Inputs

OneInstance = Inputs | values_pb2.Instance


class Client:
    """A connection to a Limelight server. It may be used from several threads; close it, or use it in a `with` block.

    Args:
        target: `host:port`, or any address that gRPC understands.
        timeout: seconds that a call may take, retries included, unless the call says otherwise; None for no limit.
        max_response_bytes: how much attention an answer may hold (gRPC's own limit, 4 MiB, is less than many have); the
            whole message may have 1 MiB more.
        attempts: how often a call is tried while no server answers, from 1 to 5; the pauses between grow.
        security: `ca`, `cert`, `key`, `tls`, `server_name`, `token`, `insecure`; see `limelight.security`.
            Without any of `ca`, `cert` and `tls` the connection is not encrypted.
        credentials: gRPC's own, in place of `ca`, `cert`, `key` and `tls`.
        metadata: sent with every call.
        options: channel options of gRPC, which win over those that the client sets.

    A call that fails raises a subclass of `limelight.Error`. What cannot be sent raises InputError (one of them, and a
    ValueError), ValueError or TypeError.
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
            security=Security(**security),
            metadata=tuple(metadata),
            options=tuple(options),
        )
        channel_options = transport.channel_options(self._settings)
        made = self._settings.channel_credentials
        if made is None:
            self._channel = grpc.insecure_channel(self._settings.address, channel_options)
        else:
            self._channel = grpc.secure_channel(self._settings.address, made, channel_options)
        self._stub = transport.stub(self._channel)

    @overload
    def predict(
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
        self, model: str, inputs: requests.Instances, *, timeout: float | None = None, **options: Unpack[PredictOptions]
    ) -> Prediction | list[Prediction]:
        """The prediction for one instance (values by input name), or a list for a list of instances.

        Options: version, truncate, outputs, seed, generation, max_classes; see `limelight.requests.PredictOptions`.
        `timeout` None is the client's own.
        """
        answers = self._call(calls.predict(model, inputs, **options), timeout)
        return answers[0] if requests.is_one(inputs) else answers

    @overload
    def attend(
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
        self, model: str, inputs: requests.Instances, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> Attended | list[Attended]:
        """As `predict`, with the attention weights behind each answer.

        Options: those of `predict`, and the fields of `Attention`: maps, layers, heads, queries, keys, quantity,
        reduce, rollout, key_groups, query_groups, pool, top_k, encoding, sequences…
        """
        answers = self._call(calls.attend(model, inputs, **options), timeout)
        return answers[0] if requests.is_one(inputs) else answers

    def attend_stream(
        self, model: str, inputs: requests.Instances, *, timeout: float | None = None, **options: Unpack[AttendOptions]
    ) -> Iterator[StreamEvent]:
        """As `attend`, for maps of any size: for each instance a `StreamStart`, the `MapChunk`s of its maps as they are
        computed, and a `StreamEnd`. Closing it cancels the call; who reads slowly has the server compute slowly.

        Options: those of `attend` but rollout, query_groups, pool and sequences; max_response_bytes is of a message.
        `limelight.put_together` collects the chunks in memory, `limelight.save_maps` in files. `timeout` is for the
        whole stream.
        """
        return self._stream(calls.attend_stream(model, inputs, **options), transport.check_timeout(timeout))

    def generate(
        self, model: str, inputs: OneInstance, *, timeout: float | None = None, **options: Unpack[GenerateOptions]
    ) -> Iterator[GenerationEvent]:
        """The events of one sequence as they come: a start, a token each, an end. Closing it cancels the call.

        Options: version, truncate, seed, the fields of `Generation` (strategy, temperature, top_k, top_p, beams…), and
        `attention`, an `Attention`, for weights with each token. `timeout` is for the whole sequence.
        """
        # Not a generator itself: bad inputs are reported here, and not when the first event is asked for.
        return self._stream(calls.generate(model, inputs, **options), transport.check_timeout(timeout))

    def models(self, *, timeout: float | None = None) -> list[ModelStatus]:
        """Every model in the repository, in order of name and version; those that failed to load too."""
        return self._call(calls.models(), timeout)

    def model(self, name: str, version: int = 0, *, timeout: float | None = None) -> Model:
        """Everything about one model; version 0 is the default one."""
        return self._call(calls.model(name, version), timeout)

    def ready(self, *, timeout: float | None = None) -> bool:
        """Whether the server reports ready: some model answers, and it is not about to stop. Needs no token."""
        try:
            return bool(health.check(self._channel)(None, timeout=self._begun(timeout)))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None

    def __reduce__(self) -> NoReturn:
        raise TypeError(transport.NOT_COPIED)

    def close(self) -> None:
        """Ends the connection, and every call that is under way."""
        self._channel.close()
        transport.drop(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, call: Call[Answer], timeout: float | None) -> Answer:
        method = getattr(self._stub, call.method)
        try:
            response = method(call.request, timeout=self._begun(timeout), metadata=self._settings.sent)
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None
        return calls.read(call, response)

    def _stream(self, call: Call[Answer], timeout: float | None) -> Iterator[Answer]:
        method = getattr(self._stub, call.method)
        stream = method(call.request, timeout=self._begun(timeout), metadata=self._settings.sent)
        try:
            for response in stream:
                yield calls.read(call, response)
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None
        finally:
            stream.cancel()

    def _begun(self, timeout: float | None) -> float | None:
        """Note that a call begins; the time that it has."""
        transport.keep(self._channel)
        return self._settings.timeout if timeout is None else transport.check_timeout(timeout)
