"""The record of a soak: its rounds, and how each server ended."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.records import read, write

_GOOD = ("the same", "busy", "not asked again", "cancelled here")  # the last by a connection that we hung up


@dataclass(frozen=True)
class Round:
    """Results of one round. life: of the server, from 1; a restart begins the next.

    good: calls with valid requests, by what became of them. failures: INTERNAL, UNKNOWN, or without an end. memory: MiB
    of the server's own, at rest. health: ms. left: whether gauges did not go back to zero. others: their share of the
    machine.
    """

    life: int
    seconds: float
    calls: int
    failures: int
    good: dict[str, int]
    attacks: dict[str, int]
    swaps: int
    memory: float
    descriptors: int
    threads: int
    left: int
    health_p50: float
    health_p99: float
    health_worst: float
    others: float


@dataclass
class Soak:
    """All rounds so far. stops: with which status each server of the past ended."""

    machine: str
    commit: str
    rounds: list[Round] = field(default_factory=list)
    stops: list[int | None] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Time under load."""
        return sum(each.seconds for each in self.rounds)

    @property
    def lives(self) -> int:
        """Number of servers."""
        return max((each.life for each in self.rounds), default=0)

    def save(self, file: Path) -> None:
        """Write it, for a run that goes on later."""
        write(file, asdict(self))

    @classmethod
    def load(cls, file: Path) -> "Soak":
        """Read it."""
        content = read(file)
        return cls(**{**content, "rounds": [Round(**each) for each in content["rounds"]]})


def bad(each: Round) -> int:
    """Good calls of a round that were not answered as they should have been."""
    return sum(count for what, count in each.good.items() if what not in _GOOD)
