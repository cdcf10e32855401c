"""The engine boundary: rows and options go in, outputs and reduced attention maps come out.

Frontends and engines share these records and nothing else. In one process they are passed as they are; between
processes `limelight_service.ipc.wire` encodes them. They are msgspec structs, which are frozen dataclasses that encode
fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Array
from limelight_service.attention.hidden import HiddenRequest
from limelight_service.attention.options import HeadReduction, Options


class Strategy(Enum):
    """Decoding strategy of a generating model."""

    GREEDY = "greedy"
    SAMPLE = "sample"
    BEAM = "beam"


class FinishReason(Enum):
    """Why a sequence ended."""

    END = "end"
    LENGTH = "length"
    STOP = "stop"
    TARGET = "target"


@dataclass(frozen=True)
class GenerationSettings:
    """Checked generation options with defaults filled in (`GenerationOptions` of the protocol).

    temperature, top_p: 0 takes the most probable token.
    """

    strategy: Strategy = Strategy.GREEDY
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 0
    stop: tuple[str, ...] = ()
    beams: int = 4
    length_penalty: float = 1.0
    hypotheses: int = 1
    continue_target: bool = False
    top_logprobs: int = 0

    @property
    def draws(self) -> bool:
        """True where tokens are drawn at random."""
        return self.strategy is Strategy.SAMPLE and self.temperature > 0 and self.top_p > 0


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of what an engine tells: immutable, and encoded by the position of its fields."""


@dataclass(frozen=True)
class InferenceRequest:
    """Rows of one call for one model.

    seeds: one for each row; None where the caller gave none.
    outputs: names of the raw outputs that the answer is made of.
    attention: what to compute of the maps; None for a prediction alone.
    hidden: hidden states that come among the outputs; None for none.
    deadline: on the clock of `time.monotonic`; None for no limit.
    tokens: tensors of ids whose labels (`Row.tokens`) the engine needs.
    steps: the most of a row, where groups of keys may name some that are still to come.
    """

    model: str
    version: int
    rows: tuple[Row, ...]
    seeds: tuple[int | None, ...]
    outputs: frozenset[str]
    attention: Options | None = None
    generation: GenerationSettings = GenerationSettings()
    deadline: float | None = None
    tokens: frozenset[str] = frozenset()
    steps: int = 0
    hidden: HiddenRequest | None = None

    @property
    def fetched(self) -> frozenset[str]:
        """Names of the outputs and hidden states that a graph computes."""
        return self.outputs if self.hidden is None else self.outputs.union(self.hidden.names)


class MapResult(Record, frozen=True):
    """One map as it is sent: selected, reduced and encoded (`AttentionMap` of the protocol has the shapes).

    name: of the map, or of the rollout that replaces a stack. heads: indices of the heads that are here, or went into
    the one that is. queries, keys: indices [query] and [key] of those that are here; None for all.
    scales: [head, query], for UINT8. query_index, key_index: of edges, or of the keys that top k kept.
    left_out: [head, query], the sum of what top k left out.
    """

    name: str
    normalised: bool
    signed: bool
    heads: list[int]
    head_reduction: HeadReduction
    query_labels: str
    key_labels: str
    weights: Array
    queries: Array | None = None
    keys: Array | None = None
    scales: Array | None = None
    query_index: Array | None = None
    key_index: Array | None = None
    left_out: Array | None = None


class TopTokens(Record, frozen=True):
    """The most probable tokens of steps, `per_step` of each, best first. texts: as the vocabulary writes them."""

    per_step: int
    token_ids: tuple[int, ...]
    texts: tuple[str, ...]
    log_probabilities: tuple[float, ...]


class Sequence(Record, frozen=True):
    """Tokens that a generating model put out, the end token included where there is one.

    forced: number of the first of them that were not chosen freely. top: of each step, where it is asked for.
    """

    token_ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    text: str
    finish_reason: FinishReason
    score: float = 0.0
    forced: int = 0
    top: TopTokens | None = None


class Reading(Record, frozen=True):
    """Tokens that the head reads from a hidden state.

    token_ids, log_probabilities: [entry, place]. texts: likewise, in one list.
    """

    name: str
    token_ids: Array
    texts: list[str]
    log_probabilities: Array


class SequenceResult(Record, frozen=True):
    """The attention of one further sequence: maps and label sets that its own tokens decide."""

    maps: tuple[MapResult, ...]
    labels: tuple[Labels, ...]


class Timing(Record, frozen=True):
    """Nanoseconds that one row waited and computed. admitted: when it came, on the clock of `time.monotonic_ns`. first,
    others: of a row that generates, from then to its first token, and from there to its last.
    """

    queue: int
    compute: int
    admitted: int = 0
    first: int = 0
    others: int = 0


class RowResult(Record, frozen=True, tag=0):
    """The answer to one row.

    outputs: by name, cut to the row's own sizes. labels: sets that only running the model decides (output steps).
    derived_labels: sets of groups and ranges that the attention options make.
    seed: of what was drawn; None where nothing was. other_sequences: after the best one.
    reduce_nanoseconds: spent on reducing and encoding maps. readings: of hidden states, in the place of their vectors.
    cached: kept from an earlier call, so that nothing waited or computed.
    """

    outputs: Mapping[str, Array]
    graph: str
    batch_rows: int
    timing: Timing
    maps: tuple[MapResult, ...] = ()
    labels: tuple[Labels, ...] = ()
    derived_labels: tuple[Labels, ...] = ()
    seed: int | None = None
    sequences: tuple[Sequence, ...] = ()
    other_sequences: tuple[SequenceResult, ...] = ()
    reduce_nanoseconds: int = 0
    readings: tuple[Reading, ...] = ()
    cached: bool = False


class GenerationBegun(Record, frozen=True, tag=1):
    """The first event of a generation. labels: sets of what goes into the model, before anything is put out."""

    seed: int | None
    labels: tuple[Labels, ...]


class TokenResult(Record, frozen=True, tag=2):
    """One generated token. text: as the vocabulary writes it. delta: what it adds to the text of the sequence. forced:
    it was not chosen freely. top: of its step, where it is asked for.
    """

    index: int
    token_id: int
    text: str
    delta: str
    log_probability: float
    maps: tuple[MapResult, ...] = ()
    forced: bool = False
    top: TopTokens | None = None


class StreamedMap(Record, frozen=True):
    """A map that is about to be streamed. queries: indices [query] that are sent. keys: size of its key axis."""

    queries: Array
    keys: int


class StreamBegun(Record, frozen=True, tag=3):
    """The first event of a stream of maps: the prediction, and one entry for each selected map, in order."""

    result: RowResult
    maps: tuple[StreamedMap, ...]


class ChunkResult(Record, frozen=True, tag=4):
    """Some heads and queries of one streamed map. place: of the map among those of `StreamBegun`."""

    place: int
    first_head: int
    first_query: int
    queries: int
    map: MapResult
    timing: Timing
    reduce_nanoseconds: int


GenerationEvent = GenerationBegun | TokenResult | RowResult
StreamEvent = StreamBegun | ChunkResult


@dataclass(frozen=True)
class WaitEstimate:
    """Estimated time from the arrival of a row to its answer.

    seconds: 0 while nothing waits. per_row: seconds that each further row adds.
    """

    seconds: float = 0.0
    per_row: float = 0.0


@dataclass(frozen=True)
class GraphStatus:
    """A graph as the runtime runs it. nodes: their number by the provider that runs them."""

    name: str
    provider: str
    nodes: Mapping[str, int]


@dataclass(frozen=True)
class ServedModel:
    """A loaded version of a model, as an engine announces it to frontends.

    folder: of the bundle. bundle: its description as a serialized `limelight.bundle.v1.Bundle`. graph_bytes, stamps,
    origin: as `limelight_bundle.reader.BundleFolder` has them.
    projected: for each map whose projections can be fetched: numbers for each query and key, shared bias, heads of it.
    max_rows, max_tokens: of a batch. workers: that share the model's rows.
    """

    name: str
    version: int
    digest: str
    provider: str
    folder: str
    bundle: bytes
    graph_bytes: Mapping[str, int]
    stamps: Mapping[str, tuple[int, int, int, int, int]]
    origin: str
    graphs: tuple[GraphStatus, ...]
    projected: Mapping[str, tuple[int, str, int]] = field(default_factory=dict)
    max_rows: int = 1
    max_tokens: int = 1
    workers: int = 1
