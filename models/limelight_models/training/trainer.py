"""The training loop: one for all models."""

import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from limelight_models.data.dataset import DataError
from limelight_models.network import Network
from limelight_models.recipes.settings import Settings
from limelight_models.tasks.task import Also, Batch, Task, nothing
from limelight_models.training.batches import Batches
from limelight_models.training.checkpoint import Progress, read_state, read_weights, write_state, write_weights
from limelight_models.training.stop import Interrupted, Stop

WEIGHTS, RESUME = "weights.safetensors", "resume.safetensors"


def rate(settings: Settings, step: int, total: int) -> float:
    """Share of the learning rate at a step: a line up, then a cosine down to a twentieth."""
    warm = max(1, round(settings.warm_up * total))
    if step < warm:
        return (step + 1) / warm
    return 0.05 + 0.95 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1, total - warm)))) / 2


class Trainer:
    """Teaches a model its task, keeps the best weights in `folder`, and the state to go on from.

    also: what else an answer costs in training, beside the task's loss. told: called after each step and each epoch,
    for whoever shows progress.
    """

    def __init__(
        self,
        *,
        task: Task,
        model: Network,
        train: Batches,
        dev: Batches,
        settings: Settings,
        folder: Path,
        also: Also = nothing,
        told: Callable[[Progress, int], None] = lambda progress, batches: None,
    ) -> None:
        self.task, self.model, self.settings, self.folder, self.told = task, model, settings, folder, told
        self.train, self.dev, self.also = train, dev, also
        self.progress = Progress()
        self.optimizer = torch.optim.AdamW(
            [{"params": parameters, "times": times} for parameters, times in model.rates()],
            lr=settings.learning_rate,
            betas=(settings.momentum, 0.999),
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def resume(self) -> None:
        """Go on from the state in the folder."""
        self.progress = read_state(self.folder / RESUME, self.model, self.optimizer)

    @property
    def finished(self) -> bool:
        """True when all epochs are done, or patience is at its end."""
        here = self.progress
        waited = here.epoch - 1 - here.best_epoch if here.best_epoch >= 0 else 0
        return here.epoch >= self.settings.epochs or waited >= self.settings.patience

    def run(self, stop: Stop) -> None:
        """Train until finished or out of time; the model then has its best weights.

        Raises: Interrupted, with the state saved, when asked to stop; DataError where no dev loss was finite.
        """
        began, before = time.monotonic(), self.progress.seconds
        while not self.finished and not stop.out_of_time:
            batches = self.train.shuffled(self.settings.seed, self.progress.epoch, done=self.progress.batch)
            for batch in batches:
                self._step(batch)
                self.progress.seconds = before + time.monotonic() - began
                self.told(self.progress, len(self.train))
                if stop.interrupted:
                    self._save()
                    raise Interrupted
                if stop.out_of_time:
                    break
            self._judge(len(self.train))
        if self.progress.best_epoch < 0 and not self.progress.history:
            self._judge(0)
        if self.progress.best_epoch < 0:
            raise DataError(
                "the loss on the dev part was never a finite number, so there are no weights worth keeping; "
                "begin again with a lower --learning-rate"
            )
        read_weights(self.folder / WEIGHTS, self.model)
        self.model.eval()

    def _step(self, batch: Batch) -> None:
        here = self.progress
        share = rate(self.settings, here.step, len(self.train) * self.settings.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * share * group["times"]
        self.model.train()
        self.optimizer.zero_grad()
        loss, terms = self.task.loss(self.model, batch, self.also)
        if loss.requires_grad:  # a control can have nothing that its answers follow from
            (loss / max(1, terms)).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimizer.step()
        here.step, here.batch = here.step + 1, here.batch + 1
        here.loss, here.terms = here.loss + float(loss.detach()), here.terms + terms

    def _judge(self, batches: int) -> None:
        """End an epoch, or as much of one as there was time for."""
        here, dev = self.progress, self._dev_loss()
        record = {"epoch": here.epoch + 1, "step": here.step, "train_loss": here.loss / max(1, here.terms)}
        here.history.append({**record, "dev_loss": dev, "seconds": round(here.seconds, 2)})
        standing = self.task.standing(self.model, self.dev, self.train.examples, dev)
        if math.isfinite(dev) and standing < here.best:
            here.best, here.best_epoch = standing, here.epoch
            write_weights(self.folder / WEIGHTS, self.model)
        if here.batch >= batches:
            here.epoch, here.batch, here.loss, here.terms = here.epoch + 1, 0, 0.0, 0
        self._save()
        self.told(here, 0)

    def _dev_loss(self) -> float:
        self.model.eval()
        total, terms = 0.0, 0
        with torch.no_grad():
            for batch in self.dev.in_order():
                loss, count = self.task.loss(self.model, batch)
                total, terms = total + float(loss), terms + count
        return total / max(1, terms)

    def _save(self) -> None:
        write_state(self.folder / RESUME, self.model, self.optimizer, self.progress)
