"""Draws panels of the dashboard from a real Prometheus: `python -m dashboard_picture`, at the root of a checkout.

Grafana is not needed: the queries are those of the dashboard, asked while the demo models are called.
"""

import io
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

import limelight
from tests.deploy.expressions import Expression, panels
from tests.deploy.prometheus import Prometheus, filled, prometheus
from tests.kit.serving import free_port, serving

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "pictures" / "dashboard.png"
SECONDS = 90
DRAWN = {
    "Calls": "calls a second",
    "Errors by code": "calls a second",
    "Latency": "seconds",
    "Latency by stage, p95": "seconds",
    "Rows in a batch": "rows",
    "Attention signals, mean": "0 to 1",
}
# What is called: a model, its input, and the maps that are asked for.
CALLS = (
    ("dates", {"text": "7 March 2021"}, "decoder.cross"),
    ("numbers", {"text": "siebenundvierzig"}, "decoder.1.cross"),
    ("slips", {"document": "def twice(number):\n    return 2 * number\n\n\n"}, "sentence"),
)


def main() -> None:
    """Serve the demo, call it, and draw what Prometheus says of it."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        running = stack.enter_context(
            serving(ROOT / "deploy" / "demo", metrics_port=free_port(), attention_signals=0.2, model_control="none")
        )
        watched = stack.enter_context(prometheus(Path(folder), running.server.metrics_port))
        began, stop = time.time(), threading.Event()
        callers = [threading.Thread(target=call, args=(running.server.address, n, stop)) for n in range(6)]
        for number, caller in enumerate(callers):
            caller.start()
            time.sleep(SECONDS / 10 if number < 5 else SECONDS / 2)
        stop.set()
        for caller in callers:
            caller.join()
        draw(watched, began, time.time())


def call(address: str, number: int, stop: threading.Event) -> None:
    """Call one model after the other; now and then one that is not there."""
    with limelight.Client(address) as client:
        turn = number
        while not stop.wait(0.02):
            name, inputs, maps = CALLS[turn % len(CALLS)]
            with suppress(limelight.Error):
                if turn % 40 == 0:
                    client.predict("nobody", inputs)
                elif turn % 2:
                    client.attend(name, inputs, maps=maps)
                else:
                    client.predict(name, inputs)
            turn += 1


def draw(watched: Prometheus, began: float, ended: float) -> None:
    """Draw the panels, each with the series of its queries."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 6), dpi=80, constrained_layout=True)
    for axis, (title, unit) in zip(axes.flat, DRAWN.items(), strict=True):
        for expression in (each for each in panels() if each.place == f"panel {title}"):
            for labels, times, values in lines(watched, expression, began, ended):
                axis.plot(times, values, label=labels, linewidth=1.2)
        axis.set_title(title, fontsize=10)
        axis.set_ylabel(unit, fontsize=8)
        axis.set_xlabel("seconds", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, loc="upper left")
    whole = io.BytesIO()
    figure.savefig(whole, format="png")
    Image.open(whole).convert("RGB").quantize(48).save(FILE, optimize=True)
    print(f"{FILE.relative_to(ROOT)}: {os.path.getsize(FILE)} bytes")


def lines(
    watched: Prometheus, expression: Expression, began: float, ended: float
) -> Iterator[tuple[str, list[float], list[float]]]:
    """Ask for the series of an expression: their labels, seconds and values."""
    answer = watched.get("query_range", query=filled(expression, 10), start=began, end=ended, step=1)
    for series in answer["result"]:
        labels = " ".join(series["metric"].values())
        if quantile := re.match(r"histogram_quantile\(([0-9.]+), sum by \(le\)", expression.text):
            labels = f"p{100 * float(quantile[1]):g}"
        times, values = zip(*((moment - began, float(value)) for moment, value in series["values"]), strict=True)
        if any(values):
            yield labels, list(times), list(values)


if __name__ == "__main__":
    main()
