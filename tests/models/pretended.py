"""Trains every model of the zoo for a step on a device that is not there (`pretend`), and prints what fails, as JSON.

So it does with each variant that has parts of its own. A program of its own, because PyTorch knows the device from then
on.
"""

import json
import os
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from limelight_models.data.canvas import questions
from limelight_models.index import recipe
from limelight_models.recipes import vision_pretraining
from limelight_models.recipes.recipe import Blueprint
from limelight_models.recipes.settings import Settings
from limelight_models.tasks import frechet
from limelight_models.tasks.task import CPU, nothing
from limelight_models.training.batches import Batches
from limelight_models.training.figures import figures
from limelight_models.training.heads import specialisation
from limelight_models.training.stop import Stop
from limelight_models.training.supervision import SupervisedAttention
from limelight_models.training.trainer import Trainer
from tests.kit import small
from tests.kit.small import PUBLISHED
from tests.models import pretend

DEVICE = pretend.install()
SETTINGS = Settings(epochs=1, batch_size=2)


def trained(name: str, device: torch.device, folder: Path) -> list[float]:
    """The losses before a step and after it, from what is made of the data on; of what is no variant, every figure is
    measured besides, and the run is read again.
    """
    chosen, task, card, data, plan = recipe(name), small.task(name), small.card(name), small.data(name), blueprint(name)
    torch.manual_seed(0)
    network = chosen.build(plan).to(device)
    if chosen.start:
        chosen.start(network, data, plan)
    train, dev = (
        Batches(card, task, part[:2], labels=plan.labels, batch_size=2, device=device)
        for part in (data.train, data.dev)
    )
    weight = chosen.presets["tiny"].settings.supervision
    also = SupervisedAttention(card, data.train, weight) if weight else nothing
    trainer = Trainer(task=task, model=network, train=train, dev=dev, settings=SETTINGS, folder=folder, also=also)
    trainer.run(Stop())
    if name in PUBLISHED and device != CPU:
        figures(task, network, card, dev, data.train)
        specialisation(network, card, dev)
        pretend.STATE.zero_()
        trainer.resume()
    (record,) = trainer.progress.history
    return [record["train_loss"], record["dev_loss"]]


def blueprint(name: str) -> Blueprint[Any]:
    """Sizes that the examples decide, with parts that begin only later or are left out as a rule."""
    plan = small.blueprint(name)
    known = {each.name for each in fields(plan.config)}
    also = {key: value for key, value in {"word_dropout": 0.5, "counted": True}.items() if key in known}
    return replace(plan, config=replace(plan.config, **also))


def model(published: str) -> None:
    """It learns there as on the CPU, but for the order of sums; its variants learn."""
    for name in small.unlike(published):
        with tempfile.TemporaryDirectory() as folder:
            found = trained(name, DEVICE, Path(folder))
        if name == published:
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
    plan = small.blueprint("hiecoatt")
    plan = replace(plan, config=replace(plan.config, taught=True))
    network = recipe("hiecoatt").build(plan).to(DEVICE)
    before = network.cells.layers[0][0].weight.to(CPU)
    vision_pretraining.learn_to_see(network, questions.dataset(training=1, held_out=1), plan)
    assert not torch.equal(before, network.cells.layers[0][0].weight.to(CPU))


def refuses() -> None:
    """An operation that a GPU refuses."""
    there, here = torch.ones(2, device=DEVICE), torch.ones(2)
    for wrong in (lambda: there + here, lambda: there[here.long()], lambda: there.numpy()):
        try:
            wrong()
        except (RuntimeError, TypeError):
            continue
        raise AssertionError("it was not refused")


CHECKS: dict[str, Callable[[], None]] = {
    **{name: lambda name=name: model(name) for name in PUBLISHED},
    "refuses": refuses,
    "goes on": goes_on,
    "learns to see": learns_to_see,
}


def main() -> None:
    """Do all of it."""
    torch.set_num_threads(1)
    vision_pretraining._PICTURES, vision_pretraining._EPOCHS, frechet._STEPS = 32, 1, 3
    failed = dict.fromkeys(CHECKS, "")
    for name, check in CHECKS.items():
        try:
            with pretend.Pretend():
                check()
        except Exception:
            failed[name] = traceback.format_exc(limit=-3)
    print(json.dumps(failed), flush=True)
    os._exit(0)  # threads of PyTorch that outlive the device can abort an orderly end


if __name__ == "__main__":
    main()
