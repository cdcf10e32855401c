"""What a caller asks for, free of any protocol (`AttentionOptions` on the wire)."""

from dataclasses import dataclass
from enum import Enum


class HeadReduction(Enum):
    """What to do with the head axis."""

    NONE = "none"
    MEAN = "mean"
    MAX = "max"


class Encoding(Enum):
    """How weights are encoded."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    UINT8 = "uint8"

    @property
    def itemsize(self) -> int:
        """Bytes a weight."""
        return {Encoding.FLOAT32: 4, Encoding.FLOAT16: 2, Encoding.UINT8: 1}[self]


@dataclass(frozen=True)
class Selection:
    """Maps and parts of maps; an empty field means all. See `MapSelection` for what each means."""

    names: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    queries: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class Options:
    """Which weights to return, and in which form: select, reduce heads, rollout, top k, encode, in this order.

    top_k: 0 for all.
    """

    selections: tuple[Selection, ...] = ()
    reduce_heads: HeadReduction = HeadReduction.NONE
    rollout: bool = False
    top_k: int = 0
    encoding: Encoding = Encoding.FLOAT32
