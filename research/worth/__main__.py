"""Trains, serves, evaluates, and writes the page: about half an hour of two cores."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.process import ServerProcess
from research.worth.data import write_rows
from research.worth.page import page

ROOT = Path(__file__).resolve().parents[2]
DEMO = {"canvas": "demo-canvas", "digits": "demo-digits"}
# Models with a second graph: the data, and the arguments of the training.
TRAINED = {
    "dates": ("dates", ["bahdanau", "--preset", "demo"]),
    "numbers": ("demo-numbers", ["transformer", "--preset", "demo", "--epochs", "18"]),
    "slips": ("demo-slips", ["han-code-supervised", "--preset", "demo", "--epochs", "3"]),
    "vit": ("digits", ["vit"]),
}
SETS = {
    "dates": "of the demo, with a second graph",
    "numbers": "of the demo, with a second graph",
    "canvas": "of the demo",
    "digits": "of the demo",
    "slips": "trained as the demo's, for 3 passes over the data",
    "vit": "a ViT of four layers for small pictures of digits",
}


def main() -> None:
    """Make the page."""
    arguments = argparse.ArgumentParser(prog="python -m research.worth", description=__doc__)
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "records" / "worth.md")
    arguments.add_argument("--limit", type=int, default=64, help="Rows of each model.")
    given = arguments.parse_args()
    reports = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with ServerProcess(ROOT / "deploy" / "demo") as server:
            reports += [_evaluated(model, data, folder, server.target, given.limit) for model, data in DEMO.items()]
        for model, (data, training) in TRAINED.items():
            run = str(folder / "runs" / model)
            _limelight("train", *training, "--data", f"builtin:{data}", "--name", model, "--out", run)
            _limelight("export", run, "--repository", str(folder / "models"))
        with ServerProcess(folder / "models") as server:
            reports += [
                _evaluated(model, data, folder, server.target, given.limit) for model, (data, _) in TRAINED.items()
            ]
    reports.sort(key=lambda each: list(SETS).index(str(each["model"])))
    given.out.write_text(page(reports, "python -m research.worth", SETS), encoding="utf-8")


def _limelight(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "limelight.cli", *arguments], check=True)


def _evaluated(model: str, data: str, folder: Path, target: str, limit: int) -> dict[str, object]:
    file, out = write_rows(data, folder / "data", 300), folder / f"{model}.json"
    _limelight("evaluate", model, "--data", str(file), "--limit", str(limit), "--out", str(out), "--target", target)
    report: dict[str, object] = json.loads(out.read_text(encoding="utf-8"))
    return report


if __name__ == "__main__":
    main()
