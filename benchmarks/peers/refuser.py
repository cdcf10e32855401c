"""A bare asyncio gRPC server that refuses every call unread, as a full server does: `python -m benchmarks.peers.refuser
PORT`.
"""

import asyncio
import sys
from typing import Any

import grpc

from benchmarks.process import HEALTH, SERVING, Process, free_port, healthy
from service.errors import QueueFullError
from service.rpc.status import status_of

REFUSE = "/refuser.Refuser/Refuse"


class Refuser(Process):
    """The server in a process of its own."""

    def __init__(self) -> None:
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.peers.refuser", str(port)]
        super().__init__(command, f"127.0.0.1:{port}", healthy)


class _Handlers(grpc.GenericRpcHandler):
    def service(self, details: Any) -> grpc.RpcMethodHandler:
        if details.method == HEALTH:
            return grpc.unary_unary_rpc_method_handler(_ready)
        return grpc.stream_unary_rpc_method_handler(_refuse)  # so that nothing of the request is waited for


_FULL = status_of(QueueFullError("so much is waiting that nothing more is taken", retry_after=1.0), "request")


async def _refuse(requests: Any, context: Any) -> None:
    await context.abort(_FULL.code, _FULL.message, _FULL.trailing)


async def _ready(request: bytes, context: Any) -> bytes:
    return SERVING


async def _serve(port: int) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Handlers(),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
