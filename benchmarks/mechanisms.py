"""Every attention mechanism in the same small task model, trained on the same data for the same number of steps.

    python -m benchmarks.mechanisms                  # what is missing of the study, then the table
    python -m benchmarks.mechanisms --part 1/2       # one of two processes that share the work
    python -m benchmarks.mechanisms --only latency   # or train, or table

Results are appended to benchmarks/results/mechanisms.jsonl and never measured twice; docs/mechanisms.md is written from
them. Training times are processor seconds of one thread. The data sets are found at LIMELIGHT_DATA.
"""

import argparse
import random
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from benchmarks.mechanism_study.configurations import Configuration, configurations, measured, refusal
from benchmarks.mechanism_study.data import load
from benchmarks.mechanism_study.latency import latencies
from benchmarks.mechanism_study.measure import measure
from benchmarks.mechanism_study.page import page
from benchmarks.mechanism_study.results import Results
from benchmarks.mechanism_study.training import SCHEDULES, train

SEEDS = (0, 1, 2)
TOGETHER = 12  # graphs in one trace
PAGE = Path(__file__).parents[1] / "docs" / "mechanisms.md"


def run(configuration: Configuration, seed: int, results: Results) -> None:
    """Train and measure one configuration with one seed, and file the result."""
    data, schedule = load(configuration.task), SCHEDULES[configuration.task]
    if reason := refusal(configuration, data.texts):
        results.add("refused", configuration.key, 0, reason=reason)
        return
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    model, card = configuration.make(data.texts)
    seconds = train(model, card, data, schedule, seed)
    found = measure(model, card, data, schedule.batch)
    results.add(
        "run",
        configuration.key,
        seed,
        accuracy=round(found.accuracy, 5),
        held_out=len(data.held_out.labels),
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        mechanism_parameters=sum(p.numel() for n, p in model.named_parameters() if not n.startswith("features.")),
        train_cpu_seconds=round(seconds, 3),
        steps=schedule.steps,
        batch=schedule.batch,
        entropy={name: value if value is None else round(value, 5) for name, value in found.entropy.items()},
        **({"overlap": asdict(found.overlap)} if found.overlap else {}),
        torch=torch.__version__,
    )


def missing(results: Results, part: int, parts: int) -> list[tuple[Configuration, int]]:
    """Configurations and seeds without a result, seed by seed; of `parts` processes, what the `part`-th does."""
    everything = [(each, seed) for seed in SEEDS for each in measured()]
    return [
        (each, seed)
        for number, (each, seed) in enumerate(everything)
        if number % parts == part
        and not results.known("run", each.key, seed)
        and not results.known("refused", each.key)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="1/1", help="which part of how many, for processes side by side")
    parser.add_argument("--only", choices=("train", "latency", "table"), default="", help="one of the three steps")
    parser.add_argument("--task", default="", help="only this task: sentence, pair, aspect or document")
    arguments = parser.parse_args()
    part, parts = (int(number) for number in arguments.part.split("/"))
    torch.set_num_threads(1)
    results = Results()
    if arguments.only in ("", "train"):
        for configuration, seed in missing(results, part - 1, parts):
            if arguments.task in ("", configuration.task):
                began = time.monotonic()
                run(configuration, seed, results)
                print(f"{configuration.key} · seed {seed} · {time.monotonic() - began:.1f} s", flush=True)
    if arguments.only in ("", "latency"):
        time_graphs(results)
    if arguments.only in ("", "table"):
        results.read()
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(configurations(), results), encoding="utf-8")


def time_graphs(results: Results) -> None:
    """File ONNX Runtime's time for every configuration that can be built and has none: a few in one trace."""
    results.read()
    for task in SCHEDULES:
        waiting = [
            each
            for each in measured()
            if each.task == task and not results.known("latency", each.key) and not refusal(each, load(task).texts)
        ]
        for begin in range(0, len(waiting), TOGETHER):
            for key, milliseconds in latencies(waiting[begin : begin + TOGETHER]).items():
                results.add("latency", key, 0, ms=round(milliseconds, 4), onnxruntime=onnxruntime.__version__)
                print(f"{key} · {milliseconds:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
