"""What is made of whole maps, part by part, without a server: `python -m benchmarks.map_parts`.

One row of the encoder on one thread, its maps fetched or not, and what the service makes of them: each as processor
time, the median of turns. Beside it what the bars of serving leave for it. A quarter of a minute. --keep writes
docs/performance.md.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.encoder import make_repository
from benchmarks.kept import save
from benchmarks.process import ROOT
from benchmarks.serving.inputs import MAPS, rows_of
from benchmarks.serving.raw import gates, run_rows, session
from benchmarks.tables import table
from service.attention.grouping import group_axis
from service.attention.half import as_half
from service.attention.heads import Floats, reduce_heads
from service.attention.options import GroupReduction, HeadReduction, PoolReduction
from service.attention.pooling import pool
from service.attention.topk import top_k
from service.command import limit_libraries
from service.rpc.framing import Frame

LENGTHS = ("32", "128")
_K = 8
_TENSOR = 1  # any field's number
# Of a prediction's time, by the bars: answers with these are to be 0.97 and 0.9 as many as predictions.
_LEFT = {"top-k 8": 1 / 0.97 - 1, "head mean": 1 / 0.97 - 1, "float16": 1 / 0.9 - 1}
_PREDICTION, _FETCHED = "a prediction, without a server", "the same with every map"


@dataclass(frozen=True)
class Parts:
    """Milliseconds of one core for each part, of one row of so many tokens."""

    tokens: str
    parts: dict[str, float] = field(default_factory=dict)


def _joined(arrays: Sequence[np.ndarray]) -> bytes:
    frame = Frame()
    for array in arrays:
        frame.put_tensor(_TENSOR, array)
    return frame.joined()


def _parts(graph: Path, tokens: str) -> dict[str, Callable[[], object]]:
    runtime, rows = session(graph, 1, False), rows_of(tokens)[:1]
    more = gates(runtime)
    maps: list[Floats] = [each[0] for each in run_rows(runtime, rows, MAPS, more)]
    spans = np.array_split(np.arange(int(tokens)), 8)
    ranges = np.arange(0, int(tokens) + 1, 4)
    return {
        _PREDICTION: lambda: run_rows(runtime, rows, ["logits"], {}),
        _FETCHED: lambda: run_rows(runtime, rows, ["logits", *MAPS], more),
        "every weight read once (summed)": lambda: [np.add.reduce(each.reshape(-1)) for each in maps],
        "every row sorted": lambda: [np.sort(each) for each in maps],
        "top-k 8": lambda: [top_k(each, _K) for each in maps],
        "head mean": lambda: [reduce_heads(each, HeadReduction.MEAN) for each in maps],
        "sums over 8 spans of keys": lambda: [group_axis(each, 2, spans, GroupReduction.SUM) for each in maps],
        "mean of 4 x 4 weights": lambda: [pool(each, ranges, ranges, PoolReduction.MEAN) for each in maps],
        "float16": lambda: [as_half(each) for each in maps],
        "copied into an answer": lambda: _joined(maps),
    }


def measure(graph: Path, tokens: str, turns: int) -> Parts:
    """Measure every part by turns."""
    parts, taken = _parts(graph, tokens), defaultdict[str, list[float]](list)
    for _ in range(turns):
        for name, part in parts.items():
            before = time.thread_time()
            part()
            taken[name].append((time.thread_time() - before) * 1e3)
    return Parts(tokens, {name: statistics.median(each) for name, each in taken.items()})


def tables(rows: Sequence[Parts]) -> list[str]:
    """The table of a run."""
    head = ["one row's 72 maps", *(f"{each.tokens} tokens, ms" for each in rows)]
    lines = [[name, *(f"{each.parts[name]:.2f}" for each in rows)] for name in rows[0].parts]
    for name, share in _LEFT.items():
        lines.append([f"*{name} may take, by its bar*", *(f"{share * each.parts[_PREDICTION]:.2f}" for each in rows)])
    return table(head, lines)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    limit_libraries()
    graph = make_repository(ROOT / "build" / "benchmarks") / "model.onnx"
    rows = [measure(graph, tokens, options.turns) for tokens in LENGTHS]
    print("\n".join(tables(rows)))
    save("map_parts", rows, keep=options.keep)


if __name__ == "__main__":
    main()
