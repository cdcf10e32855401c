"""Trains, serves, evaluates, and writes the page: about ten minutes of two cores."""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import limelight
from studies.worth.data import write_rows
from studies.worth.page import page

_PAUSE = 0.5  # seconds between looks at a server that starts
ROOT = Path(__file__).resolve().parents[2]
DEMO = {"dates": "dates", "numbers": "demo-numbers", "canvas": "demo-canvas", "digits": "demo-digits"}
# Models with a second graph: the data, and the arguments of the training.
TRAINED = {
    "slips": ("demo-slips", ["han-code-supervised", "--preset", "demo", "--epochs", "3"]),
    "vit": ("digits", ["vit"]),
}
SETS = {
    "dates": "of the demo",
    "numbers": "of the demo",
    "canvas": "of the demo",
    "digits": "of the demo",
    "slips": "trained as the demo's, for 3 passes over the data",
    "vit": "a ViT of four layers for small pictures of digits",
}


def main() -> None:
    """Make the page."""
    arguments = argparse.ArgumentParser(prog="python -m studies.worth", description=__doc__)
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "worth.md")
    arguments.add_argument("--limit", type=int, default=64, help="Rows of each model.")
    given = arguments.parse_args()
    reports = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with _serving(ROOT / "deploy" / "demo") as target:
            reports += [_evaluated(model, data, folder, target, given.limit) for model, data in DEMO.items()]
        for model, (data, training) in TRAINED.items():
            run = str(folder / "runs" / model)
            _limelight("train", *training, "--data", f"builtin:{data}", "--name", model, "--out", run)
            _limelight("export", run, "--repository", str(folder / "models"), "--interventions")
        with _serving(folder / "models") as target:
            reports += [_evaluated(model, data, folder, target, given.limit) for model, (data, _) in TRAINED.items()]
    given.out.write_text(page(reports, "python -m studies.worth", SETS), encoding="utf-8")


def _limelight(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "limelight.cli", *arguments], check=True)


def _evaluated(model: str, data: str, folder: Path, target: str, limit: int) -> dict[str, object]:
    file, out = write_rows(data, folder / "data", 300), folder / f"{model}.json"
    _limelight("evaluate", model, "--data", str(file), "--limit", str(limit), "--out", str(out), "--target", target)
    report: dict[str, object] = json.loads(out.read_text(encoding="utf-8"))
    return report


@contextmanager
def _serving(repository: Path) -> Iterator[str]:
    ports = []
    for _ in range(2):
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            ports.append(str(trial.getsockname()[1]))
    target = f"127.0.0.1:{ports[0]}"
    command = [sys.executable, "-m", "limelight.cli", "serve", "--repository", str(repository)]
    server = subprocess.Popen([*command, "--port", ports[0], "--metrics-port", ports[1]])
    try:
        with limelight.Client(target) as client:
            while not _is_ready(client, len(list(repository.iterdir()))):
                if server.poll() is not None:
                    raise SystemExit("the server has ended")
                time.sleep(_PAUSE)
        yield target
    finally:
        server.terminate()
        server.wait()


def _is_ready(client: limelight.Client, models: int) -> bool:
    try:
        return [each.state for each in client.models()].count("ready") == models
    except limelight.Unavailable:
        return False


if __name__ == "__main__":
    main()
