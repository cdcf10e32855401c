"""Ends calls with a status, so that little of them is left to Python's collector."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import grpc


async def abort(context: Any, code: grpc.StatusCode, message: str, trailing: Sequence[tuple[str, Any]] = ()) -> None:
    """End a call; raises what gRPC raises.

    gRPC keeps that exception with its part of the call, in a cycle. Once the call has ended, the exception forgets what
    it was raised in: frames, with the request and all that the handler knew.
    """
    try:
        await context.abort(code, message, tuple(trailing))
    except grpc.aio.AbortError as aborted:
        context.add_done_callback(partial(_forget, aborted))
        raise


def _forget(aborted: BaseException, _: Any) -> None:
    aborted.__traceback__ = aborted.__context__ = None
