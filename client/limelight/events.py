"""Events of a generation: a start, one event a token, an end."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from limelight.labels import LabelSet, plain, read_label_set, read_label_sets
from limelight.maps import AttentionMap, read_map
from limelight.predictions import (
    GeneratedSequence,
    Provenance,
    TopTokens,
    check_count,
    read_provenance,
    read_sequence,
    read_top,
)
from limelight.records import FrozenMapping, Record
from limelight.v1 import attention_pb2, service_pb2, values_pb2


@dataclass(frozen=True, eq=False, repr=False)
class GenerationStart(Record):
    """The first event."""

    label_sets: Mapping[str, LabelSet]
    """Every label set except the output steps, by name."""
    truncated: bool
    """True if the input was truncated to the model's limits."""
    seed: int | None
    """The seed used; None if nothing was sampled."""


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedToken(Record):
    """A generated token."""

    _array = "its `maps` are"

    index: int
    """Index in the sequence, from 0."""
    id: int
    text: str
    """The token as the vocabulary writes it; empty for a special token."""
    delta: str
    """Text that the token adds; empty for a special token or part of a character. It may contain a stop text, which the
    final text omits."""
    log_probability: float
    maps: tuple[AttentionMap, ...]
    """One row a map: the query axis has size 1 and is this token."""
    forced: bool = False
    """True if a target forced the token, or the model puts it in front of one."""
    top: TopTokens | None = None
    """With `top_logprobs`: the most probable tokens of this step."""


@dataclass(frozen=True, eq=False, repr=False)
class GenerationEnd(Record):
    """The last event."""

    _array = "its `maps` are"

    sequences: tuple[GeneratedSequence, ...]
    """The whole sequence; for beam search, the requested hypotheses, best first."""
    output_steps: LabelSet | None
    """The tokens of the best sequence."""
    maps: tuple[AttentionMap, ...]
    """For beam search, the best sequence's maps."""
    provenance: Provenance

    @property
    def text(self) -> str:
        """Text of the best sequence."""
        return self.sequences[0].text if self.sequences else ""

    @property
    def probability(self) -> float | None:
        """Probability of the best sequence; None without a sequence."""
        return self.sequences[0].probability if self.sequences else None


GenerationEvent: TypeAlias = GenerationStart | GeneratedToken | GenerationEnd


class EventReader:
    """Reads the messages of one stream. It keeps the label sets, which only the first message has."""

    def __init__(self, instance: values_pb2.Instance) -> None:
        self._instance = instance
        self._label_sets: dict[str, LabelSet] = {}
        self._written = 0  # code points of the text so far
        self._told = self._ended = False

    def read(self, message: service_pb2.GenerateResponse) -> GenerationEvent:
        """Read the next event. Raises ValueError for an inconsistent message."""
        kind = message.WhichOneof("event")
        if self._ended:
            raise ValueError("an event came after the end of the sequence")
        if kind == "start":
            start = message.start
            self._label_sets = read_label_sets(start.label_sets, self._instance)
            seed = start.seed if start.HasField("seed") else None
            return GenerationStart(FrozenMapping(dict(self._label_sets)), start.truncated, seed)
        if kind == "token":
            token = message.token
            check_count(len(token.maps), "maps")
            maps = tuple(self._token_map(each, token) for each in token.maps)
            begin = self._written + len(token.delta) - len(token.delta.lstrip())
            self._written += len(token.delta)
            put_out = replace(
                plain("", "output_steps", [token.text], ids=[token.id], special=[not token.text]),
                starts=np.array([min(begin, self._written)], np.int32),
                ends=np.array([self._written], np.int32),
            )
            self._told = True
            self._extend_input_steps(put_out)
            top = read_top(token.top, 1) if token.HasField("top") else None
            told = (token.index, token.id, token.text, token.delta, token.log_probability)
            return GeneratedToken(*told, maps, token.forced, top)
        if kind == "end":
            self._ended = True
            return self._end(message.end)
        raise ValueError("the event is of a kind unknown to this client; update the client")

    def check_end(self) -> None:
        """Check that the sequence is complete. Raises ValueError."""
        if not self._ended:
            raise ValueError("the stream ended before the sequence was complete")

    def _token_map(self, message: attention_pb2.AttentionMap, token: service_pb2.GeneratedToken) -> AttentionMap:
        """Read one token's row of a map. Keys that are input steps end with the previous token."""
        query = LabelSet(message.query_labels, "output_steps", (token.text,), indices=(token.index,))
        return read_map(message, self._label_sets, query=query)

    def _extend_input_steps(self, labels: LabelSet) -> None:
        """Append the generated tokens so far to the input steps; labels: output steps from the first new one."""
        for name, each in self._label_sets.items():
            if each.kind == "input_steps":
                last = len(each.inputs) - 1  # names the generated text
                sources = np.full(len(labels) if last > 0 else 0, last, np.int32)
                self._label_sets[name] = each.extended(replace(labels, input_indices=sources))

    def _end(self, message: service_pb2.GenerationEnd) -> GenerationEnd:
        check_count(len(message.maps) + len(message.sequences), "maps and sequences")
        steps = read_label_set(message.label_set) if message.HasField("label_set") else None
        if steps is not None and not self._told:  # beam search sends no tokens
            self._extend_input_steps(steps.take(range(len(steps) - 1)))
        label_sets = self._label_sets | ({} if steps is None else {steps.name: steps})
        return GenerationEnd(
            sequences=tuple(read_sequence(sequence) for sequence in message.sequences),
            output_steps=steps,
            maps=tuple(read_map(each, label_sets) for each in message.maps),
            provenance=read_provenance(message.provenance),
        )
