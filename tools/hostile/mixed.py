"""A million rows, each answer beside the same row's when it was asked alone.

    python -m hostile.mixed                  # prints what it found, after a quarter of an hour
    python -m hostile.mixed --keep           # and writes tools/hostile/records/mixed.json.xz

Rows of all lengths of a small encoder (benchmarks/encoder.py) in calls of one to 64, from callers who do not wait for
each other, with no maps, all of them, one query of each or the mean of the heads; some calls are given up soon after
they began. Answers are told apart by raw outputs and weights: how well, is said.
"""

import argparse
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import limelight
from benchmarks.encoder import make_repository
from benchmarks.encoder_sizes import TINY, VOCABULARY
from benchmarks.process import ServerProcess
from benchmarks.records import ROOT, origin, place, write
from benchmarks.tables import of_rows
from hostile.page import RECORDS

_ROWS = 400
_LENGTHS = (1, 64)
_MOST = 64  # rows of a call
_GIVEN_UP = 0.3  # share of the calls that have a deadline of some milliseconds
_ALIKE = 1e-4  # in logits and weights: float32 in another batch differs by 1e-6
ASKED: dict[str, dict[str, Any] | None] = {
    "no maps": None,
    "all maps": {},
    "one query": {"queries": [0]},
    "mean of the heads": {"reduce": "mean"},
}
_CHANCES = (6, 2, 1, 1)

Numbers = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Mixed:
    """Results. rows: answered ones. mixed: those of them with another answer than alone.

    given_up: calls that ended without an answer. difference: the largest from the answer alone. told_apart: share of
    the pairs of rows whose answers differ by more than is allowed to one row's.
    """

    machine: str
    commit: str
    rows: int
    calls: int
    seconds: float
    mixed: int
    given_up: int
    difference: float
    told_apart: float


@dataclass
class Counts:
    """Findings of all callers. failed: calls that ended as none may, by what they ended with."""

    rows: int = 0
    calls: int = 0
    mixed: int = 0
    given_up: int = 0
    difference: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def ask(client: limelight.Client, kind: str, rows: Sequence[Ids], timeout: float | None = None) -> list[Numbers]:
    """Ask for rows, and give of each answer every number in one piece."""
    instances = [{"token_ids": row} for row in rows]
    options = ASKED[kind]
    if options is None:
        answers = client.predict(TINY, instances, outputs=["logits"], timeout=timeout)
        return [np.ravel(each.outputs["logits"]) for each in answers]
    attended = client.attend(TINY, instances, outputs=["logits"], timeout=timeout, **options)
    return [
        np.concatenate([np.ravel(each.prediction.outputs["logits"]), *(np.ravel(one.weights) for one in each.maps)])
        for each in attended
    ]


def call(target: str, rows: Sequence[Ids], alone: Mapping[str, list[Numbers]], counts: Counts, most: int) -> None:
    """Ask until so many rows were answered to all callers together, or a call that has all the time it wants fails."""
    chance = random.Random(threading.current_thread().name)
    with limelight.Client(target) as client:
        while counts.rows < most and not counts.failed:
            (kind,) = chance.choices(list(ASKED), _CHANCES)
            chosen = chance.choices(range(len(rows)), k=chance.randint(1, _MOST))
            deadline = chance.uniform(0.001, 0.03) if chance.random() < _GIVEN_UP else None
            try:
                answers = ask(client, kind, [rows[each] for each in chosen], deadline)
            except limelight.Error as error:
                with counts.lock:
                    if deadline is None:
                        counts.failed[type(error).__name__] += 1
                    else:
                        counts.given_up += 1
                continue
            differences = [_difference(answer, alone[kind][each]) for answer, each in zip(answers, chosen, strict=True)]
            with counts.lock:
                counts.calls += 1
                counts.rows += len(answers)
                counts.mixed += sum(each > _ALIKE for each in differences)
                counts.difference = max(counts.difference, *differences)


def _difference(answer: Numbers, other: Numbers) -> float:
    return float(np.abs(answer - other).max()) if answer.shape == other.shape else float("inf")


def told_apart(alone: Mapping[str, list[Numbers]]) -> float:
    """The share of pairs of rows whose logits alone tell them apart."""
    logits = np.stack(alone["no maps"])
    apart = np.abs(logits[:, np.newaxis] - logits).max(axis=2) > 2 * _ALIKE
    return float(apart.sum() / (len(logits) * (len(logits) - 1)))


def measure(repository: Path, most: int, callers: int, different: int = _ROWS) -> Mixed:
    """Ask for every row alone, and for all of them together. different: rows that are drawn."""
    chance = np.random.default_rng(11)
    rows = [chance.integers(1, VOCABULARY, chance.integers(*_LENGTHS, endpoint=True)) for _ in range(different)]
    with ServerProcess(repository) as server:
        with limelight.Client(server.target) as client:
            alone = {kind: [ask(client, kind, [row])[0] for row in rows] for kind in ASKED}
        counts, began = Counts(), time.monotonic()
        threads = [
            threading.Thread(target=call, args=(server.target, rows, alone, counts, most), name=f"caller {number}")
            for number in range(callers)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        seconds = time.monotonic() - began
    if counts.failed:
        raise SystemExit(f"calls failed that had all the time they wanted: {dict(counts.failed)}")
    return Mixed(
        **origin(),
        rows=counts.rows,
        calls=counts.calls,
        seconds=round(seconds),
        mixed=counts.mixed,
        given_up=counts.given_up,
        difference=counts.difference,
        told_apart=told_apart(alone),
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--callers", type=int, default=12)
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    options = parser.parse_args()
    repository = ROOT / "build" / "benchmarks"
    make_repository(repository)
    found = measure(repository, options.rows, options.callers)
    write(place("mixed", keep=options.keep, folder=RECORDS), asdict(found))
    print("\n".join(of_rows([found])))


if __name__ == "__main__":
    main()
