"""Examples in three parts, whatever they came from."""

import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from limelight.base.counts import counted
from limelight_bundle.errors import LimelightError
from limelight_bundle.values import Array, Audio, Graph, Image, Instance, Pair, Sentences, TensorValue, Text
from limelight_models.data.gold import Gold, Span, describe

T = TypeVar("T")
_SHOWN = 60
_OWN_LABELS = 10  # rows from which on it is odd that most have a label of their own
_FEW = 10  # so many times more labels than texts are odd, and more targets than sources
_MOST_LABELS = 100  # sources up to which they may be labels; texts with several targets each are more


class DataError(LimelightError):
    """Data that cannot be learned from; the message names the file, and the line where there is one."""


def shown(value: object, *, quoted: bool = False) -> str:
    """A value of somebody's data as messages repeat it: its beginning, as data may be private, and long."""
    text = str(value)
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    # What cannot be printed is escaped, and then cut again.
    safe = repr(cut) if quoted or not cut.isprintable() else cut
    return safe if len(safe) <= _SHOWN + 15 else f"{safe[:_SHOWN]}..."


@dataclass(frozen=True)
class Example:
    """An instance as a caller would send it, and what is known of it.

    label: its class. labels: classes of its parts (tokens, nodes, cells), "" for a part of which none is known.
    picture: what is to be drawn. numbers: what is to be forecast. spans: parts of a text that are right
    answers, each by itself. gold: where to look for each thing. What the task has not is empty.
    """

    instance: Instance
    label: str = ""
    labels: tuple[str, ...] = ()
    picture: Image | None = None
    numbers: Array | None = None
    spans: tuple[Span, ...] = ()
    gold: tuple[Gold, ...] = ()


@dataclass(frozen=True)
class FileRead:
    """The columns of a file as it was read.

    columns: where what an example needs stands in the file. blank: numbers of the lines that were left out.
    """

    path: Path
    columns: Mapping[str, str]
    blank: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Examples to learn from, to choose by (dev), and held out (test).

    name, licence, summary: what a bundle says of its training data. shown: instances to show with a model, where those
    that are held out are too large, or not the best to begin with. gold: examples that say where to look and nothing
    else (alignments made by people, say): what a model puts out is not judged by them. does: what a model that learned
    it does, and what its answers mean; inputs: what each input should look like. Both go before what the model says of
    itself. files: how they were read, where they are files of lines.
    """

    name: str
    licence: str
    summary: str
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    test: tuple[Example, ...]
    shown: tuple[Instance, ...] = ()
    gold: tuple[Example, ...] = ()
    does: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    files: tuple[FileRead, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes in the training part, in order."""
        return tuple(sorted({label for each in self.train for label in (each.labels or (each.label,)) if label}))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of every example: two runs with the same one saw the same data."""
        return _digest((*self.train, *self.dev, *self.test, *self.gold))

    @property
    def held_out(self) -> str:
        """The same of those held out, shorter: figures of two runs with the same one are of the same examples."""
        return _digest(self.test)[:16]


def _digest(examples: Iterable[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        for part in parts(example):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def known(examples: Sequence[Example]) -> int:
    """Count what is known of examples: a class each, or one for each of some of their parts."""
    return sum(sum(map(bool, each.labels)) if each.labels else 1 for each in examples)


def parts(example: Example) -> Iterator[bytes]:
    """Everything an example says, as bytes."""
    yield example.label.encode()
    yield from (label.encode() for label in example.labels)
    if example.picture is not None:
        yield example.picture.data
    if example.numbers is not None:
        yield example.numbers.tobytes()
    yield from (repr(span).encode() for span in example.spans)
    for gold in example.gold:
        yield from describe(gold)
    for name in sorted(example.instance):
        yield name.encode()
        match example.instance[name]:
            case Text(text):
                yield text.encode()
            case Sentences(texts):
                yield from (text.encode() for text in texts)
            case Pair(first, second):
                yield from (first.encode(), second.encode())
            case Image(data) | Audio(bytes() as data):
                yield data
            case Graph(nodes, edges, features, names):
                for array in (nodes, edges, *([] if features is None else [features])):
                    yield str(array.shape).encode()
                    yield array.tobytes()
                yield from (name.encode() for name in names)
            case TensorValue(array):
                yield f"{array.dtype} {array.shape}".encode()
                yield array.tobytes()
            case other:
                raise TypeError(f"no example holds a {type(other).__name__}")


def shuffled(items: Sequence[T], seed: int) -> list[T]:
    """The items in an order that the seed decides, the same on every machine."""
    order = list(items)
    random.Random(seed).shuffle(order)
    return order


def split(items: Sequence[T], seed: int, *shares: float) -> list[tuple[T, ...]]:
    """Shuffle and cut: one part a share (at least one item each), then what is left."""
    order, done = shuffled(items, seed), []
    begin = 0
    for share in shares:
        end = begin + max(1, round(share * len(items)))
        done.append(tuple(order[begin:end]))
        begin = end
    return [*done, tuple(order[begin:])]


def require(examples: Sequence[Example], where: str) -> None:
    """Raise DataError where a part is empty."""
    if not examples:
        raise DataError(f"{where} has no examples")


def classes(dataset: Dataset) -> tuple[str, ...]:
    """The classes of the training part. Raises: DataError where there is but one, or held-out ones are new."""
    labels = dataset.labels
    if not labels:
        raise DataError(f"none of the {len(dataset.train)} training examples has a label")
    if len(labels) < 2:
        count, label = counted(len(dataset.train), "training example"), shown(labels[0], quoted=True)
        raise DataError(f"of {count}, each has the label {label}; two labels are wanted, with several examples each")
    known = set(labels)
    for example in (*dataset.dev, *dataset.test):
        for label in example.labels or (example.label,):
            if label and label not in known:
                raise DataError(
                    f"the label {shown(label, quoted=True)} is held out, but not among the {len(labels)} labels to "
                    f"learn from: {shown(', '.join(labels))}; each needs several examples. {IN_ANOTHER_COLUMN}"
                )
    return labels


IN_ANOTHER_COLUMN = (
    "Where the labels stand in another column, say with --columns which the columns are: LABEL,TEXT by the names that "
    "the file begins with (or the keys of its JSON lines), or by their numbers, as 2,1"
)


def check_sources(examples: Sequence[Example], where: str) -> None:
    """Raise DataError where the texts to be read are labels: a few, each of many different texts to be put out."""
    pairs = [(each.instance.get("text"), each.instance.get("target")) for each in examples]
    sources, targets = ({pair[side] for pair in pairs} for side in (0, 1))
    if len(sources) <= _MOST_LABELS and _FEW * len(sources) <= len(targets):
        such = min((each.text for each in sources if isinstance(each, Text)), default="")
        raise DataError(
            f"{where}: the source of its {len(pairs)} examples is one of {len(sources)} texts, such as "
            f"{shown(such, quoted=True)}, and there are {len(targets)} targets: these are labels of texts, which a "
            "model that classifies learns (han). Where others are meant, name them with --columns SOURCE,TARGET"
        )


def check_labels(examples: Sequence[Example], where: str) -> None:
    """Raise DataError where labels are no classes: most examples have one of their own, or there are few texts."""
    labels = {example.label for example in examples if example.label}
    texts = {example.instance.get("text", example.instance.get("document")) for example in examples}
    swapped = None not in texts and len(labels) >= _FEW * len(texts)
    if len(examples) >= _OWN_LABELS and (2 * len(labels) > len(examples) or swapped):
        raise DataError(
            f"{where}: has {len(labels)} different labels in {len(examples)} examples, such as "
            f"{shown(next(iter(sorted(labels))), quoted=True)}; these are no classes. {IN_ANOTHER_COLUMN}"
        )
