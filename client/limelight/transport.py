"""Channel options, deadlines and retries of both clients."""

import json
import math
import os
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import grpc

from limelight.base.addresses import DEFAULT_TARGET
from limelight.base.errors import Error, InputError, from_rpc
from limelight.base.strings import check_string, invalid_string
from limelight.handshakes import explained
from limelight.security import Security
from limelight.targets import has_several_addresses, is_direct, resolvable
from limelight.v1 import admin_pb2_grpc, service_pb2_grpc

DEFAULT_TIMEOUT = 60.0
DEFAULT_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
# Allowance beside the weights: gRPC's limit counts the whole message.
_MARGIN_BYTES = 1024 * 1024
# Largest call that gRPC can retry. The default of 256 KiB is less than a photograph.
_RETRY_BUFFER_BYTES = 16 * 1024 * 1024
_NO_NAME, _NO_VALUE = re.compile(r"[^a-z0-9_.-]"), re.compile(r"[^ -~]")
_SERVICE = "limelight.v1.AttentionService"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Connection settings of a client."""

    target: str = DEFAULT_TARGET
    timeout: float | None = DEFAULT_TIMEOUT
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    attempts: int = 4
    credentials: grpc.ChannelCredentials | None = None
    security: Security = field(default_factory=Security)
    metadata: tuple[tuple[str, str | bytes], ...] = field(default=(), repr=False)
    options: tuple[tuple[str, int | str], ...] = ()

    def __post_init__(self) -> None:
        check_string(self.target, "target")
        check_metadata(self.metadata)
        for name, value in self.options:
            check_string(name, "the name of an option")
            check_string(str(value), f"option {name}")
        check_timeout(self.timeout)
        if not 1 <= self.attempts <= 5:
            raise ValueError(f"attempts is from 1 to 5 (gRPC's own limit), not {self.attempts}")
        if self.max_response_bytes < 1:
            raise ValueError(f"max_response_bytes is at least 1, not {self.max_response_bytes}")
        if self.credentials is not None and self.security.encrypted:
            raise ValueError("give either credentials, or ca, cert, key and tls")
        _ = self.call_metadata  # report errors here, and not at the first call

    @property
    def address(self) -> str:
        """The target as gRPC takes it."""
        return resolvable(self.target)

    @cached_property
    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """Return the channel credentials for TLS; None without TLS."""
        return self.credentials or self.security.credentials()

    @cached_property
    def call_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """Return the metadata of every call."""
        encrypted = self.channel_credentials is not None
        return (*self.metadata, *self.security.metadata(self.target, encrypted=encrypted))


def failure(error: Any, settings: Settings) -> Error:
    """Return the error of a `grpc.RpcError`. Where no server answered, this may take a second: TLS is tried."""
    return explained(from_rpc(error), settings.target, encrypted=settings.channel_credentials is not None)


def check_timeout(timeout: float | None) -> float | None:
    """Return a valid `timeout`. Raises ValueError unless it is None or a positive, finite number."""
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise ValueError(f"timeout is a positive number of seconds or None, not {timeout!r}")
    return timeout


def check_metadata(metadata: Sequence[tuple[str, str | bytes]]) -> None:
    """Check that gRPC can send metadata. gRPC's own error would display values, secrets included.

    Raises:
        InputError: names the entry and the first invalid character, without values.
    """
    for number, (name, value) in enumerate(metadata):
        field = f"metadata[{number}]"
        if (wrong := _NO_NAME.search(name)) or not name or name.startswith("grpc-"):
            what = (
                f"character {wrong.start()} is none of a-z, 0-9, _, - and ." if wrong else "it is empty, or gRPC's own"
            )
            raise invalid_string(f"{field}, the name", what)
        if isinstance(value, bytes):
            if not name.endswith("-bin"):
                raise InputError(f"{field}, {name!r}: bytes go under a name that ends with -bin")
        elif wrong := _NO_VALUE.search(value):
            raise invalid_string(f"{field}, {name!r}", f"character {wrong.start()} of its value is not printable ASCII")


def channel_options(settings: Settings) -> Sequence[tuple[str, int | str]]:
    """Return channel options, each name once (gRPC takes the first of several): the user's override the client's.

    Only what keeps an unencrypted token from a proxy, and the name of a certificate, is not overridden.
    """
    own = (
        ("grpc.max_receive_message_length", settings.max_response_bytes + _MARGIN_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.per_rpc_retry_buffer_size", _RETRY_BUFFER_BYTES),
        # Reconnect to a restarted server within the time of the attempts.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5000),
        ("grpc.service_config", service_config(settings.attempts, balanced=has_several_addresses(settings.target))),
    )
    fixed = (
        *((("grpc.enable_http_proxy", 0),) if is_direct(settings.target) else ()),
        *settings.security.options(encrypted=settings.channel_credentials is not None),
    )
    return tuple(dict((*own, *settings.options, *fixed)).items())


def service_config(attempts: int, *, balanced: bool = False) -> str:
    """Return gRPC's service config as JSON: retries of UNAVAILABLE after about 0.2, 0.4, 0.8… seconds.

    Retries are safe, since calls only read. RESOURCE_EXHAUSTED is not retried: the server states when to retry, and
    only the caller knows whether to wait.

    Args:
        balanced: calls take turns over the addresses of the target, and not the first that answers. An address is left
            out while its server says that it is not ready, as it does before it stops; gRPC asks for that only where
            calls take turns.
    """
    policy = {
        "maxAttempts": attempts,
        "initialBackoff": "0.2s",
        "maxBackoff": "2s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    method: dict[str, object] = {"name": [{"service": _SERVICE}]}
    if attempts > 1:  # gRPC refuses a policy of one attempt
        method["retryPolicy"] = policy
    config: dict[str, object] = {"methodConfig": [method]}
    if balanced:
        config |= {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}
    return json.dumps(config)


NOT_COPIED = "a client is a connection, which is neither copied nor pickled: make one where it is used"
_open_channels: weakref.WeakSet[Any] = weakref.WeakSet()
_forked = False


def register_channel(channel: Any) -> None:
    """Register an open channel until it is garbage-collected."""
    _open_channels.add(channel)


def unregister_channel(channel: Any) -> None:
    """Unregister a closed channel."""
    _open_channels.discard(channel)


def check_fork() -> None:
    """Refuse a process that was forked while a client was connected: gRPC's asyncio hangs in it.

    Raises:
        RuntimeError: the process was forked from one with an open channel.
    """
    if _forked:
        raise RuntimeError(
            "this process was forked while a client was connected, and gRPC's asyncio does not survive that: use "
            'limelight.Client, or start processes by "spawn" (multiprocessing.get_context)'
        )


def _note_fork() -> None:
    global _forked
    _forked = _forked or len(_open_channels) > 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def service_methods(channel: Any) -> Any:
    """Return the methods of both services on a channel. The generated classes have no types."""
    methods = SimpleNamespace()
    stubs: tuple[Any, ...] = (service_pb2_grpc.AttentionServiceStub, admin_pb2_grpc.AdminServiceStub)
    for make in stubs:
        vars(methods).update(vars(make(channel)))
    return methods
