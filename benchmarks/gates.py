"""What maps cost that nobody asks for, and what a few rows of them cost.

    python -m benchmarks.gates           # Predict of a model with maps against the same model exported without
    python -m benchmarks.gates --long    # one query row of every head of 12 layers at 16,384 tokens (2 minutes)

The first runs the graphs by turns in one process, on one thread, and prints medians; peak memory is that of a process
of its own for each. The second counts processor time, which other programs change little.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

# `benchmarks.encoder` is imported where it is used: a process that measures its memory does without PyTorch.

LENGTHS = (32, 128, 512)
LAYERS, LONGEST = 12, 16_384


def open_graph(folder: Path, threads: int = 1) -> onnxruntime.InferenceSession:
    """Open a bundle's graph as the server does."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])


def tokens(length: int) -> dict[str, Any]:
    """Make one row of tokens."""
    ids = np.random.default_rng(0).integers(1, 1_000, (1, length))
    return {"token_ids": ids, "token_mask": np.ones((1, length), bool)}


def switched(session: onnxruntime.InferenceSession, *, whole: bool) -> tuple[list[str], dict[str, Any]]:
    """Give the outputs and inputs of every map, or of the first row of every head."""
    outputs, feeds = [], dict[str, Any]()
    for name, heads in ((each.name, each.shape[1]) for each in session.get_outputs() if each.name.endswith(".self")):
        if whole:
            outputs.append(name)
            feeds[f"{name}:gate"] = np.array(True)
        else:
            outputs.append(f"{name}:rows")
            feeds |= {f"{name}:heads": np.arange(heads), f"{name}:queries": np.array([0])}
    return outputs, feeds


def compare(folder: Path) -> None:
    """Print the table of the first measurement."""
    from benchmarks.encoder import MODELS, NAME, PLAIN, export_encoder

    plain, gated = (export_encoder(folder, name, MODELS[name]) for name in (PLAIN, NAME))
    # A session each, for what one way leaves in a session's memory changes how fast another runs.
    without, unasked, rows, whole = (open_graph(each) for each in (plain, gated, gated, gated))
    ways = {
        "without maps": (without, [], {}),
        "with, none asked": (unasked, [], {}),
        "with, one row of each head": (rows, *switched(rows, whole=False)),
        "with, all maps": (whole, *switched(whole, whole=True)),
    }
    print("| tokens | " + " | ".join(ways) + " |\n" + "|---" * (len(ways) + 1) + "|")
    for length in LENGTHS:
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(max(9, 4096 // length)):
            for name, (session, outputs, feeds) in ways.items():
                started = time.perf_counter()
                session.run(["logits", *outputs], tokens(length) | feeds)
                if turn:
                    times[name].append(time.perf_counter() - started)
        base = statistics.median(times["without maps"])
        medians = [statistics.median(each) for each in times.values()]
        print(f"| {length} | " + " | ".join(f"{each * 1e3:.2f} ms ({each / base:.3f})" for each in medians) + " |")
    for name, repository in (("without maps", plain), ("with, none asked", gated)):
        _, mebibytes = alone(repository, LENGTHS[-1], probed=False)
        print(f"peak memory at {LENGTHS[-1]} tokens, {name}: {mebibytes:.0f} MiB")


def compare_long(folder: Path) -> None:
    """Print time and memory of a row of every head at the longest input."""
    from benchmarks.encoder import NAME, EncoderConfig, export_encoder

    repository = export_encoder(folder, NAME, EncoderConfig(layers=LAYERS, longest=LONGEST))
    for name, probed in (("prediction alone", False), ("with one row of every head", True)):
        seconds, mebibytes = alone(repository, LONGEST, probed=probed)
        print(f"{name}: {seconds:.1f} s of processor time, {mebibytes:.0f} MiB at most")


def alone(repository: Path, length: int, *, probed: bool) -> tuple[float, float]:
    """Run once in a process of its own: seconds of processor time, and its peak memory in MiB.

    probed: with a row of every head.
    """
    command = [sys.executable, "-m", "benchmarks.gates", "--one", str(repository), str(length), str(int(probed))]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, mebibytes = map(float, ran.stdout.split())
    return seconds, mebibytes


def run_one(repository: Path, length: int, *, probed: bool) -> None:
    """Run once, and print seconds of processor time and peak memory."""
    session = open_graph(repository, threads=2)
    outputs, feeds = switched(session, whole=False) if probed else ([], {})
    session.run(["logits"], tokens(16))
    started = time.process_time()
    session.run(["logits", *outputs], tokens(length) | feeds)
    seconds = time.process_time() - started
    # Not getrusage's peak, which begins as that of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(seconds, next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        repository, length, probed = arguments.one
        run_one(Path(repository), int(length), probed=bool(int(probed)))
        return
    with tempfile.TemporaryDirectory() as folder:
        (compare_long if arguments.long else compare)(Path(folder))


if __name__ == "__main__":
    main()
