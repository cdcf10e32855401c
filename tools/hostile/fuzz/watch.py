"""Asks a server for its health all the while, from a process of its own."""

import multiprocessing
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import grpc

from benchmarks.process import HEALTH

_EVERY = 0.05
_TIMEOUT = 30.0


class HealthWatch:
    """Probes from entering to leaving; `taken` gives the seconds of each probe since it was last asked."""

    def __init__(self, target: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_probe, args=(target, theirs), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()

    def taken(self) -> list[float]:
        """Seconds of each probe, in order; infinity for one that failed."""
        found: list[float] = []
        while self._ours.poll():
            found.append(self._ours.recv())
        return found


def _probe(target: str, told: Connection) -> None:
    with grpc.insecure_channel(target) as channel:
        check = channel.unary_unary(HEALTH)
        while True:
            before = time.perf_counter()
            try:
                check(b"", timeout=_TIMEOUT)
                told.send(time.perf_counter() - before)
            except grpc.RpcError:
                told.send(float("inf"))
            time.sleep(_EVERY)
