"""What a generating model sends: a start, one event a token, an end."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from limelight.labels import LabelSet, plain, read_label_set, read_label_sets
from limelight.maps import AttentionMap, read_map
from limelight.predictions import GeneratedSequence, Provenance, read_provenance, read_sequence
from limelight.v1 import attention_pb2, service_pb2, values_pb2


@dataclass(frozen=True, eq=False)
class GenerationStart:
    """The first event."""

    label_sets: Mapping[str, LabelSet]
    """Every label set but that of the output steps, by name."""
    truncated: bool
    """True where the input was cut to the model's limits."""
    seed: int | None
    """The seed that was drawn from; None where nothing was drawn."""


@dataclass(frozen=True, eq=False)
class GeneratedToken:
    """One token."""

    index: int
    """Its place in the sequence, from 0."""
    id: int
    text: str
    """As the vocabulary writes it; empty for a special token."""
    delta: str
    """What it adds to the text of the sequence: empty for a special token or part of a character. It can hold a stop
    text, which the whole sequence leaves out."""
    log_probability: float
    maps: tuple[AttentionMap, ...]
    """One row a map: the query axis has size 1 and is this token."""


@dataclass(frozen=True, eq=False)
class GenerationEnd:
    """The last event."""

    sequences: tuple[GeneratedSequence, ...]
    """The whole sequence; for beam search, all hypotheses asked for, best first."""
    output_steps: LabelSet | None
    """The tokens of the best sequence."""
    maps: tuple[AttentionMap, ...]
    """For beam search, the best sequence's maps."""
    provenance: Provenance

    @property
    def text(self) -> str:
        """The text of the best sequence."""
        return self.sequences[0].text if self.sequences else ""


GenerationEvent: TypeAlias = GenerationStart | GeneratedToken | GenerationEnd


class EventReader:
    """Turns the messages of one stream into events. It keeps the label sets, which only the first message states."""

    def __init__(self, instance: values_pb2.Instance) -> None:
        self._instance = instance
        self._label_sets: dict[str, LabelSet] = {}
        self._tokens: list[str] = []

    def read(self, message: service_pb2.GenerateResponse) -> GenerationEvent:
        """The next event. Raises: ValueError for a message that makes no sense."""
        kind = message.WhichOneof("event")
        if kind == "start":
            start = message.start
            self._label_sets = read_label_sets(start.label_sets, self._instance)
            seed = start.seed if start.HasField("seed") else None
            return GenerationStart(MappingProxyType(self._label_sets), start.truncated, seed)
        if kind == "token":
            token = message.token
            self._tokens.append(token.text)
            maps = tuple(self._token_map(each, token) for each in token.maps)
            return GeneratedToken(token.index, token.id, token.text, token.delta, token.log_probability, maps)
        if kind == "end":
            return self._end(message.end)
        raise ValueError("an event of a kind that this client does not know")

    def _token_map(self, message: attention_pb2.AttentionMap, token: service_pb2.GeneratedToken) -> AttentionMap:
        """One token's row of a map. Its query is the token; output steps that it attends to are those so far."""
        label_sets = dict(self._label_sets)
        query = LabelSet(message.query_labels, "output_steps", (token.text,), indices=(token.index,))
        if message.key_labels not in label_sets:
            steps = self._tokens
            if not message.keys and not message.HasField("query_index"):
                # Those before this token, and it itself where the map looks at it.
                steps = steps[: message.weights.shape[2] if len(message.weights.shape) > 2 else 0]
            label_sets[message.key_labels] = plain(message.key_labels, "output_steps", steps)
        return read_map(message, label_sets, query=query)

    def _end(self, message: service_pb2.GenerationEnd) -> GenerationEnd:
        label_sets, steps = dict(self._label_sets), None
        if message.HasField("label_set"):
            steps = read_label_set(message.label_set)
            label_sets[steps.name] = steps
        return GenerationEnd(
            sequences=tuple(read_sequence(sequence) for sequence in message.sequences),
            output_steps=steps,
            maps=tuple(read_map(each, label_sets) for each in message.maps),
            provenance=read_provenance(message.provenance),
        )
