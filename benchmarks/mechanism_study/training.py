"""Training one configuration and measuring what it learned, in processor seconds: the machine may be shared."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.mechanism_study.data import Part, TaskData, batches, collate
from models.cards.card import Card
from models.network import Answer
from models.tasks.classify import Classify
from models.tasks.task import Batch
from models.testbed.classifier import SmallModel


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and how fast a task is learned; the same for every mechanism of the task."""

    steps: int
    batch: int
    rate: float = 2e-3


SCHEDULES = {
    "sentence": Schedule(steps=160, batch=64, rate=8e-3),
    "pair": Schedule(steps=250, batch=64, rate=6e-3),
    "aspect": Schedule(steps=600, batch=64, rate=4e-3),
    "document": Schedule(steps=400, batch=16, rate=4e-3),
}
TASK = Classify()
NEUTRAL = 0.5  # uniform noise that draws the most likely, as a server does without a seed


def tensors(part: Part, index: np.ndarray) -> dict[str, Tensor]:
    """One batch as tensors."""
    return {name: torch.from_numpy(array) for name, array in collate([part.rows[i] for i in index]).items()}


def with_noise(batch: dict[str, Tensor], card: Card, draw: bool) -> dict[str, Tensor]:
    """The batch with the noise that the card asks for, drawn or neutral."""
    made = dict(batch)
    for each in card.noise:
        like = batch["token_ids"]
        fixed = [axis.size for axis in each.tensor.dimensions if axis.size]
        shape = (like.shape[0], *fixed, *like.shape[1:])
        made[each.tensor.name] = torch.rand(shape) if draw else torch.full(shape, NEUTRAL)
    return made


def train(model: SmallModel, card: Card, data: TaskData, schedule: Schedule, seed: int) -> float:
    """Fit the model; returns the processor seconds that it took."""
    model.train().requires_grad_(True)
    parameters = [p for p in model.parameters() if p.dtype.is_floating_point]
    optimiser = torch.optim.Adam(parameters, lr=schedule.rate, fused=True)
    began = time.process_time()
    for index in _steps(data.train, schedule, seed):
        batch = with_noise(tensors(data.train, index), card, draw=True)
        target = torch.from_numpy(data.train.labels[index])
        loss, terms = TASK.loss(model, Batch(batch, tuple(index.tolist()), target))
        optimiser.zero_grad()
        (loss / terms).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    model.eval()
    return time.process_time() - began


def _steps(part: Part, schedule: Schedule, seed: int) -> Iterator[np.ndarray]:
    generator, done = np.random.default_rng(seed), 0
    while True:
        for index in batches(part, schedule.batch, generator):
            if done == schedule.steps:
                return
            done += 1
            yield index


def answers(
    model: SmallModel, card: Card, part: Part, size: int
) -> Iterator[tuple[np.ndarray, dict[str, Tensor], Answer]]:
    """Answer everything held out: indices, batch, answer."""
    with torch.no_grad():
        for index in batches(part, size, None):
            batch = with_noise(tensors(part, index), card, draw=False)
            yield index, batch, model(**batch)
