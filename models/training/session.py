"""One sitting of training: data, model, loop, figures, run folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bundle.values import Instance
from limelight.v1 import model_pb2
from models.data import folder as files
from models.data.dataset import DataError, Dataset
from models.network import Network
from models.training.batches import Batches
from models.training.checkpoint import Progress
from models.training.recipe import Recipe
from models.training.recipes import recipe
from models.training.runs import METRICS, Run, RunError, read_run, write_results, write_run
from models.training.settings import PRESETS, Preset
from models.training.stop import Stop
from models.training.trainer import RESUME, Trainer

BUILTIN = "builtin"
_EXAMPLES = 3
_EXAMPLE_LENGTH = 600  # characters; examples are shown, and sent with every description


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be trained, on what, how, and where to.

    data: a path, or `builtin`. preset: empty for `demo` on builtin data, `full` on others. changes: settings that
    differ from the preset's.
    """

    model: str
    out: Path
    data: str = BUILTIN
    preset: str = ""
    changes: dict[str, Any]
    name: str = ""
    licence: str = ""
    resume: bool = False
    overwrite: bool = False

    def chosen(self) -> Preset:
        """The preset, changed. Raises: DataError where there is none of the name."""
        presets = PRESETS[recipe(self.model).preset]
        name = self.preset or ("demo" if self.data == BUILTIN else "full")
        if name not in presets:
            raise DataError(f"there is no preset {name!r} of {self.model}; there are {', '.join(presets)}")
        return replace(presets[name], settings=replace(presets[name].settings, **self.changes))


Told = Callable[[Progress, int], None]


def train(order: Order, *, stop: Stop, told: Told, said: Callable[[str], None]) -> list[model_pb2.Metric]:
    """Train, or go on training; returns the held-out figures, which the run folder has too.

    Raises: DataError, RunError for what a person can mend; Interrupted when asked to stop.
    """
    chosen = recipe(order.model)
    run, dataset = go_on(order, chosen) if order.resume else begin(order, chosen)
    said(
        f"{dataset.name}: {len(dataset.train)} training, {len(dataset.dev)} dev, {len(dataset.test)} held-out examples"
    )
    torch.manual_seed(run.settings.seed)
    model, card = run.build(), run.card()
    parts = {
        name: Batches(card, getattr(dataset, name), batch_size=run.settings.batch_size)
        for name in ("train", "dev", "test")
    }
    said(f"{order.model}: {sum(p.numel() for p in model.parameters()):,} parameters")
    trainer = Trainer(
        recipe=chosen,
        model=model,
        train=parts["train"],
        dev=parts["dev"],
        settings=run.settings,
        folder=order.out,
        told=told,
    )
    if order.resume and (order.out / RESUME).exists():
        trainer.resume()
        said(f"going on at epoch {trainer.progress.epoch + 1}, batch {trainer.progress.batch + 1}")
    with stop:
        trainer.run(stop)
    metrics = chosen.judge(model, card, parts["test"], dataset)
    write_results(order.out, metrics, examples(model, dataset), report(trainer))
    return metrics


def begin(order: Order, chosen: Recipe[Any]) -> tuple[Run, Dataset]:
    """Start a new run folder."""
    if order.out.exists() and any(order.out.iterdir()):
        if not order.overwrite:
            raise RunError(f"{order.out} is not empty; take --resume to go on, --overwrite to begin again, or another")
        (order.out / RESUME).unlink(missing_ok=True)
        (order.out / METRICS).unlink(missing_ok=True)
    preset = order.chosen()
    dataset = load(order.data, chosen, preset.settings.seed, order.name, order.licence)
    data = {
        "path": order.data,
        "seed": preset.settings.seed,
        "fingerprint": dataset.fingerprint,
        "name": dataset.name,
        "licence": dataset.licence,
        "summary": dataset.summary,
        "training_examples": len(dataset.train),
        "dev_examples": len(dataset.dev),
        "held_out_examples": len(dataset.test),
    }
    run = Run(order.model, chosen.plan(dataset, preset), preset.settings, data)
    write_run(order.out, run)
    return run, dataset


def go_on(order: Order, chosen: Recipe[Any]) -> tuple[Run, Dataset]:
    """Read an old run folder, and check that its data are still the same."""
    run = read_run(order.out)
    if run.model != order.model:
        raise RunError(f"{order.out} holds a run of {run.model}, not of {order.model}")
    data = run.data
    dataset = load(data["path"], chosen, data["seed"], data["name"], data["licence"])
    if dataset.fingerprint != data["fingerprint"]:
        raise RunError(f"{data['path']}: the data have changed since {order.out} was begun; begin another run")
    return run, dataset


def load(data: str, chosen: Recipe[Any], seed: int, name: str, licence: str) -> Dataset:
    """The data of a run."""
    if data == BUILTIN:
        return chosen.builtin(seed)
    return files.load(Path(data), chosen.data_kind, seed=seed, name=name, licence=licence)


def examples(model: Network, dataset: Dataset) -> Sequence[Instance]:
    """A few held-out instances to show, each of another class, none of them long; targets are left out."""
    found: dict[str, Instance] = {}
    for number, example in enumerate(dataset.test):
        shown = {name: value for name, value in example.instance.items() if name != "target"}
        if len(repr(shown)) < _EXAMPLE_LENGTH or "image" in shown:
            found.setdefault(example.label or str(number), shown)
        if len(found) == _EXAMPLES:
            break
    return list(found.values()) or [dataset.test[0].instance]


def report(trainer: Trainer) -> dict[str, Any]:
    """What the figures are to be read with."""
    here = trainer.progress
    return {
        "best_epoch": here.best_epoch + 1,
        "epochs": len(here.history),
        "finished": trainer.finished,
        "seconds": round(here.seconds, 1),
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "history": here.history,
    }
