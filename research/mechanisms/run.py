"""One run: a mechanism trained with one seed and measured, as one row of results."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from research.mechanisms.data import Part, TaskData, gold_of, targets_of
from research.mechanisms.line import MEMORY, Line
from research.mechanisms.looks import CHECKS, Agreement, normalised_entropy, shares
from research.mechanisms.permuted import permuted
from research.mechanisms.results import packed
from research.mechanisms.subject import Subject
from research.mechanisms.tasks import TASKS, load
from research.mechanisms.training import Training, answers, losses, rightly, seeded, trained


def run(line: Line, seed: int, rates: tuple[float, ...]) -> Mapping[str, Any]:
    """Train one line; several rates are tried. The test part is read once, by the model that the dev part chose."""
    task, data = TASKS[line.task], load(line.task)
    began = time.process_time()
    training, tried = trained(task, data, line.make, seed, rates)
    subject, size = training.finished(), 2 * task.batch
    seeded(seed)
    right, figures = measured(subject, data.test, size)
    found: dict[str, Any] = {
        "of": data.of,
        "rate": training.rate,
        "tried": tried,
        "steps": training.steps,
        "dev": round(training.standing.accuracy, 4),
        "accuracy": round(float(right.mean()), 5),
        "examples": len(right),
        "right": packed(right),
        **{name: round(value, 4) for name, value in figures.items()},
        **({"curve": [(step, entropy) for step, _, entropy in training.curve]} if task.drawn else {}),
        "parameters": sum(p.numel() for p in subject.model.parameters()),
        "step_ms": round(1000 * training.seconds / training.steps, 2),
        "kept_mb": round(kept(training) / 1e6, 2),
    }
    if line.check:
        found["acted"] = round(acted(line, subject, data, size), 4)
    with permuted(subject.model) as done:
        moved = right_of(subject, data.test, size)
    if done:
        found["permuted"] = round(float(moved.mean()), 4)
    if data.longer:
        found["longer"] = round(float(right_of(subject, data.longer, size).mean()), 4)
    return {**found, "cpu_seconds": round(time.process_time() - began, 1), "torch": torch.__version__}


def right_of(subject: Subject, part: Part, size: int) -> np.ndarray:
    """Which examples are answered rightly in every step, bool [example]."""
    found = np.zeros(len(part), bool)
    for index, _, answer in answers(subject, part, size):
        found[index] = rightly(answer, targets_of(part, index))
    return found


def measured(subject: Subject, part: Part, size: int) -> tuple[np.ndarray, dict[str, float]]:
    """Which examples are answered rightly, the entropy of the weights, and how they agree with the right places."""
    right, entropies, agreement = np.zeros(len(part), bool), [], Agreement()
    for index, batch, answer in answers(subject, part, size):
        right[index] = rightly(answer, targets_of(part, index))
        maps = subject.maps(answer, batch)
        entropies += [normalised_entropy(each) for each in maps.values()]
        if part.gold:
            (only,) = maps.values()
            agreement.add(only, gold_of(part, index))
    joined = np.concatenate(entropies) if entropies else np.empty(0)
    figures = {"entropy": float(joined.mean())} if len(joined) else {}
    return right, figures | agreement.figures()


def acted(line: Line, subject: Subject, data: TaskData, size: int) -> float:
    """The share that says whether the idea acted, on the dev part."""
    found = []
    for _, batch, answer in answers(subject, data.dev, size):
        for name, each in subject.maps(answer, batch).items():
            if line.check != MEMORY:
                found.append(CHECKS[line.check](each).astype(float))
                continue
            subject.model.forgetful = True
            other = subject.maps(subject.model(**batch), batch)[name]
            subject.model.forgetful = False
            found.append((np.abs(shares(each) - shares(other)).sum(-1) / 2).ravel())
    return float(np.concatenate(found).mean())


def kept(training: Training) -> int:
    """Bytes that one training step keeps for its gradients, parameters left out."""
    own = {each.untyped_storage().data_ptr() for each in training.subject.model.parameters()}
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    index = np.arange(min(training.task.batch, len(training.data.train)))
    training.subject.model.train()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        batch = training.subject.batch(training.data.train, index, training=True)
        targets = targets_of(training.data.train, index)
        answer = training.subject.model(**batch)
        training.subject.model.objective(losses(answer, targets), answer, targets[:, 0])
    training.subject.model.eval()
    return sum(sizes.values())
