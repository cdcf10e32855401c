"""Trains every model of the zoo for a step on a device that is not there (`pretend`), and prints what fails, as JSON.

A program of its own, because PyTorch knows the device from then on.
"""

import json
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from models.data import tokenizers
from models.data.canvas import questions
from models.data.dataset import Dataset, Example
from models.data.gold import Box, Gold, Span
from models.tasks import frechet
from models.tasks.segment import Segment
from models.tasks.task import CPU, nothing
from models.training.batches import Batches
from models.training.figures import figures
from models.training.heads import specialisation
from models.training.recipe import Blueprint
from models.training.settings import Settings
from models.training.stop import Stop
from models.training.supervision import SupervisedAttention
from models.training.trainer import Trainer
from models.zoo import seeing
from models.zoo.hierarchical import hatn
from models.zoo.index import MODELS, recipe
from tests.models import pretend, small
from tests.models.test_zoo_cards import TEXT, case, png

DEVICE = pretend.install()
NAMES = [name for name in MODELS if name != "mechanism"]
SETTINGS = Settings(epochs=1, batch_size=2)
# Where to look, in what a model reads: taught where it is said, and measured.
GOLD = {"cct": Gold((Box("image", 0, 0, 4, 4),)), "han": Gold((Span("document", 0, 8),))}


def examples(name: str) -> list[Example]:
    """Two, with everything that any task wants."""
    base = small.base(name)
    _, instances = case(name)
    nodes = {"gat": (3, 1)}.get(base, (8, 8))
    gold = (GOLD[base],) if base in GOLD else ()
    return [
        Example(
            instance, label="ab"[number], labels=("a", "b", "ground", "a", "b", "ground", "a", "b")[:count], gold=gold
        )
        if base != "sagan"
        else Example(instance, label="ab"[number], picture=png(number, (small.SAGAN.rows, small.SAGAN.columns)))
        for number, (instance, count) in enumerate(zip(instances, nodes, strict=True))
    ]


def trained(name: str, device: torch.device, folder: Path) -> list[float]:
    """The losses before a step and after it; of what is no variant, every figure is measured besides."""
    task, made = recipe(name).task, examples(name)
    if isinstance(task, Segment):
        task = replace(task, grid=(2, 4), size=(4, 8))  # the small network's
    card, _ = case(name)
    torch.manual_seed(0)
    network = small.build(name).to(device)
    parts = Batches(card, task, made, labels=("a", "b", "ground"), batch_size=2, device=device)
    also = SupervisedAttention(card, made, 0.5) if small.base(name) in GOLD else nothing
    trainer = Trainer(task=task, model=network, train=parts, dev=parts, settings=SETTINGS, folder=folder, also=also)
    trainer.run(Stop())
    if name in small.CONFIGS and device != CPU:
        figures(task, network, card, parts, made)
        specialisation(network, card, parts)
    pretend.STATE.zero_()
    trainer.resume()
    (record,) = trainer.progress.history
    return [record["train_loss"], record["dev_loss"]]


def model(name: str) -> None:
    """It learns there; of what is no variant, as on the CPU but for the order of sums."""
    with tempfile.TemporaryDirectory() as folder:
        found = trained(name, DEVICE, Path(folder))
    if name in small.CONFIGS:
        with tempfile.TemporaryDirectory() as folder:
            wanted = trained(name, CPU, Path(folder))
        assert np.allclose(found, wanted, rtol=1e-3), (found, wanted)


def goes_on() -> None:
    """The device's random numbers are kept with a run."""
    with tempfile.TemporaryDirectory() as folder:
        pretend.STATE.fill_(3)
        trained("gpt", DEVICE, Path(folder))
        assert pretend.STATE.tolist() == [3, 3, 3]


def learns_to_see() -> None:
    """An eye is taught where its network is."""
    config = replace(small.HIECOATT, taught=True)
    network = recipe("hiecoatt").build(Blueprint(config, (), {})).to(DEVICE)
    before = network.cells.layers[0][0].weight.to(CPU)
    data = questions.dataset(training=1, held_out=1)
    seeing.learn_to_see(network, data, Blueprint(config, (), {}))
    assert not torch.equal(before, network.cells.layers[0][0].weight.to(CPU))


def chooses_pivots() -> None:
    """So are the words that a network is to look for."""
    made = tuple(examples("hatn"))
    unlabelled = tuple(replace(each, label="") for each in made)
    data = Dataset(name="", licence="", summary="", train=made + unlabelled, dev=made, test=made)
    network = small.build("hatn").to(DEVICE)
    words = tokenizers.words(TEXT, vocabulary=small.VOCABULARY)
    hatn.start(network, data, Blueprint(small.HATN, ("a", "b", "c"), {"tokenizer.json": words}))


def refuses() -> None:
    """What a GPU refuses."""
    there, here = torch.ones(2, device=DEVICE), torch.ones(2)
    for wrong in (lambda: there + here, lambda: there[here.long()], lambda: there.numpy()):
        try:
            wrong()
        except (RuntimeError, TypeError):
            continue
        raise AssertionError("it was not refused")


CHECKS: dict[str, Callable[[], None]] = {
    **{name: lambda name=name: model(name) for name in NAMES},
    "refuses": refuses,
    "goes on": goes_on,
    "learns to see": learns_to_see,
    "chooses pivots": chooses_pivots,
}


def main() -> None:
    """Do all of it."""
    torch.set_num_threads(1)
    seeing._PICTURES, seeing._EPOCHS, frechet._STEPS = 32, 1, 3
    # What begins only later, or is left out as a rule.
    small.CONFIGS |= {"han": replace(small.HAN, word_dropout=0.5), "rban": replace(small.RBAN, soft=0)}
    failed = dict.fromkeys(CHECKS, "")
    for name, check in CHECKS.items():
        try:
            with pretend.Pretend():
                check()
        except Exception:
            failed[name] = traceback.format_exc(limit=-3)
    print(json.dumps(failed))


if __name__ == "__main__":
    main()
