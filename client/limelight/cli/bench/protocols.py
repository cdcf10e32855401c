"""The protocols that load can be sent by."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from limelight.cli.bench.lengths import Lengths
from limelight.cli.bench.load import Send
from limelight.cli.connection import Connection


class Protocol(StrEnum):
    """Protocol of the calls."""

    limelight = "limelight"
    oip = "oip"
    http = "http"


@dataclass(frozen=True)
class Question:
    """The call that a load test repeats, in the words of the command line."""

    model: str
    version: int
    rows: int
    words: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    image: Path | None = None
    example: int | None = None
    file: Path | None = None
    """JSON lines, each with the inputs of an instance."""
    lengths: Lengths | None = None
    seed: int = 1
    maps: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    top_k: int = 0
    reduce: str | None = None
    encoding: str = "float32"


@dataclass(frozen=True)
class Calls:
    """Calls that can be sent. method: its name for the report. inputs: number of different requests."""

    send: Send
    method: str
    inputs: int


@dataclass(frozen=True)
class Wires:
    """Connections of a load test. timeout: seconds of each call."""

    connections: int
    attempts: int
    timeout: float


Open = Callable[[Connection, Question, Wires], AbstractAsyncContextManager[Calls]]
"""Connects to a server and makes its calls, for the length of a block."""
