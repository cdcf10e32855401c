"""How much of the runtime's own throughput is left when it is served: `python -m benchmarks.serving`.

In one run, by turns, so that a busy machine slows both: raw ONNX Runtime (the best of one lane with all threads, a lane
per core, and batches), and the server in a process of its own, at several concurrencies, for Predict, Attend with every
weight and Attend with a selection. Prints tables; --json and --write keep them.
"""

import argparse
import json
import platform
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from benchmarks.encoder import LONGEST, NAME, VOCABULARY, make_repository
from benchmarks.load import Load, measure
from benchmarks.process import ServerProcess, cores
from limelight.v1 import attention_pb2, service_pb2, values_pb2

LENGTHS = ("32", "128", "mixed")
CALLS = ("Predict", "Attend full", "Attend selected")
ROOT = Path(__file__).resolve().parent.parent
Ids = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Raw:
    """Throughput of the runtime alone, in instances a second."""

    lengths: str
    way: str
    rate: float


@dataclass(frozen=True)
class Served:
    """Throughput of the server, its ratio to the best raw one, latency in ms, and processor seconds a request."""

    lengths: str
    call: str
    concurrency: int
    rate: float
    ratio: float
    p50: float
    p99: float
    server_cpu: float


def inputs(lengths: str, count: int = 256) -> list[Ids]:
    """Token ids of fixed or mixed length; mixed is log-normal with median 28 (sentences as people send them)."""
    random = np.random.default_rng(7)
    if lengths == "mixed":
        sizes = np.clip(random.lognormal(np.log(28), 0.8, count), 4, LONGEST).astype(int)
    else:
        sizes = np.full(count, int(lengths))
    return [random.integers(1, VOCABULARY, size, dtype=np.int64) for size in sizes]


def session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """Open the graph with so many threads of its own."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_rows(runtime: onnxruntime.InferenceSession, rows: Sequence[Ids]) -> None:
    """Run rows as one batch, padded to the longest."""
    longest = max(len(row) for row in rows)
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    for place, row in zip(ids, rows, strict=True):
        place[: len(row)] = row
    runtime.run(["logits"], {"token_ids": ids, "token_mask": ids != 0})


def raw_rate(path: Path, rows: Sequence[Ids], *, lanes: int, threads: int, batch: int, seconds: float) -> float:
    """Instances a second through `lanes` threads that share one session; batches are of the most similar lengths."""
    runtime = session(path, threads)
    ordered = sorted(rows, key=len) if batch > 1 else list(rows)
    batches = [ordered[start : start + batch] for start in range(0, len(ordered), batch)]
    run_rows(runtime, batches[-1])
    done = [0] * lanes
    end = time.monotonic() + seconds

    def lane(number: int) -> None:
        place = number * len(batches) // lanes
        while time.monotonic() < end:
            rows = batches[place % len(batches)]
            run_rows(runtime, rows)
            done[number] += len(rows)
            place += 1

    begin = time.monotonic()
    threads_ = [threading.Thread(target=lane, args=(number,)) for number in range(lanes)]
    for thread in threads_:
        thread.start()
    for thread in threads_:
        thread.join()
    return sum(done) / (time.monotonic() - begin)


def ways() -> dict[str, Callable[[Path, Sequence[Ids], float], float]]:
    """The ways to run the runtime alone that are tried; the best counts."""
    count = cores()
    return {
        f"one lane x {count} threads": lambda path, rows, seconds: raw_rate(
            path, rows, lanes=1, threads=count, batch=1, seconds=seconds
        ),
        f"{count} lanes x 1 thread": lambda path, rows, seconds: raw_rate(
            path, rows, lanes=count, threads=1, batch=1, seconds=seconds
        ),
        f"{count} lanes, batches of 8 by length": lambda path, rows, seconds: raw_rate(
            path, rows, lanes=count, threads=1, batch=8, seconds=seconds
        ),
    }


def requests(call: str, rows: Sequence[Ids]) -> list[bytes]:
    """Serialise one request for each row, so that the load costs as little as it can."""
    model = values_pb2.Model(name=NAME)
    messages = []
    for row in rows:
        tensor = values_pb2.Tensor(data_type=values_pb2.DATA_TYPE_INT64, shape=row.shape, data=row.tobytes())
        instance = values_pb2.Instance(inputs={"token_ids": values_pb2.Value(tensor=tensor)})
        if call == "Predict":
            messages.append(service_pb2.PredictRequest(model=model, instances=[instance]).SerializeToString())
            continue
        options = attention_pb2.AttentionOptions()
        if call == "Attend selected":
            options.selections.add(layers=[-1], queries=[0])
        request = service_pb2.AttendRequest(model=model, instances=[instance], attention=options)
        messages.append(request.SerializeToString())
    return messages


def measure_all(
    repository: Path, graph: Path, seconds: float, rounds: int, concurrencies: Sequence[int]
) -> list[Raw | Served]:
    """Take turns between the raw runtime and the server, and give the median of the rounds."""
    results: list[Raw | Served] = []
    with ServerProcess(repository) as server:
        for lengths in LENGTHS:
            rows = inputs(lengths)
            raw: dict[str, list[float]] = {way: [] for way in ways()}
            served: dict[tuple[str, int], list[Load]] = {(call, many): [] for call in CALLS for many in concurrencies}
            for _ in range(rounds):
                for way, run in ways().items():
                    raw[way].append(run(graph, rows, seconds))
                for (call, many), loads in served.items():
                    method = call.split()[0]
                    loads.append(measure(server, method, requests(call, rows), concurrency=many, seconds=seconds))
            medians = {way: statistics.median(rates) for way, rates in raw.items()}
            results += [Raw(lengths, way, rate) for way, rate in medians.items()]
            for (call, many), loads in served.items():
                middle = sorted(loads, key=lambda load: load.rate)[(len(loads) - 1) // 2]
                ratio = middle.rate / max(medians.values())
                results.append(
                    Served(lengths, call, many, middle.rate, ratio, middle.p50, middle.p99, middle.server_cpu)
                )
            print(f"\n{table([each for each in results if each.lengths == lengths])}", flush=True)
    return results


def table(results: Sequence[Raw | Served]) -> str:
    """Write one length's rows as a Markdown table."""
    title = {"mixed": "Mixed lengths (log-normal, median 28 tokens)"}.get(
        results[0].lengths, f"{results[0].lengths} tokens"
    )
    lines = [f"### {title}", "", "| what | requests/s | of best raw | p50 ms | p99 ms | server CPU ms |"]
    lines.append("|---|---|---|---|---|---|")
    best = max(each.rate for each in results if isinstance(each, Raw))
    for each in results:
        if isinstance(each, Raw):
            lines.append(f"| runtime alone, {each.way} | {each.rate:.0f} | {each.rate / best:.2f} | | | |")
        else:
            lines.append(
                f"| {each.call}, {each.concurrency} at a time | {each.rate:.0f} | {each.ratio:.2f} | {each.p50:.1f} "
                f"| {each.p99:.1f} | {each.server_cpu * 1e3:.2f} |"
            )
    return "\n".join(lines)


PAGE = """# Performance

Written by `python -m benchmarks.serving --json benchmarks/results/serving.json --write docs/performance.md`, on
{machine}.

## Serving against the runtime alone

The model is a Transformer encoder of 6 layers, 384 wide, with 12 heads and random weights; the input is token ids, the
answer two logits, and for Attend the weights of every layer and head (*full*) or one query row of the last layer
(*selected*). The best raw throughput is the best of three ways to drive ONNX Runtime without a server, in the same run;
the ways and the server take turns, and each figure is the median of {rounds} rounds of {seconds:g} s. The load comes
from a Python client on the same cores, so it takes its part of them: *server CPU* is the server's processor time a
request, without the client's.

{tables}

## On a GPU

`python -m benchmarks.gpu` proves the CUDA path, and prints parity and throughput of every bundle, on a machine that has
a GPU. No figures are here yet: it has not run on one.
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--repository", type=Path, default=ROOT / "build" / "benchmarks")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--write", type=Path, help="file for the page of docs/")
    options = parser.parse_args()
    graph = make_repository(options.repository) / "model.onnx"
    results = measure_all(options.repository, graph, options.seconds, options.rounds, options.concurrency)
    machine = f"{cores()} cores, Python {platform.python_version()}, ONNX Runtime {onnxruntime.__version__}"
    if options.json:
        rows = [{"kind": type(each).__name__.lower(), **asdict(each)} for each in results]
        options.json.write_text(json.dumps({"machine": machine, "results": rows}, indent=1) + "\n")
    if options.write:
        tables = [table([each for each in results if each.lengths == lengths]) for lengths in LENGTHS]
        page = PAGE.format(machine=machine, rounds=options.rounds, seconds=options.seconds, tables="\n\n".join(tables))
        options.write.write_text(page)


if __name__ == "__main__":
    main()
