"""The port that calls come to: where it is, what of a connection is bounded, and who is let in."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc

from limelight_bundle.errors import LimelightError
from limelight_service.frontend.status import Status
from limelight_service.frontend.transport.concurrent_accept import ConcurrentAccept
from limelight_service.frontend.transport.grpc_leak import free_failed
from limelight_service.platform.addresses import address_of, check_free
from limelight_service.platform.descriptors import room_for
from limelight_service.security.access import Access
from limelight_service.settings import Settings

_MINUTE = 60_000
# Calls of a method that gRPC's core has for us; of more it cancels some, then all, which tells callers nothing. A burst
# of a client is taken in at a few thousand a second.
_MOST_UNSEEN, _FEWEST_UNSEEN = 16384, 64
_METHODS = 24  # about, of all services
_WINDOW = 16 * 1024  # bytes of a request that nobody reads yet; the rest of a larger one comes when it is asked for
_OPTIONS = (
    ("grpc.max_send_message_length", -1),  # answers are measured before they are computed
    ("grpc.max_metadata_size", 16 * 1024),
    # A call whose request nobody reads yet gets so much out of its caller, and not what the connection could carry.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", _WINDOW),
    # Compressed, 16 KiB are a request of 16 MiB, and a connection's worth of them a second of the event loop's time.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.server_handshake_timeout_ms", _MINUTE // 6),  # who connects and says nothing
    ("grpc.keepalive_time_ms", 2 * _MINUTE),
    ("grpc.keepalive_timeout_ms", _MINUTE // 3),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", _MINUTE // 6),
)


async def listen(
    settings: Settings,
    services: Mapping[str, Mapping[str, grpc.RpcMethodHandler]],
    access: Access,
    interceptors: Sequence[grpc.aio.ServerInterceptor],
    stack: AsyncExitStack,
    *,
    shared: bool,
    refused: Callable[[str, Any], Status],
) -> int:
    """Answer calls until the stack is left; gives the port.

    shared: with other processes that said so as well. refused: as `ConcurrentAccept` has it.
    """
    free_failed(asyncio.get_running_loop())
    unseen = min(_MOST_UNSEEN, max(_FEWEST_UNSEEN, settings.arriving_bytes // (_METHODS * _WINDOW)))
    server = grpc.aio.server(
        interceptors=interceptors,
        options=(
            *_OPTIONS,
            # Two servers on one port would each get a part of the calls, and neither would notice.
            ("grpc.so_reuseport", int(shared)),
            ("grpc.max_receive_message_length", settings.max_request_bytes),
            ("grpc.max_allowed_incoming_connections", room_for(settings.max_connections, settings.ports)),
            ("grpc.max_connection_idle_ms", round(settings.idle_seconds * 1000)),
            *_age(settings),
            ("grpc.server.max_pending_requests", unseen),
            ("grpc.server.max_pending_requests_hard_limit", unseen * 3 // 2),
        ),
    )
    for name, handlers in services.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        # Calls of each method wait by themselves then: a flood of one keeps health out no more.
        server.add_registered_method_handlers(name, handlers)
    address = address_of(settings.host, settings.port)
    if not shared:
        check_free(settings.host, settings.port)
    try:
        port = access.add_port(server, address)
    except RuntimeError as error:
        raise LimelightError(f"cannot listen on {address}") from error
    await server.start()
    ConcurrentAccept(server, services, interceptors, settings.pending_calls, refused).start()
    stack.push_async_callback(server.stop, None)
    return port


def _age(settings: Settings) -> list[tuple[str, int]]:
    """Bound the age of connections where the settings do. gRPC varies the age of each by a tenth."""
    limits = {
        "grpc.max_connection_age_ms": settings.max_connection_age_seconds,
        "grpc.max_connection_age_grace_ms": settings.max_connection_age_grace_seconds,
    }
    return [(name, round(seconds * 1000)) for name, seconds in limits.items() if seconds]
