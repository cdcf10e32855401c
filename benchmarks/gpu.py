"""Proves the CUDA path, on a machine that has one: `python -m benchmarks.gpu [--json FILE]`.

For every model of the repository: the provider that it really runs on, its nodes by provider, how far its answers are
from PyTorch's (the bundle's samples), and rows a second by batch size, on CUDA and on the CPU of the same machine. On a
machine without a GPU it says so and ends with status 3.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from bundle.maps import WEIGHTS
from bundle.reader import BundleFolder, read_bundle
from bundle.rows import Row
from bundle.samples import Sample, read_samples
from bundle.values import Array
from bundle.wire import instance_from_wire
from service.checking.checker import Checker
from service.engine.engine import Engine
from service.engine.jobs import unheard
from service.engine.model import Model
from service.engine.providers import CUDA, Provider, choose_provider
from service.engine.types import Answer, Query
from service.errors import ProviderError
from service.repository import Repository
from service.settings import Settings

DEMO = Path(__file__).resolve().parent.parent / "deploy" / "demo"
BATCHES = (1, 8, 32, 128)
NO_GPU = 3


@dataclass(frozen=True)
class Throughput:
    """Rows a second in batches of one size (median of the rounds)."""

    batch: int
    rate: float


@dataclass(frozen=True)
class Report:
    """What was found of a model on a provider. differences: the largest from PyTorch's answers, by output and map."""

    model: str
    provider: str
    nodes: dict[str, dict[str, int]]
    differences: dict[str, float]
    throughput: list[Throughput] = field(default_factory=list)


def card_name() -> str:
    """Name the card, as its driver does; empty where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip().splitlines()[0] if result.returncode == 0 and result.stdout.strip() else ""


async def reports(repository: Path, provider: Provider, seconds: float, rounds: int) -> list[Report]:
    """Load every model on a provider and report on it."""
    settings = Settings(repository=str(repository), max_batch_rows=max(BATCHES), max_batch_tokens=10**7)
    models = Repository(settings, provider, Checker())
    engine = Engine(settings, provider)
    await engine.start()
    await models.load()
    found = []
    for status in models.statuses():
        if status.model is None:
            raise SystemExit(
                f"{status.name} version {status.version} does not load on {provider.name}: {status.reason}"
            )
        found.append(report(status.model, read_bundle(repository / status.name / str(status.version)), seconds, rounds))
    await engine.stop(0.0)
    return found


def report(model: Model, folder: BundleFolder, seconds: float, rounds: int) -> Report:
    """Compare a model's answers with PyTorch's and measure it."""
    rows = [
        model.preprocessor.row(instance_from_wire(example, "example"), field="example")
        for example in model.description.examples
    ]
    worst: dict[str, float] = {}
    for answer, sample in zip(run(model, rows), read_samples(folder), strict=True):
        for name, difference in differences(answer, sample):
            worst[name] = max(worst.get(name, 0.0), difference)
    throughput = [Throughput(batch, rate(model, rows, batch, seconds, rounds)) for batch in BATCHES]
    return Report(model.name, model.provider, {each.name: dict(each.nodes) for each in model.graphs}, worst, throughput)


def run(model: Model, rows: list[Row]) -> list[Answer]:
    """Answer rows as one batch, with every map."""
    query = model.seeded(Query(tuple(rows), frozenset((each.name, WEIGHTS) for each in model.description.maps)))
    jobs = model.jobs(unheard(query), count(), time.monotonic_ns())
    answers = {
        job.index: event for happened in model.runner.run(jobs) for job, event in happened if isinstance(event, Answer)
    }
    return [answers[place] for place in range(len(rows))]


def differences(answer: Answer, sample: Sample) -> Iterator[tuple[str, float]]:
    """Yield the largest difference of each output and map."""
    for name, expected in sample.outputs.items():
        yield name, largest(answer.outputs[name], expected)
    for name, weights in sample.maps.items():
        yield name, largest(answer.maps[name, WEIGHTS].weights, weights.weights)


def largest(actual: Array, expected: Array) -> float:
    """Give max |a - b|; infinite where the shapes differ."""
    return float(np.abs(actual - expected).max()) if actual.shape == expected.shape else float("inf")


def rate(model: Model, rows: list[Row], batch: int, seconds: float, rounds: int) -> float:
    """Measure rows a second in batches of one size, after a batch to warm up."""
    repeated = [rows[place % len(rows)] for place in range(batch)]
    run(model, repeated)
    rates = []
    for _ in range(rounds):
        begin, done = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            run(model, repeated)
            done += batch
        rates.append(done / (time.monotonic() - begin))
    return statistics.median(rates)


def print_reports(card: str, found: list[Report]) -> None:
    """Print a Markdown table."""
    print(
        f"Card: {card}\n\n| model | provider | nodes | largest difference | "
        + " | ".join(f"{b} rows/s" for b in BATCHES)
    )
    print("|---" * (4 + len(BATCHES)) + "|")
    for each in found:
        nodes = "; ".join(
            f"{graph}: " + ", ".join(f"{number} {name}" for name, number in by.items())
            for graph, by in each.nodes.items()
        )
        rates = " | ".join(f"{one.rate:.0f}" for one in each.throughput)
        print(f"| {each.model} | {each.provider} | {nodes} | {max(each.differences.values()):.1e} | {rates} |")


def main() -> None:
    """Run the proof."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=DEMO)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    try:
        cuda = choose_provider("cuda")
    except ProviderError as error:
        print(f"There is no GPU to prove anything on. {error.message}", file=sys.stderr)
        raise SystemExit(NO_GPU) from None
    found = [
        each
        for provider in (cuda, choose_provider("cpu"))
        for each in asyncio.run(reports(options.repository, provider, options.seconds, options.rounds))
    ]
    print_reports(card_name(), found)
    if options.json:
        content = {"card": card_name(), "reports": [asdict(each) for each in found]}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    for each in found:
        if each.provider == CUDA and not any(CUDA in by for by in each.nodes.values()):
            raise SystemExit(f"{each.model} has no node on {CUDA}")


if __name__ == "__main__":
    main()
