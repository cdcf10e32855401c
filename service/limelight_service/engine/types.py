"""The dataclasses between the engine and its callers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from limelight_bundle.maps import MapPart, MapWeights, Projected
from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Array
from limelight_service.ipc.boundary import (
    FinishReason,
    GenerationSettings,
    Sequence,
    Strategy,
    Timing,
    TopTokens,
    WaitEstimate,
)

__all__ = [
    "FinishReason",
    "GenerationSettings",
    "Sequence",
    "Strategy",
    "Timing",
    "TopTokens",
    "WaitEstimate",
]

# A map by its name and one of its quantities (`Quantity` on the wire).
MapKey = tuple[str, int]


@dataclass(frozen=True)
class Query:
    """Rows to answer with one model, and the outputs and maps that their answers need.

    Attributes:
        maps: requested maps; empty for a prediction alone.
        seeds: one a row, or none at all. The draws of a row depend on its own seed alone, not on its place or its
            batch. None: arg max (or, for sampling, a fresh seed).
        generation: of a generating model.
        sequences: for a generating model, how many of its hypotheses the maps are requested of.
        deadline: on the clock of `time.monotonic`; None for no limit.
        outputs: names of the raw outputs of each step of a generating model, None for all; and of hidden states, which
            are computed only if named.
        parts: the needed parts of some of the maps, one mapping a row, or none at all. The engine may compute more,
            which `MapWeights` tells.
    """

    rows: tuple[Row, ...]
    maps: frozenset[MapKey] = frozenset()
    seeds: tuple[int | None, ...] = ()
    sequences: int = 1
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    deadline: float | None = None
    outputs: frozenset[str] | None = None
    parts: tuple[Mapping[MapKey, MapPart], ...] = ()

    def parts_of(self, index: int) -> Mapping[MapKey, MapPart]:
        """Give the needed parts of maps of a row."""
        return self.parts[index] if self.parts else {}


@dataclass(frozen=True)
class SequenceMaps:
    """The attention behind one of several sequences: the maps and the label set that its tokens decide."""

    maps: Mapping[MapKey, MapWeights]
    labels: Mapping[str, Labels]


@dataclass(frozen=True)
class Answer:
    """One row's answer, cut to its own sizes.

    Attributes:
        outputs: raw outputs by name, without batch axis or padding.
        maps: as requested, but for those that are `projected` instead; for a generating model the query axis is the
            output step of the best sequence.
        labels: every label set of this row, those that only running the model decides (output steps) included.
        seed: of the random draws; None where nothing was drawn.
        other_sequences: of the sequences after the best one, as many as the query requests maps of.
    """

    outputs: Mapping[str, Array]
    maps: Mapping[MapKey, MapWeights]
    labels: Mapping[str, Labels]
    graph: str
    batch_rows: int
    timing: Timing
    seed: int | None = None
    sequences: tuple[Sequence, ...] = ()
    other_sequences: tuple[SequenceMaps, ...] = ()
    projected: Mapping[MapKey, Projected] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One generated token of a sequence; each map has a query axis of size 1.

    text: as the vocabulary writes it. delta: what it adds to the sequence's text. forced, top: as of a `TokenResult`.
    """

    index: int
    token_id: int
    text: str
    delta: str
    log_probability: float
    maps: Mapping[MapKey, MapWeights] = field(default_factory=dict)
    forced: bool = False
    top: TopTokens | None = None
