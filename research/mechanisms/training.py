"""Training of one model: the same for all of a task, but for a learning rate chosen on the dev part."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from limelight_models.network import Answer
from research.mechanisms.data import NO_TARGET, Part, TaskData, in_order, shuffled, targets_of
from research.mechanisms.looks import normalised_entropy
from research.mechanisms.start import equal_start
from research.mechanisms.subject import Batch, Subject
from research.mechanisms.tasks import Task

PATIENCE = 4  # looks at the dev part without improvement
LOOKED_AT = 500  # examples of the dev part, the same each time
SOLVED = 0.999


def seeded(seed: int) -> None:
    """Everything that draws begins anew."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def logits_of(answer: Answer) -> Tensor:
    """Scores of the classes [batch, step, class]; of one step where the model has no steps."""
    logits = answer.outputs["logits"]
    return logits if logits.dim() == 3 else logits.unsqueeze(1)


def losses(answer: Answer, targets: Tensor) -> Tensor:
    """Cross-entropy of each example, summed over its steps [batch]."""
    logits = logits_of(answer)
    each = cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NO_TARGET, reduction="none")
    return each.view(targets.shape).sum(1)


def answers(subject: Subject, part: Part, size: int) -> Iterator[tuple[np.ndarray, Batch, Answer]]:
    """Answer every example of a part, so many at once: indices, batch, answer."""
    subject.model.eval()
    with torch.no_grad():
        for index in in_order(part, size):
            batch = subject.batch(part, index, training=False)
            yield index, batch, subject.model(**batch)


def rightly(answer: Answer, targets: Tensor) -> np.ndarray:
    """Of a batch, which examples have every step right."""
    return ((logits_of(answer).argmax(-1) == targets) | (targets == NO_TARGET)).all(1).numpy()


def first(part: Part, count: int) -> Part:
    """The first examples of a part."""
    return Part(part.rows[:count], part.targets[:count], part.gold[:count])


@dataclass(frozen=True, order=True)
class Standing:
    """A model's standing on the dev part; the better one is the larger."""

    accuracy: float
    minus_loss: float


@dataclass
class Training:
    """A model on its way: `advance` goes on for so many steps, `best` are its weights where the dev part said so.

    curve: steps, accuracy on the dev part and mean entropy of all weights there, at each look. seconds: processor time.
    """

    task: Task
    data: TaskData
    make: Callable[[TaskData], Subject]
    seed: int
    rate: float
    standing: Standing = Standing(-1.0, -np.inf)
    least: float = -np.inf
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    steps: int = 0
    worse: int = 0
    seconds: float = 0.0
    diverged: bool = False

    def __post_init__(self) -> None:
        seeded(self.seed)
        self.subject = self.make(self.data)
        self.batches = shuffled(self.data.train, self.task.batch, np.random.default_rng(self.seed))
        self.dev = first(self.data.dev, LOOKED_AT)
        model = self.subject.model
        model.eval()
        begin = np.random.default_rng(0).choice(len(self.data.train), min(64, len(self.data.train)), replace=False)
        self.gains = equal_start(model, self.subject.batch(self.data.train, begin, training=False))
        self.parameters = [each for each in model.parameters() if each.requires_grad and each.is_floating_point()]
        self.optimiser = torch.optim.Adam(self.parameters, lr=self.rate, fused=True)
        self.look()  # how it begins
        self.random = torch.random.get_rng_state()

    @property
    def over(self) -> bool:
        """Whether there is no reason to go on."""
        solved = self.standing.accuracy >= SOLVED
        return solved or self.diverged or self.worse >= PATIENCE or self.steps >= self.task.steps

    def advance(self, until: int) -> None:
        """Go on to so many steps in all, or until it is over."""
        torch.random.set_rng_state(self.random)
        while not self.over and self.steps < until:
            began = time.process_time()
            self.subject.model.train()
            for _ in range(min(self.task.every, until - self.steps)):
                self.step()
            self.seconds += time.process_time() - began
            self.look()
        self.random = torch.random.get_rng_state()

    def step(self) -> None:
        """One batch."""
        index = next(self.batches)
        batch = self.subject.batch(self.data.train, index, training=True)
        targets = targets_of(self.data.train, index)
        answer = self.subject.model(**batch)
        loss = self.subject.model.objective(losses(answer, targets), answer, targets[:, 0])
        self.optimiser.zero_grad()
        (loss / len(index)).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.steps += 1

    def look(self) -> None:
        """Measure on the dev part, and keep the weights where they are the best so far."""
        right, loss, entropies = 0, 0.0, []
        for index, batch, answer in answers(self.subject, self.dev, 2 * self.task.batch):
            targets = targets_of(self.dev, index)
            right += int(rightly(answer, targets).sum())
            loss += float(losses(answer, targets).sum())
            entropies += [normalised_entropy(each) for each in self.subject.maps(answer, batch).values()]
        joined = np.concatenate(entropies) if entropies else np.empty(0)
        accuracy = right / len(self.dev)
        self.diverged = not np.isfinite(loss)
        now = Standing(accuracy, -loss / len(self.dev))
        self.curve.append((self.steps, round(accuracy, 4), round(float(joined.mean()), 4) if len(joined) else -1.0))
        improved = now.accuracy > self.standing.accuracy or now.minus_loss > self.least
        self.worse = 0 if improved else self.worse + 1
        self.least = max(self.least, now.minus_loss)
        if now > self.standing and not self.diverged:
            self.standing, self.best = now, self.state()

    def state(self) -> dict[str, Tensor]:
        """A copy of the weights."""
        return {name: tensor.detach().clone() for name, tensor in self.subject.model.state_dict().items()}

    def finished(self) -> Subject:
        """The model with its best weights."""
        self.subject.model.load_state_dict(self.best)
        self.subject.model.eval()
        return self.subject


def trained(
    task: Task, data: TaskData, make: Callable[[TaskData], Subject], seed: int, rates: tuple[float, ...]
) -> tuple[Training, dict[str, float]]:
    """Train with the best of some rates on the dev part: all go a third of the way, the best one goes on.

    Returns the training and what each rate reached after that third.
    """
    tries = [Training(task, data, make, seed, rate) for rate in rates]
    reached = {}
    if len(tries) > 1:
        for each in tries:
            each.advance(task.steps // 3)
            reached[f"{each.rate:g}"] = round(each.standing.accuracy, 4)
    best = max(tries, key=lambda each: each.standing)
    best.advance(task.steps)
    return best, reached
