"""How calls travel: channel options, deadlines and retries, the same for both clients."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import grpc

from limelight.security import Security
from limelight.v1 import service_pb2_grpc

DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT = 60.0
DEFAULT_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
# What an answer may hold beside its weights: gRPC's limit counts the whole message.
_MARGIN_BYTES = 1024 * 1024
# A call larger than this is not sent again. gRPC's own default, 256 KiB, is less than a photograph.
_RETRY_BUFFER_BYTES = 16 * 1024 * 1024
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
        check_timeout(self.timeout)
        if not 1 <= self.attempts <= 5:
            raise ValueError(f"attempts is from 1 to 5 (gRPC's own limit), not {self.attempts}")
        if self.max_response_bytes < 1:
            raise ValueError(f"max_response_bytes is at least 1, not {self.max_response_bytes}")
        if self.credentials is not None and self.security.encrypted:
            raise ValueError("either credentials, or ca, cert, key and tls, which make them")
        _ = self.sent  # so that what is wrong is said where it was given, and not at the first call

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


def channel_options(settings: Settings) -> Sequence[tuple[str, int | str]]:
    """Channel options; those that a user gives come last and win."""
    return (
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


def stub(channel: Any) -> Any:
    """The methods of the service on a channel of either kind. The generated class has no types."""
    make: Any = service_pb2_grpc.AttentionServiceStub
    return make(channel)
