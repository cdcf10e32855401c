"""Writes docs/performance.md from what the benchmarks of serving kept: `python -m benchmarks.performance_page`."""

from benchmarks.process import ROOT
from benchmarks.serving.contest import AGAIN, DISTURBED
from benchmarks.serving.figures import Results
from benchmarks.serving.tables import bars, tables

PAGE = ROOT / "docs" / "performance.md"
KEPT = ROOT / "benchmarks" / "results"


def write_page() -> None:
    """Write the page from everything that was kept."""
    PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")


def page() -> list[str]:
    """All sections whose figures are there."""
    lines = [*HEADER]
    if (file := KEPT / "serving.json").exists():
        results = Results.load(file)
        settings = f"{results.settings['rounds']:g} rounds of {results.settings['seconds']:g} s each"
        lines += SERVING.format(
            machine=results.machine, settings=settings, disturbed=DISTURBED, again=AGAIN
        ).splitlines()
        lines += [*tables(results), "### Bars", "", *bars(results), ""]
    return lines + GPU.splitlines()


HEADER = [
    "# Performance",
    "",
    "Written by `python -m benchmarks.performance_page` from `benchmarks/results`. Do not edit.",
    "",
]

SERVING = """## Serving beside the runtime and other servers

`python -m benchmarks.serving --keep`, on {machine}; medians of {settings}, all by turns.

The model is a Transformer encoder of 6 layers, 384 wide, with 12 heads and random weights; the input is token ids, the
answer two logits, and for Attend weights of every layer and head. Every server runs the same graph on ONNX Runtime.
*Runtime, the best way* drives it without a server, with no more rows under way than there are callers, in lanes ×
threads and in batches of those that wait, of the nearest lengths. Triton is its own core with the **python backend**,
tuned anew for each load: instances {{1, cores}} × delay {{0, 2 ms}}, the best counts. MLServer runs a row a run on
threads. One load generator, in a process of its own, serves all. It shares the servers' cores: its processor time is
given back in *requests a second* (what the server would have answered with the whole machine), and its share is said. A
measurement beside which other programs took more than {disturbed:.0%} of the machine is made again, up to {again}
times.

"""

GPU = """## On a GPU

`python -m benchmarks.gpu` proves the CUDA path, and prints parity and throughput of every bundle, on a machine that has
a GPU. No figures are here yet: it has not run on one."""


if __name__ == "__main__":
    write_page()
