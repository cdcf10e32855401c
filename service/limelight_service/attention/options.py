"""Options of a call's attention, free of any protocol (`AttentionOptions` on the wire), and their limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from limelight_bundle.errors import InputError, Path
from limelight_bundle.maps import WEIGHTS

# Enough for anything sensible, and few enough that checking them takes no time that others would notice.
MOST_SELECTIONS = 64
MOST_INDICES = 100_000
MOST_MAP_NAMES = 1_000
LONGEST_NAME = 256
LARGEST_POOL = 4_096


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


class Selected(Protocol):
    """A selection as a protocol has it, before it is translated."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def layers(self) -> Sequence[int]: ...
    @property
    def heads(self) -> Sequence[int]: ...
    @property
    def queries(self) -> Sequence[int]: ...
    @property
    def keys(self) -> Sequence[int]: ...


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

    field: Path
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


def check_options(options: Options) -> None:
    """Check the numbers of options by themselves. Raises: InputError naming the option."""
    if options.top_k < 0:
        raise InputError(("attention", "top_k"), f"is {options.top_k}; it may be 0 (for all) or more")
    if options.sequences < 0:
        raise InputError(("attention", "sequences"), f"is {options.sequences}; it may be 0 or more")
    if options.pool is not None and not 1 <= options.pool.size <= LARGEST_POOL:
        path = ("attention", "pool", "size")
        raise InputError(path, f"is {options.pool.size}; it may be from 1 to {LARGEST_POOL}")


def check_selections(selections: Sequence[Selected], field: Path = ("attention",)) -> None:
    """Check how much is selected before any of it is looked at. Raises: InputError naming the option in `field`."""
    path = (*field, "selections")
    if len(selections) > MOST_SELECTIONS:
        raise InputError(path, f"has {len(selections)} entries; at most {MOST_SELECTIONS} are allowed")
    indices = sum([len(each.layers) + len(each.heads) + len(each.queries) + len(each.keys) for each in selections])
    if indices > MOST_INDICES:
        raise InputError(path, f"has {indices} indices; at most {MOST_INDICES} are allowed")
    names = sum([len(each.names) for each in selections])
    if names > MOST_MAP_NAMES:
        raise InputError(path, f"has {names} names; at most {MOST_MAP_NAMES} are allowed")
    for place, each in enumerate(selections):
        for number, name in enumerate(each.names):
            if len(name) > LONGEST_NAME:
                long = f"has {len(name)} characters; at most {LONGEST_NAME} are allowed"
                raise InputError((*path, place, "names", number), long)
