"""What models of long texts cost by length, and what they still find there: every row beside softmax.

    python -m research.long_texts             # measures what has no figures yet, then writes docs/long-texts.md
    python -m research.long_texts NAME …      # measures these anew
    python -m research.long_texts --table     # only writes the page

Cost: the exported graph, untrained, one text, two threads. Time is the best of nine; a row is one query of one head
of the last layer, asked for beside the answer, in the same process. Memory is the peak of a process that runs one text.
Recall: learned once from 8,000 texts of 64 tokens, and asked of 1,000 others of 64, 256 and 1,024.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch

from benchmarks.records import read, write
from limelight_export.execution import pytorch_runner
from limelight_export.tracing.build import build_graphs
from limelight_models.data import recall
from limelight_models.index import ZOO, recipe
from limelight_models.network import Network
from limelight_models.training.batches import Batches
from limelight_models.training.runs import load_run, read_run
from limelight_models.zoo.long.encoder import LongConfig
from research.replication.tables import percent, with_tables, written

RESULTS = Path(__file__).parent / "records" / "long_texts.json.xz"
PAGE = Path(__file__).parents[1] / "docs" / "long-texts.md"
LENGTHS = (1024, 4096, 16_384)
FORM, LEARNED, ASKED = "one", 64, (64, 256, 1024)
SOFTMAX = "linear-transformer-softmax"
EPOCHS, THREADS = 10, 2
_TIMED = r"""
import json, re, sys, time
import numpy as np
import onnxruntime as ort
file, count, layer, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = threads, 3
session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
text = {"token_ids": np.random.default_rng(0).integers(1, 10, (1, count)), "token_mask": np.ones((1, count), bool)}
text = {each.name: text[each.name] for each in session.get_inputs()}
row = {f"{layer}:heads": np.array([1]), f"{layer}:queries": np.array([count - 1])}
def timed(given, outputs):
    began = time.perf_counter()
    session.run(outputs, given)
    return time.perf_counter() - began
timed(text, ["logits"])
peak = int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
pairs = [(timed(text, ["logits"]), timed(text | row, ["logits", f"{layer}:rows"])) for _ in range(9)]
alone, asked = (min(each) for each in zip(*pairs))
print(json.dumps({"seconds": alone, "row": asked / alone, "kib": peak}))
"""


def names() -> list[str]:
    """Models of long texts, softmax first."""
    return [SOFTMAX, *(name for name in ZOO if issubclass(recipe(name).config, LongConfig))]


def untrained(name: str) -> tuple[Network, Any]:
    """A model of the preset `demo` that takes the longest texts, and its card."""
    chosen = recipe(name)
    preset = chosen.presets["demo"].sized(max_tokens=max(LENGTHS))
    blueprint = chosen.prepare(recall.dataset(FORM, tokens=LEARNED, training=200, held_out=10), preset)
    blueprint = replace(blueprint, config=replace(blueprint.config, **chosen.changes))
    torch.manual_seed(0)
    network = chosen.build(blueprint)
    card = chosen.card(network, blueprint)
    card.description.name = name
    return network, card


def cost(name: str) -> dict[str, Any]:
    """Parameters; and by length seconds, what a row costs beside, and KiB."""
    network, card = untrained(name)
    size = sum(each.numel() for each in network.parameters())
    graph = build_graphs(pytorch_runner.copy_for_export(network), card)[0]
    layer = list(graph.optional_maps)[-1]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        onnx.save(graph.model, file)
        by_length = {
            str(count): json.loads(
                subprocess.run(
                    [sys.executable, "-c", _TIMED, str(file), str(count), layer, str(THREADS)],
                    check=True,
                    capture_output=True,
                ).stdout
            )
            for count in LENGTHS
        }
    return {"parameters": size, "lengths": by_length}


def learned(name: str) -> dict[str, float]:
    """Share of texts of each length whose class is found, after training on short ones."""
    with tempfile.TemporaryDirectory() as folder:
        train = [
            sys.executable,
            "-m",
            "limelight.cli",
            "train",
            name,
            "--preset",
            "demo",
            "--out",
            folder,
            "--overwrite",
        ]
        subprocess.run(
            [*train, "--data", f"builtin:{FORM}-{LEARNED}", "--epochs", str(EPOCHS)], check=True, capture_output=True
        )
        trained, run = load_run(Path(folder)), read_run(Path(folder))
    found = {}
    for tokens in ASKED:
        examples = recall.dataset(FORM, seed=1, training=1, held_out=1000, tokens=tokens).test
        batches = Batches(trained.card, run.recipe.task, examples, labels=run.blueprint.labels, batch_size=20)
        with torch.no_grad():
            right = [
                (trained.model(**batch.tensors).outputs["logits"].argmax(-1) == batch.target).float().sum().item()
                for batch in batches.in_order()
            ]
        found[str(tokens)] = sum(right) / len(examples)
    return found


def table(results: dict[str, Any]) -> list[str]:
    """A line a model."""
    heads = (
        "model",
        "row",
        "parameters",
        *(f"ms, {count:,}" for count in LENGTHS),
        "4,096 to 16,384",
        "a row, 16,384",
        "MB, 4,096",
        "MB, 16,384",
        *(f"recall, {count:,}" for count in ASKED),
    )
    return written(heads, (line(name, results[name]) for name in names() if name in results), 2)


def line(name: str, found: dict[str, Any]) -> Sequence[str]:
    """The cells of a model."""
    few, middle, many = (found["lengths"][str(count)] for count in LENGTHS)
    row = "J7" if name == SOFTMAX else ZOO[name].row
    return (
        "softmax" if name == SOFTMAX else f"`{name}`",
        f"[{row}](atlas/{row}.md)",
        f"{found['parameters'] / 1000:,.0f}k",
        *(f"{each['seconds'] * 1000:,.1f}" for each in (few, middle, many)),
        f"× {many['seconds'] / middle['seconds']:.1f}",
        f"× {many['row']:.2f}",
        *(f"{each['kib'] / 1024:,.0f}" for each in (middle, many)),
        *(percent(found["recall"][str(count)]) for count in ASKED),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models to measure anew")
    parser.add_argument("--table", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    results = read(RESULTS) if RESULTS.exists() else {}
    wanted = [] if arguments.table else arguments.names or [name for name in names() if name not in results]
    for name in wanted:
        results[name] = {**cost(name), "recall": learned(name)}
        print(name, json.dumps(results[name]), flush=True)
        write(RESULTS, results)
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), {"long texts": table(results)}), encoding="utf-8")


if __name__ == "__main__":
    main()
