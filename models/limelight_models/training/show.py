"""Shows training in the terminal: a bar for the epoch, a line for each that is done."""

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from limelight.base.streams import console
from limelight_models.training.checkpoint import Progress as State


class Show:
    """A progress bar on a terminal; plain lines when the output goes elsewhere."""

    def __init__(self) -> None:
        self._console = console(highlight=False)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._bar = Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("epoch 1", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def said(self, line: str) -> None:
        """Print a line above the bar."""
        self._console.print(line, markup=False, soft_wrap=True)

    def told(self, state: State, batches: int) -> None:
        """A step is done, or (batches = 0) an epoch."""
        if batches:
            loss = state.loss / max(1, state.terms)
            description = f"epoch {state.epoch + 1}, loss {loss:.3f}"
            self._bar.update(self._task, completed=state.batch, total=batches, description=description)
            return
        last = state.history[-1]
        best = "  best so far" if last["epoch"] == state.best_epoch + 1 else ""
        self.said(
            f"epoch {last['epoch']:.0f}: train loss {last['train_loss']:.4f}, dev loss {last['dev_loss']:.4f}, "
            f"{last['seconds']:.0f} s{best}"
        )
