"""Every figure of a run: what its task measures, and where the model looks, where that is known."""

from collections.abc import Sequence

from models.cards.card import Card, Metric
from models.data.dataset import Example
from models.network import Network
from models.tasks.task import HeldOut, Task
from models.training.correctness import correctness


def figures(
    task: Task,
    network: Network,
    card: Card,
    held_out: HeldOut,
    training: Sequence[Example],
    gold: HeldOut | None = None,
) -> list[Metric]:
    """Measure a network, in evaluation mode, on held-out examples; where it looks on those of `gold`, where given."""
    return [*task.judge(network, card, held_out, training), *correctness(network, card, gold or held_out)]
