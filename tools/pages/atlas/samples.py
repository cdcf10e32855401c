"""Serves a sample of each row that has code, and records one of its maps: research/records/atlas.json.xz.

    python -m pages.atlas.samples            # rows that have none yet
    python -m pages.atlas.samples C12 J1     # these, again

A row's first mechanism that a server can show is trained in its small task model for a few seconds, its first published
model for half a minute, as by the command that the record keeps; where the demo has a model of the row, or a run of
docs/results.md is there (`runs/results/NAME-SEED`, the best of three), that is served instead. Models of long texts are
such runs as well, `one-64-NAME-0`, trained where they are not; they are asked for short ones. A server then answers
held-out examples, of which the first that is small enough is kept.
"""

import json
import random
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import limelight
from benchmarks.records import ROOT, read, write
from limelight.base.enums import name_of
from limelight.v1 import attention_pb2
from limelight_bundle.errors import LimelightError
from limelight_bundle.reader import read_bundle
from limelight_bundle.wire import instance_to_wire
from limelight_export import export_run
from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.data import recall
from limelight_models.data.generated import SETS
from limelight_models.index import ZOO, recipe
from limelight_models.training.session import Order, train
from limelight_models.training.stop import Stop
from limelight_models.zoo.long.encoder import LongConfig
from pages.atlas.rows import rows
from pages.references import served
from research.long_texts import FORM, LEARNED, run_of
from research.replication.runs import COMMAND, RUNS

RECORD = ROOT / "research" / "records" / "atlas.json.xz"
DEMO = {"J1": "dates", "J4": "canvas", "J5": "slips", "J7": "numbers"}
# Maps that show a model's own idea; of the others, the last one of the last layer.
MAPS = {
    "G6": "left",
    "J4": "question.regions",
    "J5": "sentence",
    "J6": "pivots.word",
    "J8": "left",
    "J10": "first.forward",
    "J16": "level",
    "K5": "decoder.read",
    "K19": "gate.1",
    "L5": "encoder.steps",
    "L15": "first.self",
    "L17": "encoder.0.self",
    "M17": "encoder.1.self",
    "M19": "encoder.0.self",
    "P12": "layers",
    "P15": "encoder.1.self",
}
HEADS = {"P15": 0}  # the head that shows it; of other maps the mean of all
KINDS = ("cross", "co", "memory", "pool", "graph", "self")
MINUTES = "0.5"
AT_ONCE = 6  # models in one repository
LEAST, MOST = 5, 24  # entries along an axis
_EXAMPLES = 60
RECALL = f"builtin:{FORM}-{LEARNED}"
_TASKS = {"pair": "builtin:inference", "aspect": "builtin:aspects"}  # those that bring no data of their own


class Sample(NamedTuple):
    """What serves a row: the name of its model, and the words of `limelight train`; none for one of the demo.

    run: a folder where it is trained already, if it is there.
    """

    model: str
    train: tuple[str, ...] = ()
    run: Path | None = None


def sample(row: str) -> Sample | None:
    """What serves a row; None where nothing can."""
    if row in DEMO:
        return Sample(DEMO[row])
    if found := next((each for each in MECHANISMS if each.row == row and each.served), None):
        return Sample(row.lower(), ("mechanism", "--mechanism", found.name, *_data(found), "--epochs", "4"))
    models = [name for name, entry in ZOO.items() if entry.row == row]
    if long := next((name for name in models if issubclass(recipe(name).config, LongConfig)), ""):
        return Sample(long, (long, "--preset", "demo", "--data", RECALL, "--epochs", "10"), run_of(long))
    if not models:
        return None
    runs = [run for seed in range(3) if ((run := RUNS / f"{models[0]}-{seed}") / "metrics.json").exists()]
    if runs:
        best = min(runs, key=_dev_loss)
        return Sample(models[0], tuple(shlex.split((best / COMMAND).read_text())[2:]), best)
    return Sample(row.lower(), (models[0], "--time-limit", MINUTES))


def _dev_loss(run: Path) -> float:
    """The least of a finished run."""
    return min(float(epoch["dev_loss"]) for epoch in json.loads((run / "metrics.json").read_text())["history"])


def _data(mechanism: Mechanism) -> tuple[str, ...]:
    assert mechanism.served
    task = mechanism.served.task
    return ("--data", _TASKS[task]) if task in _TASKS else (("--data", PARSED) if task == "distances" else ())


PARSED = "parsed.jsonl"


def parsed(file: Path) -> None:
    """Write sentences with the head of each word, which say by the word that a verb governs what they are about."""
    chance, people = random.Random(0), ("girl", "man", "dog", "child")
    things = {"food": ("bread", "soup", "fish"), "toy": ("ball", "kite", "doll"), "tool": ("rake", "saw", "drill")}
    lines = []
    for _ in range(900):
        label = chance.choice(sorted(things))
        who, like, what = chance.choice(people), chance.choice(("small", "red")), chance.choice(things[label])
        words = f"the {who} sees a {like} {what}".split()
        heads = [2, 3, 0, 6, 6, 3]
        if chance.random() < 0.7:  # beside something else, which hangs on the one who sees
            words[2:2] = ["with", "a", chance.choice(things[chance.choice(sorted(things))])]
            heads = [2, 6, 5, 5, 2, 0, 9, 9, 6]
        lines.append(json.dumps({"label": label, "text": " ".join(words), "heads": heads}))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def exported(chosen: Sample, folder: Path) -> None:
    """Train as the command of the sample does, and export."""
    if chosen.run and (chosen.run / "metrics.json").exists():
        export_run(chosen.run, folder / "repository", interventions=False)
        return
    options = dict(zip(chosen.train[1::2], chosen.train[2::2], strict=True))
    parsed(folder / PARSED)
    order = Order(
        model=chosen.train[0],
        mechanism=options.get("--mechanism", ""),
        out=folder / chosen.model,
        data=str(folder / PARSED) if options.get("--data") == PARSED else options.get("--data", "builtin"),
        preset=options.get("--preset", ""),
        changes={"epochs": int(options["--epochs"])} if "--epochs" in options else {},
        name=chosen.model,
    )
    train(order, stop=Stop(minutes=float(options.get("--time-limit", 0))), told=lambda *_: None, said=lambda _: None)
    export_run(order.out, folder / "repository", interventions=False)


def measured(row: str, chosen: Sample, repository: Path, client: limelight.Client) -> dict[str, Any]:
    """Ask the server: the record of a row."""
    described = read_bundle(next((repository / chosen.model).iterdir())).bundle.description
    kinds = [KINDS.index(name_of(attention_pb2.MapKind, each.kind)) for each in described.maps]
    last = max(range(len(kinds)), key=lambda place: (-kinds[place], described.maps[place].layer, place))
    name = MAPS.get(row) or described.maps[last].name
    shown = list(answered(client, chosen.model, instances(chosen, described), name, HEADS.get(row)))
    small = [each for each in shown if each[1]["whole"]]  # the last one is large enough to see, if any is
    answer, found = small[-1] if small else min(shown, key=lambda each: each[1]["size"])
    metric, data = described.metrics[0] if described.metrics else None, described.training_data
    return {
        "command": ["limelight", "train", *chosen.train] if chosen.train else ["limelight", "demo"],
        "model": chosen.model,
        "title": described.title,
        "data": data.name,
        "learned_from": data.training_examples,
        "held_out": data.held_out_examples,
        "metric": [metric.name, metric.value, metric.baseline_name, metric.baseline] if metric else [],
        "map": name,
        "kind": answer[name].kind,
        "signed": answer[name].signed,
        "answer": answer.prediction.heading[:80],
        **found,
    }


def answered(
    client: limelight.Client, model: str, given: Iterable[Any], name: str, head: int | None
) -> Iterator[tuple[limelight.Attended, dict[str, Any]]]:
    """Answers up to the first whose map is small enough; what is too long for the model is left out."""
    for each in given:
        with suppress(limelight.InvalidArgument):
            answer = client.attend(model, [each], maps=[name], heads=None if head is None else [head])[0]
            yield answer, (found := drawn(answer[name]))
            if found["whole"] and max(found["size"]) >= LEAST:
                return


def instances(chosen: Sample, described: Any) -> Iterator[Any]:
    """Held-out examples: of the data that are made here, or those that the bundle has."""
    options = dict(zip(chosen.train[1::2], chosen.train[2::2], strict=True))
    builtin, data = None, options.get("--data", "builtin")
    if data == RECALL:
        builtin = partial(recall.dataset, FORM, tokens=MOST, training=1, held_out=_EXAMPLES)
    elif chosen.train and data == "builtin":
        builtin = recipe(chosen.train[0], options.get("--mechanism", "")).builtin
    elif data.startswith("builtin:"):
        builtin = SETS[data.removeprefix("builtin:")].make
    if builtin is None:
        yield from described.examples
        return
    required = {each.name for each in described.inputs if not each.optional}
    for example in builtin(seed=0).test[:_EXAMPLES]:
        yield instance_to_wire({name: value for name, value in example.instance.items() if name in required})


def drawn(found: limelight.AttentionMap) -> dict[str, Any]:
    """A map of an answer as rows and columns: queries and keys; of one query its heads, features, or cells."""
    weights, said = found.dense(), []
    features = weights.ndim == 4
    grid = found.key.grid
    if features and weights.shape[1] == 1:
        weights, names, kind = weights[0, 0].T, _names(found.feature_labels, weights.shape[3]), "features"
    else:
        if features:
            said.append(f"mean of {weights.shape[3]} features")
            weights = weights.mean(3)
        if found.head_labels and len(weights) == 1:
            said.append(f"head {found.head_labels.labels[found.heads[0]]}")
        if weights.shape[1] == 1 and len(weights) > 1:
            weights, names, kind = weights[:, 0], _names(found.head_labels, len(weights)), "heads"
        else:
            if len(weights) > 1:
                said.append(f"mean of {len(weights)} heads")
            weights, names, kind = weights.mean(0), list(found.query.labels), found.query.kind
    columns, keys = list(found.key.labels), found.key.kind
    if grid is not None and len(weights) == 1 and not grid.leading:
        weights = weights.reshape(grid.rows, grid.columns)
        names, columns, kind, keys = [], [], "rows of the picture", "columns of the picture"
    height, width = weights.shape
    if found.kind == "graph":
        chosen = _neighbours(weights)
        weights = weights[np.ix_(chosen, chosen)]
        names, columns = ([labels[node] for node in chosen] for labels in (names, columns))
    cut = weights[:MOST, :MOST]
    return {
        "weights": np.round(cut.astype(float), 3).tolist(),
        "rows": [each[:MOST] for each in names[:MOST]],
        "columns": [each[:MOST] for each in columns[:MOST]],
        "rows_are": kind,
        "columns_are": keys,
        "size": [height, width],
        "whole": max(height, width) <= MOST,
        "said": said,
    }


def _names(labels: limelight.LabelSet | None, count: int) -> list[str]:
    return list(labels.labels) if labels is not None else [str(number) for number in range(count)]


def _neighbours(weights: np.ndarray) -> list[int]:
    """The nodes that are nearest to the first, in as many steps as it takes."""
    found = [int(np.argmax((weights > 0).sum(1)))]
    for node in found:
        found += [n for n in np.flatnonzero(weights[node]).tolist() if n not in found]
        if len(found) >= MOST:
            break
    return found[:MOST]


def main(wanted: Sequence[str]) -> None:
    """Write the record anew, some rows at a time."""
    torch.set_num_threads(1)
    known = read(RECORD) if RECORD.exists() else {}
    left = [(row, chosen) for row in wanted or rows() if wanted or row not in known if (chosen := sample(row))]
    for begin in range(0, len(left), AT_ONCE):
        with tempfile.TemporaryDirectory() as name:
            found = dict(_served(left[begin : begin + AT_ONCE], Path(name)))
        record = (read(RECORD) if RECORD.exists() else {}) | found
        write(RECORD, {each: record[each] for each in rows() if each in record})


def _served(some: Sequence[tuple[str, Sample]], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    (folder / "repository").mkdir()
    there = []
    for row, chosen in some:
        began = time.monotonic()
        try:
            if chosen.train:
                exported(chosen, folder)
            else:
                shutil.copytree(ROOT / "deploy" / "demo" / chosen.model, folder / "repository" / chosen.model)
            there.append((row, chosen))
        except LimelightError as error:
            print(row, "failed:", error.message, flush=True)
        print(row, f"{time.monotonic() - began:.0f} s", flush=True)
    with served(folder / "repository") as client:
        for row, chosen in there:
            yield row, (found := measured(row, chosen, folder / "repository", client))
            print(row, found["map"], found["size"], found["metric"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
