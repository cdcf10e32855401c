"""How calls travel: channel options, deadlines and retries, the same for both clients."""

import json
import math
import os
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import grpc

from limelight.errors import InputError
from limelight.security import Security
from limelight.strings import broken, check_string
from limelight.targets import is_direct, resolvable
from limelight.v1 import service_pb2_grpc

DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT = 60.0
DEFAULT_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
# What an answer may hold beside its weights: gRPC's limit counts the whole message.
_MARGIN_BYTES = 1024 * 1024
# A call larger than this is not sent again. gRPC's own default, 256 KiB, is less than a photograph.
_RETRY_BUFFER_BYTES = 16 * 1024 * 1024
_NO_NAME, _NO_VALUE = re.compile(r"[^a-z0-9_.-]"), re.compile(r"[^ -~]")
_SERVICE = "limelight.v1.AttentionService"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a client needs to know to make calls."""

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
            raise ValueError("either credentials, or ca, cert, key and tls, which make them")
        _ = self.sent  # so that what is wrong is said where it was given, and not at the first call

    @property
    def address(self) -> str:
        """The target as gRPC takes it."""
        return resolvable(self.target)

    @cached_property
    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """What the channel needs for TLS; None without."""
        return self.credentials or self.security.credentials()

    @cached_property
    def sent(self) -> tuple[tuple[str, str | bytes], ...]:
        """Metadata of every call."""
        encrypted = self.channel_credentials is not None
        return (*self.metadata, *self.security.metadata(self.target, encrypted=encrypted))


def check_timeout(timeout: float | None) -> float | None:
    """`timeout` as it is. Raises: ValueError unless it is None or a positive, finite number of seconds."""
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise ValueError(f"timeout is a positive number of seconds or None, not {timeout!r}")
    return timeout


def check_metadata(metadata: Sequence[tuple[str, str | bytes]]) -> None:
    """Check that gRPC can send metadata; its own error would show all of it, secrets too.

    Raises: InputError naming the entry and the first character that is wrong, and no value.
    """
    for number, (name, value) in enumerate(metadata):
        field = f"metadata[{number}]"
        if (wrong := _NO_NAME.search(name)) or not name or name.startswith("grpc-"):
            what = (
                f"character {wrong.start()} is none of a-z, 0-9, _, - and ." if wrong else "it is empty, or gRPC's own"
            )
            raise broken(f"{field}, the name", what)
        if isinstance(value, bytes):
            if not name.endswith("-bin"):
                raise InputError(f"{field}, {name!r}: bytes go under a name that ends with -bin")
        elif wrong := _NO_VALUE.search(value):
            raise broken(f"{field}, {name!r}", f"character {wrong.start()} of its value is not printable ASCII")


def channel_options(settings: Settings) -> Sequence[tuple[str, int | str]]:
    """Channel options; those that a user gives come last and win."""
    return (
        *((("grpc.enable_http_proxy", 0),) if is_direct(settings.target) else ()),
        ("grpc.max_receive_message_length", settings.max_response_bytes + _MARGIN_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.per_rpc_retry_buffer_size", _RETRY_BUFFER_BYTES),
        # A server that restarts is found again within the time that the attempts take.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5000),
        ("grpc.service_config", service_config(settings.attempts)),
        *settings.security.options(encrypted=settings.channel_credentials is not None),
        *settings.options,
    )


def service_config(attempts: int) -> str:
    """gRPC's service config, as JSON: UNAVAILABLE is tried again after about 0.2, 0.4, 0.8… seconds.

    Every call only reads, so trying again is safe. RESOURCE_EXHAUSTED is not in the list: a full server has said when
    to come back, and only the caller knows whether that is worth waiting for.
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
    return json.dumps({"methodConfig": [method]})


NOT_COPIED = "a client is a connection, which is neither copied nor pickled: make one where it is used"
_open_channels: weakref.WeakSet[Any] = weakref.WeakSet()
_forked = False


def keep(channel: Any) -> None:
    """Note a channel that is used, until nobody has it."""
    _open_channels.add(channel)


def drop(channel: Any) -> None:
    """Note that a channel is closed."""
    _open_channels.discard(channel)


def check_fork() -> None:
    """Refuse a process that was forked while a client was connected: in there, gRPC's asyncio never answers.

    Raises: RuntimeError.
    """
    if _forked:
        raise RuntimeError(
            "this process was forked while a client was connected, after which gRPC has no asyncio: use "
            'limelight.Client, or start processes by "spawn" (multiprocessing.get_context)'
        )


def _note_fork() -> None:
    global _forked
    _forked = _forked or len(_open_channels) > 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def stub(channel: Any) -> Any:
    """The methods of the service on a channel of either kind. The generated class has no types."""
    make: Any = service_pb2_grpc.AttentionServiceStub
    return make(channel)
