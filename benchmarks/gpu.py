"""Proves the CUDA path and measures it, on a machine that has a GPU: `python -m benchmarks.gpu [--json FILE]`.

It needs no network, PyTorch or onnx: this checkout, and a virtual environment with `.[serve-gpu]` (onnxruntime-gpu with
the CUDA and cuDNN libraries that it was built for) made for that machine's Python. The demo models are in the checkout;
`--repository` measures others, exported anywhere.

For every model and every way of using the provider: which provider its nodes really run on, how far its answers are
from PyTorch's (the bundle's samples, which loading holds to their tolerances as well), rows a second by batch size,
what maps cost, and rows a second when 32 callers ask at once. Then a batch gets less memory than it needs. The CPU of
the same machine stands beside it. On a machine without a GPU it says so and ends with status 3; `--provider cpu` runs
the same code with the CPU as the device, which proves the code and measures nothing.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np

from bundle.maps import WEIGHTS, MapPart, map_key, map_quantities
from bundle.reader import BundleFolder, read_bundle
from bundle.rows import Row
from bundle.samples import Sample, read_samples
from bundle.values import Array
from bundle.wire import instance_from_wire
from service.checking.checker import Checker
from service.engine.engine import Engine
from service.engine.jobs import unheard
from service.engine.model import Model
from service.engine.providers import CPU, CUDA, Provider, choose_provider
from service.engine.types import Answer, MapKey, Query
from service.errors import ProviderError
from service.repository import Repository
from service.settings import Settings

DEMO = Path(__file__).resolve().parent.parent / "deploy" / "demo"
BATCHES = (1, 8, 32, 128)
CALLERS, ATTENDING = 32, 8
MANY, SMALL_ARENA = 4096, 64 * 2**20
NO_GPU = 3
# The CPU, used as if it were a device with memory of its own.
STAND_IN = Provider(CPU, 2, 2, staged=True, device=("cpu", 0), records=True)


@dataclass(frozen=True)
class Throughput:
    """Rows a second in batches of one size (median of the rounds)."""

    batch: int
    rate: float


@dataclass(frozen=True)
class Report:
    """What was found of a model, and of a way of using the provider.

    differences: the largest from PyTorch's answers, by output and map. attended: milliseconds of a batch of 8, by what
    is asked of its maps. served: rows a second of 32 callers that ask at once, through the queue.
    """

    model: str
    way: str
    provider: str
    nodes: dict[str, dict[str, int]]
    differences: dict[str, float]
    throughput: list[Throughput] = field(default_factory=list)
    attended: dict[str, float] = field(default_factory=dict)
    served: float = 0.0


def ways(provider: Provider) -> dict[str, Provider]:
    """Give the ways of using a device that are compared."""
    name = "CUDA" if provider.is_cuda else "stand-in"
    found = {
        name: provider,
        f"{name}, nothing recorded": replace(provider, records=False),
        f"{name}, one lane": replace(provider, lanes=1, concurrent=1),
        f"{name}, maps cut by NumPy": replace(provider, device=None, records=False),
    }
    if provider.is_cuda:
        found[f"{name}, TF32"] = replace(provider, options=provider.options | {"use_tf32": "1"})
    return found


def card_name() -> str:
    """Name the card, as its driver does; empty where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip().splitlines()[0] if result.returncode == 0 and result.stdout.strip() else ""


async def reports(repository: Path, way: str, provider: Provider, seconds: float, rounds: int) -> list[Report]:
    """Load every model on a provider and report on it."""
    settings = Settings(repository=str(repository), max_batch_rows=max(BATCHES), max_batch_tokens=10**7)
    models = Repository(settings, provider, Checker())
    engine = Engine(settings, provider)
    await engine.start()
    await models.load()
    found = []
    for status in models.statuses():
        if status.model is None:
            print(f"{status.name} version {status.version} does not load, {way}: {status.reason}", file=sys.stderr)
            continue
        folder = read_bundle(repository / status.name / str(status.version))
        begun = report(status.model, way, folder, seconds, rounds)
        found.append(replace(begun, served=await served(engine, status.model, seconds)))
    await engine.stop(0.0)
    return found


def report(model: Model, way: str, folder: BundleFolder, seconds: float, rounds: int) -> Report:
    """Compare a model's answers with PyTorch's and measure it."""
    rows = rows_of(model)
    worst: dict[str, float] = {}
    every = frozenset((each.name, quantity) for each, quantity in map_quantities(model.description.maps))
    for answer, sample in zip(run(model, Query(tuple(rows), every)), read_samples(folder), strict=True):
        for name, difference in differences(answer, sample):
            worst[name] = max(worst.get(name, 0.0), difference)
    batches = {batch: tuple(rows[place % len(rows)] for place in range(batch)) for batch in BATCHES}
    throughput = [Throughput(batch, batch * rate(model, Query(batches[batch]), seconds, rounds)) for batch in BATCHES]
    attended = {
        what: 1000 / rate(model, query, seconds, rounds) for what, query in attending(model, batches[ATTENDING]).items()
    }
    nodes = {each.name: dict(each.nodes) for each in model.graphs}
    return Report(model.name, way, model.provider, nodes, worst, throughput, attended)


def rows_of(model: Model) -> list[Row]:
    """Prepare a model's examples."""
    return [
        model.preprocessor.row(instance_from_wire(example, "example"), field="example")
        for example in model.description.examples
    ]


def all_maps(model: Model) -> frozenset[MapKey]:
    """Name the weights of every map."""
    return frozenset((each.name, WEIGHTS) for each in model.description.maps)


def attending(model: Model, rows: tuple[Row, ...]) -> dict[str, Query]:
    """Ask for no map, for all, for all in halves, and for a row of one head of each."""
    keys = all_maps(model)
    one = MapPart(np.array([0]), np.array([0]))

    def asked(part: MapPart) -> Query:
        parts: tuple[Mapping[MapKey, MapPart], ...] = tuple(
            {(each.name, WEIGHTS): part for each in model.description.maps if each.query_labels in row.labels}
            for row in rows
        )
        return Query(rows, keys, parts=parts)

    return {"none": Query(rows), "all": Query(rows, keys), "halves": asked(MapPart(half=True)), "a row": asked(one)}


async def served(engine: Engine, model: Model, seconds: float) -> float:
    """Measure rows a second of callers that each ask for the next row when they have the last one's answer."""
    rows, done, end = rows_of(model), 0, time.monotonic() + seconds

    async def ask(row: Row) -> None:
        nonlocal done
        while time.monotonic() < end:
            await engine.answer(model, Query((row,)), lambda index, answer: None)
            done += 1

    await asyncio.gather(*(ask(rows[caller % len(rows)]) for caller in range(CALLERS)))
    return done / seconds


def run(model: Model, query: Query) -> list[Answer]:
    """Answer rows as one batch."""
    jobs = model.jobs(unheard(model.seeded(query)), count(), time.monotonic_ns())
    answers = {
        job.index: event for happened in model.runner.run(jobs) for job, event in happened if isinstance(event, Answer)
    }
    return [answers[place] for place in range(len(query.rows))]


def differences(answer: Answer, sample: Sample) -> Iterator[tuple[str, float]]:
    """Yield the largest difference of each output and map."""
    for name, expected in sample.outputs.items():
        yield name, largest(answer.outputs[name], expected)
    for key, found in answer.maps.items():
        yield map_key(*key), largest(found.weights, sample.maps[map_key(*key)].weights)


def largest(actual: Array, expected: Array) -> float:
    """Give max |a - b|; infinite where the shapes differ."""
    return float(np.abs(actual - expected).max()) if actual.shape == expected.shape else float("inf")


def rate(model: Model, query: Query, seconds: float, rounds: int) -> float:
    """Measure batches a second, after one to warm up: the median of the rounds."""
    run(model, query)
    rates = []
    for _ in range(rounds):
        begin, done = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            run(model, query)
            done += 1
        rates.append(done / (time.monotonic() - begin))
    return statistics.median(rates)


async def short_of_memory(repository: Path, provider: Provider) -> list[str]:
    """Give each graph 64 MiB of the GPU and a batch of 4,096 rows: all are to be answered, in parts."""
    limited = replace(provider, records=False, options=provider.options | {"gpu_mem_limit": str(SMALL_ARENA)})
    settings = Settings(repository=str(repository), max_batch_rows=MANY, max_batch_tokens=10**9, queue_rows=MANY)
    models, engine, found = Repository(settings, limited, Checker()), Engine(settings, limited), []
    await engine.start()
    await models.load()
    for status in models.statuses():
        if status.model is not None:
            rows = rows_of(status.model)
            query = Query(tuple(rows[place % len(rows)] for place in range(MANY)))
            sizes = await engine.answer(status.model, query, lambda index, answer: answer.batch_rows)
            found.append(f"{status.name}: {MANY} rows in batches of {min(sizes)} to {max(sizes)}")
    await engine.stop(0.0)
    return found


def print_reports(card: str, found: list[Report]) -> None:
    """Print Markdown tables."""
    print(f"Card: {card}\n")
    print("| model | way | nodes | largest difference | " + " | ".join(f"{b} rows/s" for b in BATCHES) + " | served |")
    print("|---" * (5 + len(BATCHES)) + "|")
    for each in found:
        nodes = "; ".join(
            f"{graph}: " + ", ".join(f"{number} {name}" for name, number in by.items())
            for graph, by in each.nodes.items()
        )
        rates = " | ".join(f"{one.rate:.0f}" for one in each.throughput)
        worst = max(each.differences.values(), default=0.0)
        print(f"| {each.model} | {each.way} | {nodes} | {worst:.1e} | {rates} | {each.served:.0f} |")
    asked = list(found[0].attended) if found else []
    print("\n| model | way | " + " | ".join(f"maps: {what}, ms" for what in asked) + " |")
    print("|---" * (2 + len(asked)) + "|")
    for each in found:
        print(f"| {each.model} | {each.way} | " + " | ".join(f"{each.attended[what]:.2f}" for what in asked) + " |")


def main() -> None:
    """Run the proof."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=DEMO)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--provider", choices=("cuda", "cpu"), default="cuda", help="cpu: only to prove the code")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    try:
        device = choose_provider("cuda") if options.provider == "cuda" else STAND_IN
    except ProviderError as error:
        print(f"There is no GPU to prove anything on. {error.message}", file=sys.stderr)
        raise SystemExit(NO_GPU) from None
    found = [
        each
        for way, provider in {**ways(device), "CPU": choose_provider("cpu")}.items()
        for each in asyncio.run(reports(options.repository, way, provider, options.seconds, options.rounds))
    ]
    print_reports(card_name(), found)
    short = asyncio.run(short_of_memory(options.repository, device)) if device.is_cuda else []
    print("\n".join(["", *short]))
    if options.json:
        content = {"card": card_name(), "reports": [asdict(each) for each in found], "short of memory": short}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    for each in found:
        if each.provider == CUDA and not any(CUDA in by for by in each.nodes.values()):
            raise SystemExit(f"{each.model} has no node on {CUDA}")


if __name__ == "__main__":
    main()
