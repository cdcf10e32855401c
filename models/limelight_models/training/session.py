"""One sitting of training: data, model, loop, figures, run folder."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from limelight.base.suggestions import similar
from limelight_bundle.errors import InputError
from limelight_bundle.names import is_model_name
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.values import Audio, Image, Instance, Pair, Sentences, Text, Value
from limelight_models.attention.effective.core import without_maps
from limelight_models.cards.card import Card, Metric
from limelight_models.data import folder as files
from limelight_models.data import generated, row_files, rows
from limelight_models.data.dataset import DataError, Dataset, Example, known, require, shuffled
from limelight_models.data.understood import understood
from limelight_models.index import recipe
from limelight_models.network import Network
from limelight_models.recipes.device import find
from limelight_models.recipes.recipe import Recipe
from limelight_models.recipes.settings import Preset
from limelight_models.tasks.task import CPU, nothing
from limelight_models.training.batches import Batches
from limelight_models.training.checkpoint import Progress
from limelight_models.training.figures import figures
from limelight_models.training.heads import as_json, specialisation
from limelight_models.training.runs import EXAMPLES, METRICS, Run, RunError, read_run, write_results, write_run
from limelight_models.training.stop import Stop
from limelight_models.training.supervision import SupervisedAttention
from limelight_models.training.trainer import RESUME, WEIGHTS, Trainer

BUILTIN = "builtin"  # `builtin:NAME` is one of `limelight_models.data.generated`
_SUPERVISED = " Where to look was part of what was learned."
_EXAMPLES = 3
_LOOKED_AT = 200  # held-out examples on which heads are told apart
_EXAMPLE_LENGTH = 600  # characters; examples are shown, and sent with every description


@dataclass(frozen=True, kw_only=True)
class Order:
    """A training order: the model, data, settings and folder.

    data: a path, `builtin` for what comes with the model, or `builtin:NAME` for a set of
    `limelight_models.data.generated`. preset: empty for `demo` on builtin data, `full` on others. changes: settings
    that differ from the preset's. mechanism: for the model `mechanism`. attention: the alignment in the place of the
    model's softmax; empty for its own. name: what the model is called in a repository;
    empty for the model's own name, or the mechanism's. data_name, licence: what the bundle says of the data. gold: a
    file of examples that say where to look, for the figures of that alone. columns: of the data's lines, those that are
    read. examples: of the training part, at most so many; 0 for all. device: what it learns on, by name.
    """

    model: str
    out: Path
    data: str = BUILTIN
    preset: str = ""
    changes: dict[str, Any]
    mechanism: str = ""
    attention: str = ""
    name: str = ""
    data_name: str = ""
    licence: str = ""
    gold: str = ""
    columns: tuple[str, ...] = ()
    examples: int = 0
    device: str = "cpu"
    resume: bool = False
    overwrite: bool = False

    @property
    def recipe(self) -> Recipe[Any]:
        """The model's. Raises: DataError where there is none."""
        return recipe(self.model, self.mechanism, self.attention)

    @property
    def called(self) -> str:
        """The model's name in a repository. Raises: DataError where it is none."""
        name = self.name or default_name(self.model, self.mechanism, self.attention)
        if not is_model_name(name):
            raise DataError(
                f"{name!r} is no name for a model: small letters, digits, - and _, at most 64, a letter or digit first"
            )
        return name

    def chosen(self) -> Preset:
        """The preset, changed. Raises: DataError where there is none of the name."""
        presets = self.recipe.presets
        name = self.preset or ("demo" if self.data.partition(":")[0] == BUILTIN else "full")
        if name not in presets:
            close = similar(name, presets)
            raise DataError(f"there is no preset {name!r} of {self.model}; there are {', '.join(presets)}{close}")
        return replace(presets[name], settings=replace(presets[name].settings, **self.changes))


@dataclass(frozen=True)
class Source:
    """The names and places of a run's data, saved in its folder so that they are found again."""

    path: str
    seed: int
    name: str = ""
    licence: str = ""
    gold: str = ""
    columns: Sequence[str] = ()
    examples: int = 0


def check_texts(source: Source) -> None:
    """Raise DataError where something that a run folder is to keep is no text: it came as bytes that are no UTF-8."""
    for option, text in {
        "--data": source.path,
        "--data-name": source.name,
        "--licence": source.licence,
        "--gold": source.gold,
        "--columns": ",".join(source.columns),
    }.items():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{option} has bytes that are no UTF-8, from character {error.start + 1} on") from error


def default_name(model: str, mechanism: str, attention: str) -> str:
    """The default name of a model: `han`, `sparsemax`, `han-1-5-entmax`."""
    return slug("-".join(filter(None, (mechanism or model, attention))))


def slug(name: str) -> str:
    """A mechanism's name as the name of a model: `1.5-entmax` is `1-5-entmax`."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower().replace("α", "alpha")).strip("-")


Told = Callable[[Progress, int], None]


def train(order: Order, *, stop: Stop, told: Told, said: Callable[[str], None]) -> list[Metric]:
    """Train, or go on training; returns the held-out figures, which the run folder has too.

    Raises: DataError, RunError for what a person can mend; Interrupted when asked to stop.
    """
    device = find(order.device)
    run, dataset = go_on(order) if order.resume else begin(order)
    chosen = run.recipe
    for line in understood(dataset):
        said(line)
    torch.manual_seed(run.settings.seed)
    model = run.build()
    card = run.card(model)
    model.to(device)
    begun = order.resume and (order.out / RESUME).exists()
    weight = run.settings.supervision
    supervised = SupervisedAttention(card, dataset.train, weight) if weight else nothing
    if chosen.start and not begun:
        chosen.start(model, dataset, run.blueprint)
    said(f"{run.name}: {sum(p.numel() for p in model.parameters()):,} parameters")
    trainer = Trainer(
        task=chosen.task,
        model=model,
        train=batches(run, card, dataset.train, device),
        dev=batches(run, card, dataset.dev, device),
        settings=run.settings,
        folder=order.out,
        also=supervised,
        told=told,
    )
    if begun:
        trainer.resume()
        said(f"going on at epoch {trainer.progress.epoch + 1}, batch {trainer.progress.batch + 1}")
    # Nobody reads effective maps while a model learns, but who teaches it where to look.
    with stop, nullcontext() if weight else without_maps(model):
        trainer.run(stop)
    metrics = measured(run, model, card, dataset, device)
    heads = specialisation(model, card, batches(run, card, dataset.test[:_LOOKED_AT], device))
    more = {**report(trainer), **({"heads": as_json(heads)} if heads else {})}
    write_results(order.out, metrics, examples(card, dataset), more)
    return metrics


def measured(run: Run, network: Network, card: Card, dataset: Dataset, device: torch.device = CPU) -> list[Metric]:
    """The figures of a network, which is on this device, on what a run held out."""
    gold = batches(run, card, dataset.gold, device) if dataset.gold else None
    return figures(run.recipe.task, network, card, batches(run, card, dataset.test, device), dataset.train, gold)


def batches(run: Run, card: Card, examples: Sequence[Example], device: torch.device) -> Batches:
    """Examples as a run reads them."""
    labels, size = run.blueprint.labels, run.settings.batch_size
    return Batches(card, run.recipe.task, examples, labels=labels, batch_size=size, device=device)


def begin(order: Order) -> tuple[Run, Dataset]:
    """Start a new run folder; of an old run in it nothing stays."""
    chosen, name, preset = order.recipe, order.called, order.chosen()
    if order.out.exists() and any(order.out.iterdir()) and not order.overwrite:
        raise RunError(f"{order.out} is not empty; take --resume to go on, --overwrite to begin again, or another")
    source = Source(
        order.data, preset.settings.seed, order.data_name, order.licence, order.gold, order.columns, order.examples
    )
    check_texts(source)
    dataset = load(source, chosen)
    blueprint = chosen.prepare(dataset, preset)
    data = {
        **asdict(source),
        "fingerprint": dataset.fingerprint,
        "held_out": dataset.held_out,
        "name": dataset.name,
        "licence": dataset.licence,
        "summary": dataset.summary + (_SUPERVISED if preset.settings.supervision else ""),
        "does": dataset.does,
        "inputs": dict(dataset.inputs),
        "training_examples": known(dataset.train),
        "dev_examples": known(dataset.dev),
        "held_out_examples": known(dataset.test),
    }
    run = Run(order.model, order.mechanism, name, blueprint, preset.settings, data, order.attention)
    if order.attention:
        run.build()  # a model that cannot have it is refused before there is a folder
    for old in (RESUME, METRICS, EXAMPLES, WEIGHTS):
        (order.out / old).unlink(missing_ok=True)
    write_run(order.out, run)
    return run, dataset


def go_on(order: Order) -> tuple[Run, Dataset]:
    """Read an old run folder, and check that its data are still the same."""
    run = read_run(order.out)
    if (
        run.model != order.model
        or order.mechanism not in ("", run.mechanism)
        or order.attention not in ("", run.attention)
    ):
        held = " ".join(filter(None, (run.model, run.mechanism, run.attention)))
        wanted = " ".join(filter(None, (order.model, order.mechanism, order.attention)))
        raise RunError(f"{order.out} holds a run of {held}, not of {wanted}")
    if order.name not in ("", run.name):
        raise RunError(f"{order.out} holds a run called {run.name}, and going on does not rename it")
    return run, load_again(run, order.out)


def load_again(run: Run, folder: Path) -> Dataset:
    """The data of an old run. Raises: DataError, RunError where they are no longer there, or no longer the same."""
    data = run.data
    if missing := {"path", "seed", "fingerprint"} - set(data):
        raise RunError(f"{folder} does not state the {min(missing)} of its data; begin another run")
    dataset = load(Source(**{each.name: data[each.name] for each in fields(Source) if each.name in data}), run.recipe)
    if dataset.fingerprint != data["fingerprint"]:
        raise RunError(f"{data['path']}: the data have changed since {folder} was begun; begin another run")
    return dataset


def load(source: Source, chosen: Recipe[Any]) -> Dataset:
    """The data of a run, so many training examples of them, and a file of examples that say where to look."""
    if source.examples:
        whole = load(replace(source, examples=0), chosen)
        return replace(whole, train=tuple(shuffled(whole.train, source.seed)[: source.examples]))
    if source.gold:
        if not isinstance(chosen.data, rows.Kind):
            raise DataError(f"--gold takes a file of lines; this model learns from {chosen.data}")
        marked = tuple(row_files.read(Path(source.gold), chosen.data))
        require([each for each in marked if each.gold], f"{source.gold}, of those that say where to look,")
        return replace(load(replace(source, gold=""), chosen), gold=marked)
    if source.columns and source.path.partition(":")[0] == BUILTIN:
        raise DataError("--columns are those of a file; builtin data have none")
    if source.path == BUILTIN:
        if chosen.builtin is None:
            raise DataError(f"no data come with this model; give a file or folder of {chosen.data} with --data")
        return chosen.builtin(seed=source.seed)
    if source.path.startswith(f"{BUILTIN}:"):
        return generated.load(source.path.removeprefix(f"{BUILTIN}:"), chosen.data, source.seed)
    return files.load(
        Path(source.path),
        chosen.data,
        seed=source.seed,
        name=source.name,
        licence=source.licence,
        columns=source.columns,
    )


def examples(card: Card, dataset: Dataset) -> Sequence[Instance]:
    """A few held-out instances to show, each of another class, none of them long; what forces an output is left out.

    Every one is within the model's limits, as a server refuses the others; where none is, the first is cut until it is.
    """
    if dataset.shown:
        return dataset.shown
    forced = "" if card.written is None else card.written.target
    preprocessor = card.preprocessor()
    found: dict[str, Instance] = {}
    for number, example in enumerate(dataset.test):
        shown = {name: value for name, value in example.instance.items() if name != forced}
        kind = example.label or str(number)
        if kind not in found and _is_short(shown) and _fits(shown, preprocessor):
            found[kind] = shown
        if len(found) == _EXAMPLES:
            break
    if found:
        return list(found.values())
    first = {name: value for name, value in dataset.test[0].instance.items() if name != forced}
    while not (_is_short(first) and _fits(first, preprocessor)):
        shorter = {name: halved(value) for name, value in first.items()}
        if shorter == first:
            break
        first = shorter
    return [first]


def _is_short(instance: Instance) -> bool:
    return len(repr(instance)) < _EXAMPLE_LENGTH or any(isinstance(each, Image | Audio) for each in instance.values())


def _fits(instance: Instance, preprocessor: Preprocessor) -> bool:
    """Tell whether an instance is within the model's limits."""
    try:
        preprocessor.row(instance)
    except InputError:
        return False
    return True


def halved(value: Value) -> Value:
    """The first half of a text or a document; other values as they are."""
    match value:
        case Text(text):
            return Text(_half(text))
        case Pair(first, second):
            return Pair(_half(first), _half(second))
        case Sentences(texts) if len(texts) > 1:
            return Sentences(texts[: len(texts) // 2])
        case Sentences((text,)):
            return Sentences((_half(text),))
    return value


def _half(text: str) -> str:
    """The first half of the words, or of one word's characters."""
    words = text.split()
    return " ".join(words[: len(words) // 2]) if len(words) > 1 else text[: max(1, len(text) // 2)]


def report(trainer: Trainer) -> dict[str, Any]:
    """Facts that are needed to read the figures."""
    here = trainer.progress
    return {
        "best_epoch": here.best_epoch + 1,
        "epochs": len(here.history),
        "finished": trainer.finished,
        "seconds": round(here.seconds, 1),
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "history": here.history,
    }
