"""What models of long texts cost by length, and what they still find there: every row beside softmax.

    python -m research.long_texts             # measures what has no figures yet, then writes docs/long-texts.md
    python -m research.long_texts NAME …      # measures these anew
    python -m research.long_texts --recall    # asks what has been trained, and not been asked yet, as well
    python -m research.long_texts --table     # only writes the page

Cost: the exported graph, untrained, one text, two threads. Time is the best of nine, beside that of softmax on the same
machine in the same run; a row is one query of one head of the last layer, asked for beside the answer, in the same
process. Memory is the peak of a process that runs one text.
Recall: of runs of docs/results.md, `one-64-NAME-0`, which learned it from 8,000 texts of 64 tokens; asked of 1,000
others of 64, 256 and 1,024.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch

from benchmarks.records import read, write
from limelight_export.execution import pytorch_runner
from limelight_export.tracing.build import build_graphs
from limelight_models.attention.effective.core import without_maps
from limelight_models.data import recall
from limelight_models.index import ZOO, recipe
from limelight_models.network import Network
from limelight_models.training.batches import Batches
from limelight_models.training.runs import load_run, read_run
from limelight_models.zoo.long.encoder import LongConfig
from research.replication.runs import RUNS
from research.replication.tables import percent, with_tables, written

RESULTS = Path(__file__).parent / "records" / "long_texts.json.xz"
PAGE = Path(__file__).parents[1] / "docs" / "long-texts.md"
LENGTHS = (1024, 4096, 16_384)
FORM, LEARNED, ASKED = "one", 64, (64, 256, 1024)
SOFTMAX = "linear-transformer-softmax"
THREADS = 2
LIMIT = 12 * 2**20  # KiB; a text that would take more is not run
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
asked = (text | row, ["logits", f"{layer}:rows"]) if layer else (text, ["logits", "encoder.1.self"])
pairs = [(timed(text, ["logits"]), timed(*asked)) for _ in range(9)]
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
    """Parameters; and by length seconds, what a row costs beside it, and KiB."""
    network, card = untrained(name)
    size = sum(each.numel() for each in network.parameters())
    graph = build_graphs(pytorch_runner.copy_for_export(network), card)[0]
    layer = ["", *graph.optional_maps][-1]  # none where context vectors are made of the weights
    by_length: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        onnx.save(graph.model, file)
        for count in LENGTHS:
            if expected(list(by_length.values())) < LIMIT:
                command = [sys.executable, "-c", _TIMED, str(file), str(count), layer, str(THREADS)]
                ran = subprocess.run(command, check=True, capture_output=True)
                by_length[str(count)] = json.loads(ran.stdout)
    return {"parameters": size, "lengths": by_length}


def expected(found: Sequence[Mapping[str, Any]]) -> float:
    """KiB at the next length, if memory grows with its square as it did before; 0 before there are two."""
    return found[-1]["kib"] + 16 * (found[-1]["kib"] - found[-2]["kib"]) if len(found) > 1 else 0


def recalled(folder: Path) -> dict[str, float]:
    """Share of texts of each length whose class a trained model finds."""
    trained, run = load_run(folder), read_run(folder)
    found = {}
    for tokens in ASKED:
        examples = recall.dataset(FORM, seed=1, training=1, held_out=1000, tokens=tokens).test
        batches = Batches(trained.card, run.recipe.task, examples, labels=run.blueprint.labels, batch_size=20)
        with torch.no_grad(), without_maps(trained.model):
            right = [
                (trained.model(**batch.tensors).outputs["logits"].argmax(-1) == batch.target).float().sum().item()
                for batch in batches.in_order()
            ]
        found[str(tokens)] = sum(right) / len(examples)
    return found


def run_of(name: str) -> Path:
    """The folder of the run in which a model learned to recall."""
    return RUNS / f"{FORM}-{LEARNED}-{name}-0"


def table(results: dict[str, Any]) -> list[str]:
    """A line a model."""
    shown = [(name, results[name]) for name in names() if name in results]
    asked = ASKED if any("recall" in found for _, found in shown) else ()
    heads = (
        "model",
        "row",
        "parameters",
        *(f"time, {count:,}" for count in LENGTHS),
        "4,096 to 16,384",
        "a row, 16,384",
        "MB, 4,096",
        "MB, 16,384",
        *(f"recall, {count:,}" for count in asked),
    )
    return written(heads, (line(name, found, asked) for name, found in shown), 2)


def line(name: str, found: dict[str, Any], asked: Sequence[int]) -> Sequence[str]:
    """The cells of a model."""
    by_length = [found["lengths"].get(str(count)) for count in LENGTHS]
    _, middle, many = by_length
    row = "J7" if name == SOFTMAX else ZOO[name].row
    recalled = found.get("recall", {})
    return (
        "softmax" if name == SOFTMAX else f"`{name}`",
        f"[{row}](atlas/{row}.md)",
        f"{found['parameters'] / 1000:,.0f}k",
        *(
            _times(each["seconds"] / beside) if each else ""
            for each, beside in zip(by_length, found["beside"], strict=True)
        ),
        *((f"× {many['seconds'] / middle['seconds']:.1f}", f"× {many['row']:.2f}") if many else ("", "")),
        *(f"{each['kib'] / 1024:,.0f}" if each else "" for each in (middle, many)),
        *(percent(recalled[str(count)]) if recalled else "" for count in asked),
    )


def _times(ratio: float) -> str:
    """A ratio to two or three digits that count."""
    return f"× {ratio:.{3 if ratio < 0.1 else 2 if ratio < 10 else 0}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models to measure anew")
    parser.add_argument("--recall", action="store_true", help="ask what has been trained, and not been asked yet")
    parser.add_argument("--table", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    results = read(RESULTS) if RESULTS.exists() else {}
    wanted = [] if arguments.table else arguments.names or [name for name in names() if name not in results]
    softmax = cost(SOFTMAX) if wanted else {"lengths": {}}
    beside = [each["seconds"] for each in softmax["lengths"].values()]
    for name in wanted:
        found = softmax if name == SOFTMAX else cost(name)
        results[name] = {**results.get(name, {}), **found, "beside": beside}
        print(name, json.dumps(results[name]), flush=True)
        write(RESULTS, results)
    for name in (name for name in names() if arguments.recall and "recall" not in results[name]):
        folder = run_of(name)
        if not (folder / "metrics.json").exists():
            print(f"{name} is not trained: python -m research.replication train {folder.name} --command …")
            continue
        results[name]["recall"] = recalled(folder)
        print(name, results[name]["recall"], flush=True)
        write(RESULTS, results)
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), {"long texts": table(results)}), encoding="utf-8")


if __name__ == "__main__":
    main()
