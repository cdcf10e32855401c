"""Every figure of a run: what its task measures, and where the model looks, where that is known."""

from collections.abc import Sequence

from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Network
from limelight_models.tasks.task import HeldOut, Task
from limelight_models.training.correctness import correctness


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
