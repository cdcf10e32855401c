"""The figures of a run again, for another network that answers in the place of the one that was trained."""

from collections.abc import Callable
from pathlib import Path

from limelight_models.cards.card import Metric
from limelight_models.network import Network
from limelight_models.training.runs import read_run
from limelight_models.training.session import load_again, measured


def judge_of(folder: Path) -> Callable[[Network], list[Metric]]:
    """Make what measures a network on the data that a run held out; they are loaded when it is first called.

    It raises: RunError, DataError where the data are no longer there, or no longer the same.
    """

    def judge(network: Network) -> list[Metric]:
        run = read_run(folder)
        dataset = load_again(run, folder)
        card = run.card(run.build())
        return measured(run, network, card, dataset)

    return judge
