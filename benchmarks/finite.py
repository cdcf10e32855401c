"""What it costs to look whether the numbers of an answer are finite: `python -m benchmarks.finite`.

Each demo model answers its first example, alone and with every map, without a socket. A call takes longer by what it
takes to receive, frame and send it (1 to 2 ms), so the look's part of a call is smaller than its part here.
"""

import argparse
import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from unittest.mock import patch

from bundle.maps import MapWeights, map_quantities
from bundle.reader import read_bundle
from bundle.values import Array
from bundle.wire import instance_from_wire
from service.engine.finite import Finite
from service.engine.jobs import unheard
from service.engine.model import Model, open_model
from service.engine.observer import NullObserver
from service.engine.providers import choose_provider
from service.engine.types import MapKey, Query
from service.settings import Settings

DEMO = Path(__file__).resolve().parent.parent / "deploy" / "demo"


class Looks:
    """Notes the seconds of each look."""

    def __init__(self) -> None:
        self.each: list[float] = []
        self._problem = Finite.problem

    def problem(self, finite: Finite, outputs: Mapping[str, Array], maps: Mapping[MapKey, MapWeights]) -> str:
        """Look, and count the time of it."""
        before = time.perf_counter()
        found = self._problem(finite, outputs, maps)
        self.each.append(time.perf_counter() - before)
        return found


def measure(model: Model, rounds: int, *, maps: bool) -> tuple[float, float]:
    """Answer a model's first example again and again; gives the medians of an answer's seconds, and of those that the
    looks in it take.
    """
    row = model.preprocessor.row(instance_from_wire(model.description.examples[0], "examples[0]"), field="examples[0]")
    keys = [(each.name, quantity) for each, quantity in map_quantities(model.description.maps)]
    query = Query((row,), frozenset(keys if maps else ()))
    looks = Looks()
    answers, looked = [], []
    with patch.object(Finite, "problem", lambda self, outputs, maps: looks.problem(self, outputs, maps)):
        for _ in range(rounds):
            (job,) = model.jobs(unheard(model.seeded(query)), itertools.count(), time.monotonic_ns())
            looks.each.clear()
            before = time.perf_counter()
            for _ in model.runner.run([job]):
                pass
            answers.append(time.perf_counter() - before)
            looked.append(sum(looks.each))
    return median(answers), median(looked)


def main() -> None:
    """Print a line for each model and kind of call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    provider = choose_provider("cpu", lanes=1, cores=1)
    print("| model | call | answer, ms | look, ms | % |\n|---|---|---|---|---|")
    for folder in sorted(DEMO.iterdir()):
        bundle = read_bundle(next(folder.iterdir()))
        model = open_model(bundle, provider, Settings(), NullObserver())
        for name, maps in (("Predict", False), ("Attend, every map", True)):
            measure(model, 2, maps=maps)
            answer, look = measure(model, rounds, maps=maps)
            print(f"| {model.name} | {name} | {answer * 1e3:.3f} | {look * 1e3:.4f} | {100 * look / answer:.2f} |")


if __name__ == "__main__":
    main()
