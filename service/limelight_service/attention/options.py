"""Options of a call's attention, free of any protocol (`AttentionOptions` on the wire)."""

from dataclasses import dataclass
from enum import Enum

from limelight_bundle.maps import WEIGHTS


class HeadReduction(Enum):
    """Reduction over the head axis."""

    NONE = "none"
    MEAN = "mean"
    MAX = "max"


class GroupReduction(Enum):
    """Reduction over the members of a group."""

    SUM = "sum"
    MEAN = "mean"


class PoolReduction(Enum):
    """Reduction over a cell of a pooled map."""

    MAX = "max"
    MEAN = "mean"


class Encoding(Enum):
    """Encoding of weights."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    UINT8 = "uint8"

    @property
    def itemsize(self) -> int:
        """Bytes of one weight."""
        return {"float32": 4, "float16": 2, "uint8": 1}[self.value]


@dataclass(frozen=True)
class Selection:
    """Maps and parts of maps; an empty field means all. See `MapSelection` for what each means."""

    names: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    queries: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class Span:
    """A part of a text: code points from `start` to before `end`, in a sentence or a part of a pair where there are
    several.
    """

    start: int
    end: int
    sentence: int | None = None
    part: str = ""


@dataclass(frozen=True)
class Group:
    """Entries of an axis that are taken together: the union of what the fields name.

    ranges: (first, one past the last); both may count from the end, and an end of 0 is the end itself.
    """

    name: str
    indices: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    spans: tuple[Span, ...] = ()
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grouping:
    """The groups of one label set. field: its path in the request. label_set: empty where the maps leave no choice."""

    field: str
    groups: tuple[Group, ...]
    reduction: GroupReduction
    label_set: str = ""


@dataclass(frozen=True)
class Pooling:
    """Shrinks both axes to at most `size` ranges."""

    size: int
    reduction: PoolReduction = PoolReduction.MAX


@dataclass(frozen=True)
class Options:
    """Which numbers to return, and in which form: select, reduce heads, rollout, groups or pool, top k, encode.

    quantity: as on the wire. top_k: 0 for all. sequences: of a generating model, the hypotheses that the maps are of.
    """

    selections: tuple[Selection, ...] = ()
    quantity: int = WEIGHTS
    reduce_heads: HeadReduction = HeadReduction.NONE
    rollout: bool = False
    query_groups: tuple[Grouping, ...] = ()
    key_groups: tuple[Grouping, ...] = ()
    pool: Pooling | None = None
    top_k: int = 0
    encoding: Encoding = Encoding.FLOAT32
    sequences: int = 1
