"""Predictions: typed results, raw outputs, and provenance."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from limelight import archive
from limelight.base.counts import counted
from limelight.base.enums import name_of
from limelight.base.printing import printable
from limelight.base.tensors import to_array
from limelight.labels import LabelSet, read_label_sets
from limelight.records import FrozenMapping, Record, as_array, json_types
from limelight.v1 import service_pb2, values_pb2

# Entries of each kind that a headline has.
_FEW = 8
# Of an answer: results, outputs or maps; and entries of its results, such as classes.
_MOST_PARTS, _MOST_ENTRIES = 2**14, 2**20
_LONGEST = 300  # characters of a headline in a representation
NO_OBJECT = "(no object)"


@dataclass(frozen=True)
class ClassProbability(Record):
    """A class and its probability."""

    label: str
    index: int
    """Index of the class in the model."""
    probability: float


@dataclass(frozen=True, repr=False)
class Classification(Record):
    """The classes of an instance."""

    _array = "`[each.probability for each in classes]` can be one"

    classes: tuple[ClassProbability, ...]
    """Most probable first: all, or `max_classes`."""

    @property
    def label(self) -> str | None:
        """The most probable class."""
        return self.classes[0].label if self.classes else None

    @property
    def probability(self) -> float | None:
        """The probability of `label`."""
        return self.classes[0].probability if self.classes else None


@dataclass(frozen=True, eq=False, repr=False)
class Tagging(Record):
    """The classes of entries of a label set, as columns; `tagging[3]` are those of row 3.

    Row i is entry i, unless the model answers for words or for some tokens: then `entries` has the entries of each row.
    """

    _array = "`probabilities` and `indices` are"

    label_set: str
    """Label set of the entries, one of `Prediction.label_sets`."""
    names: tuple[tuple[str, ...], ...]
    """[entry][class], most probable first: all, or `max_classes`."""
    indices: NDArray[np.int32]
    """[entry, class]: indices of the classes in the model."""
    probabilities: NDArray[np.float32]
    """[entry, class]: probabilities of the classes."""
    entries: tuple[tuple[int, int], ...] | None = None
    """[row]: first entry of the label set, and end, exclusive; None if row i is entry i."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The most probable class of each entry."""
        return tuple(names[0] for names in self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, entry: int) -> tuple[ClassProbability, ...]:
        rows = self.names[entry], self.indices[entry].tolist(), self.probabilities[entry].tolist()
        return tuple(ClassProbability(*each) for each in zip(*rows, strict=True))

    def __iter__(self) -> Iterator[tuple[ClassProbability, ...]]:
        return (self[entry] for entry in range(len(self)))


@dataclass(frozen=True)
class Span(Record):
    """A span of a text, in Unicode code points of the string as sent. It can be used as a group of an `attend` call."""

    text: str
    start: int
    end: int
    """End, exclusive."""
    probability: float
    part: str = ""
    """For a pair: the text that contains the span, "first" or "second"."""
    sentence: int | None = None
    """For a document sent as sentences: the sentence that contains the span, to which its offsets refer."""


@dataclass(frozen=True, repr=False)
class Spans(Record):
    """Spans, most probable first."""

    spans: tuple[Span, ...]
    """Most probable first."""
    none_probability: float | None = None
    """Probability that no span answers, on the scale of the spans' own; None if the model does not tell."""


@dataclass(frozen=True)
class Box(Record):
    """An object in an image. Edges are in pixels of the image as sent; a model may set them beyond the image."""

    label: str
    index: int
    """Index of the class in the model."""
    probability: float
    left: float
    top: float
    right: float
    bottom: float
    query: int
    """Query that found the object: index along the query axis of its attention."""


@dataclass(frozen=True, repr=False)
class Boxes(Record):
    """The objects in an image."""

    boxes: tuple[Box, ...]
    """Most probable first: those above the model's threshold, or `max_classes` of them."""
    label_set: str
    """Label set of the queries, one of `Prediction.label_sets`."""
    relative: bool
    """True if tensors were sent: edges are then parts of the model's picture, from 0 to 1."""


@dataclass(frozen=True, eq=False, repr=False)
class TopTokens(Record):
    """The most probable tokens of steps, most probable first."""

    token_ids: NDArray[np.int32]
    """[step, place]."""
    texts: tuple[tuple[str, ...], ...]
    """[step, place]: the tokens as the vocabulary writes them, also special ones."""
    log_probabilities: NDArray[np.float32]
    """[step, place]: before temperature and other sampling options."""


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedSequence(Record):
    """A generated sequence."""

    text: str
    token_ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    """Natural logarithm of each token's probability, before temperature and other sampling options."""
    score: float
    """Rank score of beam search; 0 for other strategies."""
    finish_reason: str
    """"end", "length", "stop" or "target"."""
    forced_tokens: int = 0
    """Number of first tokens that a target forced, with those that the model puts in front of a target."""
    top: TopTokens | None = None
    """With `top_logprobs`: the most probable tokens of each step, in the order of `token_ids`."""

    @property
    def probability(self) -> float:
        """Probability of the whole sequence: the product of its tokens' probabilities."""
        return math.exp(min(0.0, math.fsum(self.log_probabilities)))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the probability as JSON types."""
        return {**super().to_dict(), "probability": self.probability}


@dataclass(frozen=True, repr=False)
class Sequences(Record):
    """Generated sequences, best first."""

    sequences: tuple[GeneratedSequence, ...]
    """Best first: one, or `hypotheses`."""


@dataclass(frozen=True, eq=False, repr=False)
class TokenVectors(Record):
    """A vector for each token of a text; `limelight.maxsim` compares two. `numpy.asarray(result)` is `vectors`."""

    label_set: str
    """Name of the label set of the tokens, in `Prediction.label_sets`."""
    vectors: NDArray[np.float32]
    """[token, feature], of length 1 each."""

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return as_array(self.vectors, dtype, copy)


@dataclass(frozen=True, eq=False, repr=False)
class Embedding(Record):
    """A vector; `numpy.asarray` returns it."""

    vector: NDArray[Any]
    """[feature]."""

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return as_array(self.vector, dtype, copy)


@dataclass(frozen=True)
class Number(Record):
    """A number that a regression predicts."""

    name: str
    value: float
    unit: str
    """Empty for none."""


@dataclass(frozen=True, repr=False)
class Regression(Record):
    """Numbers in the order of the model's description; `regression["temperature"]` is the value of a target."""

    _array = "`[each.value for each in numbers]` can be one"

    numbers: tuple[Number, ...]

    def __getitem__(self, name: str) -> float:
        for each in self.numbers:
            if each.name == name:
                return each.value
        raise KeyError(f"no number {name!r}; there are {', '.join(each.name for each in self.numbers)}")


Result: TypeAlias = Classification | Tagging | Spans | Boxes | Sequences | Embedding | TokenVectors | Regression
Kind = TypeVar("Kind", Classification, Tagging, Spans, Boxes, Sequences, Embedding, TokenVectors, Regression)


@dataclass(frozen=True, eq=False, repr=False)
class HiddenState(Record):
    """Vectors of a layer of the model, or the tokens that are read from them. `numpy.asarray(state)` is `vectors`."""

    name: str
    stack: str
    """Part of the model: `encoder`, `prompt`, `decoder`."""
    layer: int
    """0 for the embeddings; the last is what the stack returns."""
    label_set: str
    """Name of the label set of the entries, in `Prediction.label_sets`."""
    positions: tuple[int, ...]
    """Indices of the entries of `vectors`; empty for all."""
    vectors: NDArray[Any]
    """[entry, feature], or [feature] if pooled; empty with `top_tokens`."""
    tokens: tuple[tuple[str, ...], ...] = ()
    """With `top_tokens`: those of each entry as the vocabulary writes them, most probable first."""
    token_ids: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """Their ids, [entry, place]."""
    log_probabilities: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """Natural logarithms of their probabilities, [entry, place]."""

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return as_array(self.vectors, dtype, copy)


@dataclass(frozen=True)
class Provenance(Record):
    """Origin and timing of an answer, in seconds."""

    model: str
    version: int
    bundle_digest: str
    provider: str
    graph: str
    batch_rows: int
    """Number of rows in the batch of this instance."""
    queue_seconds: float
    compute_seconds: float
    preprocess_seconds: float
    encode_seconds: float
    cached: bool = False
    """True if the server had kept the answer to an equal instance: nothing ran, and `graph` and `batch_rows` are those
    of the run that was kept."""


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Record):
    """The answer to one instance.

    `results` has all results by name. `label`, `classes`, `text` and the other properties read the first result of
    their kind; they are None or empty if the model has none.
    """

    _array = "`outputs` are"

    results: Mapping[str, Result]
    """By the name in the model's description, the main result first."""
    label_sets: Mapping[str, LabelSet]
    """Whole label sets of results and maps, by name."""
    outputs: Mapping[str, NDArray[Any]]
    """Raw outputs by name, without padding."""
    truncated: bool
    """True if the input was truncated to the model's limits."""
    seed: int | None
    """The seed used; the same instance with this seed gets the same answer. None if nothing
    was sampled."""
    provenance: Provenance
    hidden: Mapping[str, HiddenState] = field(default_factory=FrozenMapping)
    """Hidden states by name, as the option `hidden` selects them."""

    @property
    def label(self) -> str | None:
        """Classification: the most probable class."""
        found = self._first(Classification)
        return found.label if found else None

    @property
    def probability(self) -> float | None:
        """Classification: probability of `label`. Generation: probability of the whole sequence `text`."""
        if found := self._first(Classification):
            return found.probability
        return self.sequences[0].probability if self.sequences else None

    @property
    def classes(self) -> tuple[ClassProbability, ...]:
        """Classification and multi-label: the classes, most probable first."""
        found = self._first(Classification)
        return found.classes if found else ()

    @property
    def tags(self) -> Tagging | None:
        """Tagging: the classes of each entry."""
        return self._first(Tagging)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Spans: the best ones, most probable first."""
        found = self._first(Spans)
        return found.spans if found else ()

    @property
    def none_probability(self) -> float | None:
        """Spans: probability that no span answers; None if the model does not tell."""
        found = self._first(Spans)
        return found.none_probability if found else None

    @property
    def boxes(self) -> tuple[Box, ...]:
        """Detection: the objects in an image, most probable first."""
        found = self._first(Boxes)
        return found.boxes if found else ()

    @property
    def sequences(self) -> tuple[GeneratedSequence, ...]:
        """Generation: the sequences, best first."""
        found = self._first(Sequences)
        return found.sequences if found else ()

    @property
    def text(self) -> str | None:
        """Generation: the text of the best sequence."""
        return self.sequences[0].text if self.sequences else None

    @property
    def embedding(self) -> NDArray[Any] | None:
        """Embedding: the vector [feature]."""
        found = self._first(Embedding)
        return None if found is None else found.vector

    @property
    def token_vectors(self) -> TokenVectors | None:
        """Token vectors: a vector for each token."""
        return self._first(TokenVectors)

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Regression: the numbers, with names and units."""
        found = self._first(Regression)
        return found.numbers if found else ()

    @property
    def headline(self) -> str:
        """The answer in one line: the most probable classes, the text, the first few tags, spans, boxes or numbers, or
        the beginning and the length of an embedding.
        """
        if self.classes:
            return class_list(self.classes)
        if self.text is not None:
            return f"{self.text} {self.sequences[0].probability:.2f}"
        if self.tags is not None and getattr(self.label_sets.get(self.tags.label_set), "kind", "") == "places":
            return " ".join(self.tags.labels)
        if self.tags is not None and (rows := list(zip(self.tagged_texts(self.tags), self.tags, strict=True))):
            return _few([f"{entry} {class_list(tags, 1)}" for entry, tags in rows])
        if (self.none_probability or 0.0) > max((span.probability for span in self.spans), default=0.0):
            return f"(no answer in the text) {self.none_probability:.2f}"
        if self.spans:
            return f"{self.spans[0].text} {self.spans[0].probability:.2f}"
        if self._first(Boxes) is not None:
            found = [f"{each.label} {each.probability:.2f} (query {each.query})" for each in self.boxes]
            return _few(found) or NO_OBJECT
        if self.numbers:
            return ", ".join(f"{each.name} {each.value:.4g} {each.unit}".rstrip() for each in self.numbers)
        if self.embedding is not None:
            vector = self.embedding.reshape(-1)
            first = " ".join(f"{number:.4g}" for number in vector[:_FEW].tolist())
            length = float(np.linalg.norm(vector))
            return f"{first}{' …' * (vector.size > _FEW)} ({counted(vector.size, 'number')} of length {length:.4g})"
        if self.token_vectors is not None:
            count, size = self.token_vectors.vectors.shape
            return f"{counted(count, 'vector')} of {counted(size, 'number')}"
        small = {name: array.reshape(-1).tolist() for name, array in self.outputs.items() if array.size <= _FEW}
        return ", ".join(f"{name} {' '.join(f'{number:.4g}' for number in numbers)}" for name, numbers in small.items())

    def tagged_texts(self, tagging: Tagging) -> list[str]:
        """Return the text of each row of a tagging of this answer: an entry, or the pieces of a word."""
        labels = self.label_sets.get(tagging.label_set)
        if labels is None:  # the server did not send it
            return [f"row {number}" for number in range(len(tagging))]
        if tagging.entries is None:
            return list(labels.labels)
        return [labels.joined(begin, end) for begin, end in tagging.entries]

    @property
    def heading(self) -> str:
        """The model, its version and the headline; long texts are shortened."""
        made_by, line = self.provenance, self.headline
        line = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
        return f"{made_by.model} version {made_by.version}: {line}"

    def __repr__(self) -> str:
        return f"<Prediction {printable(self.heading)}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as JSON types: results by name, and the first label and text, or None."""
        return {
            "label": self.label,
            "probability": self.probability,
            "text": self.text,
            "results": {
                name: {"kind": type(each).__name__.lower(), **each.to_dict()} for name, each in self.results.items()
            },
            "label_sets": {name: each.to_dict() for name, each in self.label_sets.items()},
            "outputs": json_types(self.outputs),
            "hidden": json_types(self.hidden),
            "truncated": self.truncated,
            "seed": self.seed,
            "provenance": json_types(self.provenance),
        }

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the prediction into a file that `limelight.load` reads: NumPy's `.npz`, without pickles."""
        archive.save(self, file)

    def _first(self, kind: type[Kind]) -> Kind | None:
        return next((result for result in self.results.values() if isinstance(result, kind)), None)


def class_list(classes: Sequence[ClassProbability], most: int = 3) -> str:
    """Format the most probable classes as one line."""
    return ", ".join(f"{each.label} {each.probability:.2f}" for each in classes[:most])


def _few(entries: list[str]) -> str:
    return ", ".join(entries[:_FEW]) + (", …" if len(entries) > _FEW else "")


def read_prediction(message: service_pb2.Prediction, instance: values_pb2.Instance | None = None) -> Prediction:
    """Read a prediction from a response.

    Args:
        instance: the sent instance, which has the texts of sentences.
    Raises:
        ValueError: a tensor, a result or a label set is inconsistent.
    """
    count = len(message.results) + len(message.outputs) + len(message.hidden)
    check_count(count, "results, outputs and hidden states")
    entries = sum(map(_entries, message.results))
    if entries > _MOST_ENTRIES:
        raise ValueError(f"results have {entries} entries; at most {_MOST_ENTRIES} are read")
    outputs = {name: to_array(message.outputs[name]) for name in sorted(message.outputs)}
    # A newer kind of result is skipped; its raw outputs are available.
    results = {each.name: result for each in message.results if (result := _result(each)) is not None}
    label_sets = read_label_sets(message.label_sets, instance)
    for each in results.values():
        if isinstance(each, Tagging) and each.label_set in label_sets:
            _check_entries(each, label_sets[each.label_set])
    return Prediction(
        results=FrozenMapping(results),
        label_sets=FrozenMapping(label_sets),
        outputs=FrozenMapping(outputs),
        truncated=message.truncated,
        seed=message.seed if message.HasField("seed") else None,
        provenance=read_provenance(message.provenance),
        hidden=FrozenMapping({each.name: _hidden(each) for each in message.hidden}),
    )


def _hidden(message: service_pb2.HiddenState) -> HiddenState:
    """Read a hidden state. Raises ValueError where vectors or columns do not fit together."""
    name, positions, most, count = message.name, tuple(message.positions), message.tokens_per_entry, len(message.tokens)
    described = (name, message.stack, message.layer, message.label_set, positions)
    if not count:
        vectors = to_array(message.vectors)
        if vectors.ndim not in (1, 2) or (positions and vectors.ndim == 2 and len(vectors) != len(positions)):
            raise ValueError(f"{name} has vectors {list(vectors.shape)} for {len(positions)} positions")
        return HiddenState(*described, vectors)
    if most < 1 or count % most or {len(message.token_ids), len(message.log_probabilities)} != {count}:
        raise ValueError(f"{name} has {count} tokens, {most} of each entry, and other columns of another length")
    tokens = tuple([tuple(message.tokens[place : place + most]) for place in range(0, count, most)])
    ids = np.array(message.token_ids, np.int64).reshape(-1, most)
    chances = np.array(message.log_probabilities, np.float32).reshape(-1, most)
    return HiddenState(*described, np.zeros((0, 0), np.float32), tokens, ids, chances)


def check_count(count: int, what: str) -> None:
    """Check how many parts an answer has, before each is read. Raises ValueError."""
    if count > _MOST_PARTS:
        raise ValueError(f"an answer has {count} {what}; at most {_MOST_PARTS} are read")


def _entries(message: service_pb2.Result) -> int:
    """Return how many objects a result becomes, each many times as large as its bytes in the message."""
    return (
        len(message.classification.classes)
        + len(message.spans.spans)
        + len(message.boxes.boxes)
        + len(message.sequences.sequences)
        + len(message.regression.numbers)
        + len(message.tagging.entries)
    )


def _result(message: service_pb2.Result) -> Result | None:
    match message.WhichOneof("kind"):
        case "classification":
            classes = (
                ClassProbability(each.label, each.index, each.probability) for each in message.classification.classes
            )
            return Classification(tuple(classes))
        case "tagging":
            return _tagging(message.tagging)
        case "spans":
            none = message.spans.none_probability if message.spans.HasField("none_probability") else None
            return Spans(tuple(_span(each) for each in message.spans.spans), none)
        case "boxes":
            boxes = tuple(_box(each) for each in message.boxes.boxes)
            return Boxes(boxes, message.boxes.label_set, message.boxes.relative)
        case "sequences":
            return Sequences(tuple(read_sequence(each) for each in message.sequences.sequences))
        case "embedding":
            return Embedding(to_array(message.embedding.vector))
        case "token_vectors":
            return TokenVectors(message.token_vectors.label_set, to_array(message.token_vectors.vectors))
        case "regression":
            return Regression(tuple(Number(each.name, each.value, each.unit) for each in message.regression.numbers))
    return None


def _span(message: service_pb2.Span) -> Span:
    sentence = message.sentence if message.HasField("sentence") else None
    return Span(message.text, message.start, message.end, message.probability, message.part, sentence)


def _box(message: service_pb2.Box) -> Box:
    edges = message.left, message.top, message.right, message.bottom
    return Box(message.label, message.index, message.probability, *edges, message.query)


def _tagging(message: service_pb2.Tagging) -> Tagging:
    each, names = message.classes_per_entry, tuple(message.labels)
    indices, probabilities = np.array(message.indices, np.int32), np.array(message.probabilities, np.float32)
    whole = each > 0 and len(names) % each == 0 if names else True
    if not (whole and len(names) == len(indices) == len(probabilities)):
        columns = f"{len(names)} labels, {len(indices)} indices and {len(probabilities)} probabilities"
        raise ValueError(f"tagging has {columns} at {each} an entry")
    # A text without tokens has no entries, so the number of columns does not matter.
    each = max(each, 1)
    rows = len(names) // each
    if message.selected and not rows == len(message.entries) == len(message.entry_ends):
        raise ValueError(f"tagging has {rows} rows, {len(message.entries)} entries and {len(message.entry_ends)} ends")
    return Tagging(
        label_set=message.label_set,
        names=tuple(names[at : at + each] for at in range(0, len(names), each)),
        indices=indices.reshape(-1, each),
        probabilities=probabilities.reshape(-1, each),
        entries=tuple(zip(message.entries, message.entry_ends, strict=True)) if message.selected else None,
    )


def _check_entries(tagging: Tagging, labels: LabelSet) -> None:
    """Check that the rows of a tagging are of entries of its label set, of each once. Raises ValueError."""
    if tagging.entries is None:
        if len(tagging) != len(labels):
            raise ValueError(f"tagging has {len(tagging)} rows for the {len(labels)} entries of {labels.name!r}")
    elif not all(0 <= begin <= end <= len(labels) for begin, end in tagging.entries) or (
        sum(end - begin for begin, end in tagging.entries) > len(labels)
    ):
        raise ValueError(f"tagging has rows that are no parts of the {len(labels)} entries of {labels.name!r}")


def read_sequence(message: service_pb2.Sequence) -> GeneratedSequence:
    """Read a sequence from a response. Raises ValueError for what is no log-probability."""
    if not all(each < math.inf for each in message.log_probabilities):  # false for NaN as well
        raise ValueError("a sequence has log-probabilities that are no numbers")
    count = len(message.token_ids)
    return GeneratedSequence(
        text=message.text,
        token_ids=tuple(message.token_ids),
        log_probabilities=tuple(message.log_probabilities),
        score=message.score,
        finish_reason=name_of(service_pb2.FinishReason, message.finish_reason),
        forced_tokens=message.forced_tokens,
        top=read_top(message.top, count) if message.HasField("top") else None,
    )


def read_top(message: service_pb2.TopTokens, steps: int) -> TopTokens:
    """Read the most probable tokens of so many steps. Raises ValueError for columns of another length, and for what is
    no log-probability.
    """
    shape = (steps, message.tokens_per_step)
    columns = (message.token_ids, message.texts, message.log_probabilities)
    if any(len(each) != steps * message.tokens_per_step for each in columns):
        raise ValueError(f"the most probable tokens of {steps} steps have columns of other lengths")
    if not all(each < math.inf for each in message.log_probabilities):
        raise ValueError("the most probable tokens have log-probabilities that are no numbers")
    return TopTokens(
        np.array(message.token_ids, np.int32).reshape(shape),
        tuple(tuple(message.texts[step * shape[1] : (step + 1) * shape[1]]) for step in range(steps)),
        np.array(message.log_probabilities, np.float32).reshape(shape),
    )


def read_provenance(message: service_pb2.Provenance) -> Provenance:
    """Read the provenance from a response."""
    return Provenance(
        model=message.model.name,
        version=message.model.version,
        bundle_digest=message.bundle_digest,
        provider=message.provider,
        graph=message.graph,
        batch_rows=message.batch_rows,
        queue_seconds=message.queue_nanoseconds / 1e9,
        compute_seconds=message.compute_nanoseconds / 1e9,
        preprocess_seconds=message.preprocess_nanoseconds / 1e9,
        encode_seconds=message.encode_nanoseconds / 1e9,
        cached=message.cached,
    )
