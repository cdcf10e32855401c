"""What stands along the axes of a map: words, sentences, patches, output tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from limelight.enums import name_of
from limelight.v1 import attention_pb2, values_pb2


@dataclass(frozen=True)
class Token:
    """A piece of a text."""

    text: str
    """As the model's vocabulary writes it; of a sentence, its text."""
    start: int
    """Where it begins in the string as sent, in Unicode code points (Python's own indices)."""
    end: int
    """One past its end."""
    special: bool = False
    """True for a token that stands for no text."""
    parent: int = 0
    """Index of the entry of the parent label set that it belongs to."""


@dataclass(frozen=True)
class Grid:
    """Cells laid over an image, row by row, after any leading entries."""

    rows: int
    columns: int
    leading: tuple[str, ...] = ()
    """Names of entries that stand before the cells (a class token)."""


@dataclass(frozen=True)
class LabelSet:
    """The entries along an axis. `labels` has a string for each, whatever they are."""

    name: str
    kind: str
    """"tokens", "sentences", "grid", "nodes", "output_steps", "hops", "classes", "one"…"""
    labels: tuple[str, ...]
    tokens: tuple[Token, ...] = ()
    """For tokens, sentences and output steps: one an entry."""
    grid: Grid | None = None
    """For a whole grid."""
    parent: str = ""
    """Name of the label set that `Token.parent` points into; empty where there is none."""
    indices: tuple[int, ...] | None = None
    """Which entries of the whole set these are; None for all of it."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def special(self) -> tuple[bool, ...]:
        """True at entries that stand for no part of the input: special tokens, a grid's leading entries."""
        if self.tokens:
            return tuple(token.special for token in self.tokens)
        leading = len(self.grid.leading) if self.grid else 0
        return (True,) * leading + (False,) * (len(self) - leading)

    @property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each token in the string as sent; empty where the entries are no tokens."""
        return tuple((token.start, token.end) for token in self.tokens)

    def take(self, indices: Iterable[int]) -> "LabelSet":
        """The entries at these indices, in this order. A part of a grid is no grid."""
        chosen = tuple(indices)
        return replace(
            self,
            labels=tuple(self.labels[index] for index in chosen),
            tokens=tuple(self.tokens[index] for index in chosen) if self.tokens else (),
            grid=None,
            indices=chosen,
        )


def plain(name: str, kind: str, labels: Sequence[str]) -> LabelSet:
    """A label set of names alone."""
    return LabelSet(name, kind, tuple(labels))


def read_label_sets(
    messages: Iterable[attention_pb2.LabelSet], instance: values_pb2.Instance | None = None
) -> dict[str, LabelSet]:
    """Label sets by name, from an answer. The texts of sentences, which no answer repeats, come from `instance`."""
    found = {message.name: _read(message) for message in messages}
    source = _source(instance)
    for name, labels in found.items():
        if labels.kind == "sentences":
            children = [other for other in found.values() if other.parent == name]
            found[name] = _with_texts(labels, _sentence_texts(labels, source, children))
    return found


def read_label_set(message: attention_pb2.LabelSet) -> LabelSet:
    """One label set, by itself."""
    return _read(message)


def _read(message: attention_pb2.LabelSet) -> LabelSet:
    kind = name_of(attention_pb2.LabelKind, message.kind)
    tokens = tuple(Token(each.text, each.start, each.end, each.special, each.parent) for each in message.tokens)
    grid = None
    if message.HasField("grid"):
        grid = Grid(message.grid.rows, message.grid.columns, tuple(message.grid.leading))
    if tokens:
        labels = tuple(token.text for token in tokens)
    elif grid:
        cells = (f"r{row}c{column}" for row in range(grid.rows) for column in range(grid.columns))
        labels = (*grid.leading, *cells)
    elif message.names:
        labels = tuple(message.names)
    elif message.size == 1:
        labels = (message.name,)
    else:
        noun = kind.removesuffix("s").replace("_", " ")
        labels = tuple(f"{noun} {index}" for index in range(message.size))
    if len(labels) != message.size:
        raise ValueError(f"label set {message.name!r} says it has {message.size} entries and lists {len(labels)}")
    return LabelSet(message.name, kind, labels, tokens, grid, message.parent)


def _source(instance: values_pb2.Instance | None) -> str | Sequence[str] | None:
    """The one text of an instance, or its sentences; None where it has no text or several."""
    texts: list[str | Sequence[str]] = []
    values: Mapping[str, values_pb2.Value] = instance.inputs if instance is not None else {}
    for value in values.values():
        kind = value.WhichOneof("kind")
        if kind == "text":
            texts.append(value.text)
        elif kind == "document":
            document = value.document
            texts.append(document.text if document.HasField("text") else list(document.sentences.texts))
    return texts[0] if len(texts) == 1 else None


def _sentence_texts(labels: LabelSet, source: str | Sequence[str] | None, children: Sequence[LabelSet]) -> list[str]:
    texts = []
    for index, token in enumerate(labels.tokens):
        if token.text:
            text = token.text
        elif isinstance(source, str):
            text = source[token.start : token.end]
        elif source is not None and len(source) == len(labels):
            text = source[index]
        else:
            words = (word for child in children for word in child.tokens if word.parent == index and not word.special)
            text = " ".join(word.text for word in words)
        texts.append(text or f"sentence {index}")
    return texts


def _with_texts(labels: LabelSet, texts: Sequence[str]) -> LabelSet:
    if not texts:
        return labels
    tokens = tuple(replace(token, text=text) for token, text in zip(labels.tokens, texts, strict=True))
    return replace(labels, labels=tuple(texts), tokens=tokens)
