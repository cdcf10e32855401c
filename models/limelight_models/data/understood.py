"""A summary of the data as they were read, printed before training begins so that a mistake shows."""

from collections import Counter
from collections.abc import Iterator

from limelight_bundle.values import Pair, Sentences, Text, Value
from limelight_models.data.dataset import Dataset, Example, FileRead, known, shown

_CLASSES = 10  # that are listed
_LINES = 8  # blank lines that are named


def understood(dataset: Dataset) -> Iterator[str]:
    """Yield where the columns were found, how many examples there are, the balance of classes, and one example."""
    for each in dataset.files:
        yield from _file(each)
    counts = [known(part) for part in (dataset.train, dataset.dev, dataset.test)]
    yield f"{dataset.name}: {counts[0]} training, {counts[1]} dev, {counts[2]} held-out examples"
    if dataset.labels:
        yield f"classes: {_balance(dataset)}"
    yield f"first example: {_first(dataset.train[0])}"


def _file(read: FileRead) -> Iterator[str]:
    if read.columns:
        yield f"{read.path}: " + ", ".join(f"{name} is {place}" for name, place in read.columns.items())
    if read.blank:
        named = ", ".join(map(str, read.blank[:_LINES])) + (", ..." if len(read.blank) > _LINES else "")
        yield f"{read.path}: {len(read.blank)} blank lines left out ({named})"


def _balance(dataset: Dataset) -> str:
    labels = (label for each in dataset.train for label in (each.labels or (each.label,)) if label)
    counts = Counter(labels)
    whole = sum(counts.values())
    listed = [f"{shown(label)} {count} ({count / whole:.0%})" for label, count in counts.most_common(_CLASSES)]
    more = f", and {len(counts) - _CLASSES} more, the rarest {min(counts.values())}" if len(counts) > _CLASSES else ""
    return ", ".join(listed) + more


def _first(example: Example) -> str:
    parts = [f"{name} {_said(value)}" for name, value in example.instance.items()]
    return ", ".join([*parts, *([f"label {shown(example.label, quoted=True)}"] if example.label else [])])


def _said(value: Value) -> str:
    match value:
        case Text(text):
            return shown(text, quoted=True)
        case Sentences(texts):
            return f"{shown(texts[0], quoted=True)} ({len(texts)} sentences)"
        case Pair(first, second):
            return f"{shown(first, quoted=True)} and {shown(second, quoted=True)}"
    return f"({type(value).__name__.lower()})"
