"""Starts training as the command does, without its output."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from limelight_models.cards.card import Metric
from limelight_models.training import session
from limelight_models.training.checkpoint import Progress
from limelight_models.training.session import Order
from limelight_models.training.stop import Stop


def run(order: Order, stop: Stop | None = None, ctrl_c_at: int = 0) -> list[Metric]:
    """Train; `ctrl_c_at`: the process gets the signal of Ctrl-C at that step."""

    def told(progress: Progress, batches: int) -> None:
        if batches and progress.step == ctrl_c_at:
            os.kill(os.getpid(), signal.SIGINT)

    return session.train(order, stop=stop or Stop(), told=told, said=lambda line: None)


def order(model: str, data: Path | str, out: Path, **changes: object) -> Order:
    return Order(model=model, out=out, data=str(data), changes=changes)


def losses(folder: Path) -> Sequence[float]:
    return [each["train_loss"] for each in json.loads((folder / "metrics.json").read_text())["history"]]
