"""Has gRPC free what it is about to send, or read with, where that fails.

Its asyncio code begins a batch of operations in the core, waits on a future of the event loop, and frees the batch
after that: not where the future has an exception (github.com/grpc/grpc/issues/43360). Then a status stays, or the whole
message. Batches fail where a call ends at the moment at which it is answered, so many a caller who gives up leaves one.
"""

import asyncio
from functools import partial
from typing import Any

import grpc


class _Awaited(asyncio.Future[Any]):
    """A future for which a batch that failed is over like any other.

    Nothing is lost by that. A batch fails only where its call has ended: a read that failed gives the end of the
    stream, as before, and whoever writes is cancelled next, which gRPC does where a call ends before its status.
    """

    def set_exception(self, exception: type | BaseException, /) -> None:
        if isinstance(exception, grpc.aio.InternalError):
            self.set_result(None)
        else:
            super().set_exception(exception)


def free_failed(loop: asyncio.AbstractEventLoop) -> None:
    """Have batches freed that fail on an event loop, from now on."""
    loop.create_future = partial(_Awaited, loop=loop)  # type: ignore[method-assign]
