"""What a run held out: its figures again, for a network in the place of the one that was trained, and its inputs."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from limelight_bundle.attention_drift import MOST_INPUTS
from limelight_bundle.values import Instance
from limelight_models.cards.card import Metric
from limelight_models.data.dataset import DataError
from limelight_models.network import Network
from limelight_models.training.runs import RunError, read_run
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


def inputs_of(folder: Path) -> Sequence[Instance]:
    """Give inputs that a run held out, at most `MOST_INPUTS`, always the same; none where the data are gone."""
    run = read_run(folder)
    try:
        dataset = load_again(run, folder)
    except (DataError, RunError, OSError):
        return ()
    card = run.card(run.build())
    forced = "" if card.written is None else card.written.target
    chosen = random.Random(0).sample(dataset.test, min(MOST_INPUTS, len(dataset.test)))
    return [{name: value for name, value in each.instance.items() if name != forced} for each in chosen]
