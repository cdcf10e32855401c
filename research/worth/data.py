"""Held-out rows of generated data as files that `limelight evaluate` reads."""

import json
from pathlib import Path
from typing import Any

from limelight_bundle.values import Image, Text
from limelight_models.data.dataset import Example
from limelight_models.data.generated import SETS
from limelight_models.data.gold import Box, Span


def write_rows(name: str, folder: Path, count: int) -> Path:
    """Write the first held-out examples of a generated set as JSON lines, with pictures beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        for number, example in enumerate(SETS[name].make().test[:count]):
            print(json.dumps(row(example, folder, f"{name}-{number}")), file=lines)
    return file


def row(example: Example, folder: Path, name: str) -> dict[str, Any]:
    """Return an example as a row: its inputs, the expected answer as `label`, and `evidence` for the answer."""
    inputs, found = dict(example.instance), dict[str, Any]()
    # A generating model's expected text is the input that forces it.
    target = inputs.pop("target", None)
    expected = target.text if isinstance(target, Text) else example.label
    for key, value in inputs.items():
        if isinstance(value, Image):
            (folder / f"{name}.png").write_bytes(value.data)
            found[key] = f"{name}.png"
        else:
            assert isinstance(value, Text)
            found[key] = value.text
    marks = [place for gold in example.gold if gold.of is None for place in gold.keys]
    return {**found, "label": str(expected), "evidence": [mark(place) for place in marks]}


def mark(place: Span | Box) -> dict[str, Any]:
    """Return a place as a mark of a row."""
    if isinstance(place, Box):
        return {"input": place.input, "place": [place.left, place.top, place.right, place.bottom]}
    return {"input": place.input, "place": [place.start, place.end]}
