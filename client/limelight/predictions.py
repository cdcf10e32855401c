"""Predictions: typed results beside raw outputs, and what made them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from limelight.enums import name_of
from limelight.tensors import to_array
from limelight.v1 import service_pb2


@dataclass(frozen=True)
class ClassProbability:
    """A class and its probability."""

    label: str
    index: int
    """Its index among the model's classes."""
    probability: float


@dataclass(frozen=True)
class Span:
    """A span of a text, by Unicode code points of the string as sent."""

    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class GeneratedSequence:
    """A sequence that the model put out."""

    text: str
    token_ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    """Natural logarithm of each token's probability, before temperature and the rest."""
    score: float
    """By which beam search ordered it; 0 otherwise."""
    finish_reason: str
    """"end", "length", "stop" or "target"."""


@dataclass(frozen=True)
class Provenance:
    """What made an answer, and how long it took. Times are in seconds."""

    model: str
    version: int
    bundle_digest: str
    provider: str
    graph: str
    batch_rows: int
    """Rows in the batch that this instance was computed in."""
    queue_seconds: float
    compute_seconds: float
    preprocess_seconds: float
    encode_seconds: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer for one instance. What its model's task does not give is empty."""

    classes: tuple[ClassProbability, ...]
    """Classification and multi-label: every class, most probable first."""
    tags: tuple[tuple[ClassProbability, ...], ...]
    """Tagging: the classes of each entry."""
    spans: tuple[Span, ...]
    """Spans: the best ones, most probable first."""
    sequences: tuple[GeneratedSequence, ...]
    """Generation: best first."""
    embedding: NDArray[Any] | None
    """Embedding: [feature]."""
    outputs: Mapping[str, NDArray[Any]]
    """Raw outputs by name, without padding."""
    truncated: bool
    """True where the input was cut to the model's limits."""
    provenance: Provenance

    @property
    def label(self) -> str | None:
        """The most probable class; None for a model without classes."""
        return self.classes[0].label if self.classes else None

    @property
    def probability(self) -> float | None:
        """The probability of `label`."""
        return self.classes[0].probability if self.classes else None

    @property
    def text(self) -> str | None:
        """The text of the best sequence; None for a model that does not generate."""
        return self.sequences[0].text if self.sequences else None


def read_prediction(message: service_pb2.Prediction) -> Prediction:
    """A prediction from an answer. Raises: ValueError for a tensor that makes no sense."""
    spans = (Span(span.text, span.start, span.end, span.probability) for span in message.spans.spans)
    outputs = {name: to_array(message.outputs[name]) for name in sorted(message.outputs)}
    return Prediction(
        classes=_classes(message.classification),
        tags=tuple(_classes(entry) for entry in message.tagging.entries),
        spans=tuple(spans),
        sequences=tuple(read_sequence(sequence) for sequence in message.sequences.sequences),
        embedding=to_array(message.embedding.vector) if message.HasField("embedding") else None,
        outputs=MappingProxyType(outputs),
        truncated=message.truncated,
        provenance=read_provenance(message.provenance),
    )


def read_sequence(message: service_pb2.Sequence) -> GeneratedSequence:
    """A sequence from an answer."""
    return GeneratedSequence(
        text=message.text,
        token_ids=tuple(message.token_ids),
        log_probabilities=tuple(message.log_probabilities),
        score=message.score,
        finish_reason=name_of(service_pb2.FinishReason, message.finish_reason),
    )


def read_provenance(message: service_pb2.Provenance) -> Provenance:
    """What made an answer."""
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
    )


def _classes(message: service_pb2.Classification) -> tuple[ClassProbability, ...]:
    return tuple(ClassProbability(each.label, each.index, each.probability) for each in message.classes)
