"""ONNX Runtime without a server, in several ways to answer calls as they arrive.

No more rows are under way than there are callers: a batch is the oldest waiting row with those nearest to it in length.
Each answered row is followed by the next at once, as in a closed loop.
"""

import functools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from benchmarks.process import cores
from benchmarks.processor import machine_seconds
from benchmarks.serving.inputs import MAPS, Ids

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
# As the server sets them: float32 products are not rounded, and convolutions chosen by rule.
_CUDA_OPTIONS = {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}


@dataclass(frozen=True)
class Way:
    """Workers of so many threads each, batches up to a size, and the callers that it takes; provider: cpu or cuda."""

    workers: int
    threads: int
    batch: int
    callers: int
    spin: bool = False
    provider: str = "cpu"

    def __str__(self) -> str:
        name = f"{self.workers} × {self.threads}" + (", spinning" if self.spin else "")
        return name if self.batch == 1 else f"{name}, up to {self.batch} of {self.callers}"


@dataclass(frozen=True)
class Ran:
    """Rows a second, processor seconds a row, the median time of a run in seconds, and the share that others took."""

    rate: float
    cpu: float
    p50: float
    others: float


def ways(*, mixed: bool = False) -> list[Way]:
    """The ways that are tried; for a number of callers the best of those counts that take no more."""
    count = cores()
    found = [Way(1, count, 1, 1), Way(1, count, 1, 1, spin=True), Way(count, 1, 1, count)]
    found += [Way(count, 1, max(1, 8 // count), 8), Way(1, count, 8, 8), Way(count, 1, 8, 32)]
    return list(dict.fromkeys(found + ([Way(count, 1, 8, 64)] if mixed else [])))


@functools.cache
def session(graph: Path, threads: int, spin: bool, provider: str = "cpu") -> onnxruntime.InferenceSession:
    """Open a graph as `open_session` does, once."""
    return open_session(graph, threads, spin=spin, provider=provider)


def open_session(
    graph: Path, threads: int, *, spin: bool = False, provider: str = "cpu"
) -> onnxruntime.InferenceSession:
    """Open a graph with so many threads of its own, on a provider: cpu, or cuda, where the CPU takes what is left."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # it warns of every gate
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if provider == "cpu":
        return onnxruntime.InferenceSession(str(graph), options, providers=[CPU])
    onnxruntime.preload_dlls()
    found = onnxruntime.InferenceSession(str(graph), options, providers=[(CUDA, _CUDA_OPTIONS), CPU])
    if found.get_providers()[0] != CUDA:
        raise RuntimeError(f"{graph.name} was opened without {CUDA}")
    return found


def gates(runtime: onnxruntime.InferenceSession) -> dict[str, np.ndarray]:
    """Give the inputs that switch on every map of a graph that leaves them out by default."""
    optional = runtime.get_overridable_initializers()
    return {each.name: np.array(True) for each in optional if each.type == "tensor(bool)" and not each.shape}


def run_rows(
    runtime: onnxruntime.InferenceSession, rows: Sequence[Ids], outputs: Sequence[str], more: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Run rows as one batch, padded to the longest."""
    longest = max(len(row) for row in rows)
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    for place, row in zip(ids, rows, strict=True):
        place[: len(row)] = row
    return list(runtime.run(outputs, {"token_ids": ids, "token_mask": ids != 0, **more}))


class _Queue:
    """Rows that wait, refilled as they are taken."""

    def __init__(self, rows: Sequence[Ids], callers: int) -> None:
        self._rows, self._next = rows, 0
        self._waiting: list[Ids] = []
        self._lock = threading.Lock()
        self.come(callers)

    def come(self, count: int) -> None:
        """Let so many rows come."""
        with self._lock:
            for _ in range(count):
                self._waiting.append(self._rows[self._next % len(self._rows)])
                self._next += 1

    def take(self, most: int) -> list[Ids]:
        """Take the oldest, with those nearest to it in length."""
        with self._lock:
            if not self._waiting:
                return []
            oldest = len(self._waiting[0])
            order = sorted(range(1, len(self._waiting)), key=lambda place: abs(len(self._waiting[place]) - oldest))
            chosen = {0, *order[: most - 1]}
            taken = [self._waiting[place] for place in sorted(chosen)]
            self._waiting = [row for place, row in enumerate(self._waiting) if place not in chosen]
            return taken


def run_raw(
    graph: Path,
    rows: Sequence[Ids],
    way: Way,
    seconds: float,
    *,
    maps: bool = False,
    outputs: Sequence[str] = ("logits",),
) -> Ran:
    """Drive the runtime in one way for so long, fetching outputs, and all maps where they are wanted."""
    runtime = session(graph, way.threads, way.spin, way.provider)
    outputs = [*outputs, *(MAPS if maps else ())]
    more = gates(runtime) if maps else {}
    waiting = _Queue(rows, way.callers)
    run_rows(runtime, rows[: way.batch], outputs, more)
    done, times = [0] * way.workers, [list[float]() for _ in range(way.workers)]
    begin, cpu, machine = time.perf_counter(), time.process_time(), machine_seconds()

    def worker(number: int) -> None:
        while (now := time.perf_counter()) - begin < seconds:
            taken = waiting.take(way.batch)
            if not taken:  # the other workers hold every row
                time.sleep(0.0002)
                continue
            run_rows(runtime, taken, outputs, more)
            times[number].append(time.perf_counter() - now)
            done[number] += len(taken)
            waiting.come(len(taken))

    threads = [threading.Thread(target=worker, args=(number,)) for number in range(way.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, rows_done, cpu = time.perf_counter() - begin, sum(done), time.process_time() - cpu
    others = max(0.0, machine_seconds() - machine - cpu) / wall / cores()
    p50 = float(np.median(np.concatenate([each for each in times if each])))
    return Ran(rows_done / wall, cpu / rows_done, p50, others)
