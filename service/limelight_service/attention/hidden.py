"""Hidden states of an answer: which of them, and which of their entries, as one vector or several."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.values import Array

_FIELD = "hidden"


class VectorPooling(Enum):
    """How the vectors of a hidden state become one."""

    NONE = "none"
    MEAN = "mean"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class HiddenOptions:
    """Hidden states to return (`HiddenOptions` of the protocol); an empty field selects all."""

    stacks: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    pooling: VectorPooling = VectorPooling.NONE
    top_tokens: int = 0


@dataclass(frozen=True)
class HiddenRequest:
    """Hidden states by their names, and what to return of each.

    positions: entries, negative ones from the end; empty for all. pooling: of these entries. top_tokens: to read
    from each vector, in its place; 0 for vectors.
    """

    names: tuple[str, ...]
    positions: tuple[int, ...] = ()
    pooling: VectorPooling = VectorPooling.NONE
    top_tokens: int = 0

    def places(self, size: int, label_set: str) -> list[int]:
        """Return the indices of the entries, of a label set of this size.

        Raises: InputError for one that is not there, and for no entry to pool.
        """
        for place, index in enumerate(self.positions):
            if not -size <= index < size:
                raise InputError((_FIELD, "positions", place), f"is {index}; {label_set} has {size} entries")
        if not size and self.pooling is not VectorPooling.NONE:
            raise InputError((_FIELD, "pooling"), f"has nothing to pool: {label_set} has no entries")
        return [index % size for index in self.positions]

    def rows(self, size: int) -> int:
        """Count the vectors that are returned of a label set of this size."""
        return 1 if self.pooling is not VectorPooling.NONE else len(self.positions) or size

    def reduced(self, vectors: Array, label_set: str) -> Array:
        """Select and pool vectors, [entry, feature] -> [position, feature] or [feature]. Raises: InputError."""
        places = self.places(len(vectors), label_set)
        found: Array = vectors[places] if places else vectors
        match self.pooling:
            case VectorPooling.FIRST:
                found = found[0].copy()
            case VectorPooling.LAST:
                found = found[-1].copy()
            case VectorPooling.MEAN:
                found = found.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
        return found


def hidden_request(described: Sequence[model_pb2.HiddenDescription], options: HiddenOptions) -> HiddenRequest:
    """Request hidden states with the positions and the pooling of options."""
    return HiddenRequest(tuple(each.name for each in described), options.positions, options.pooling, options.top_tokens)


def select_hidden(
    described: Sequence[model_pb2.HiddenDescription], options: HiddenOptions
) -> list[model_pb2.HiddenDescription]:
    """Select hidden states of a model. Raises: InputError where it has none, or lacks a stack or a layer."""
    if not described:
        raise InputError(_FIELD, "is set, but the model puts out no hidden states; import or export it again")
    last = {each.stack: each.layer for each in described}
    for place, stack in enumerate(options.stacks):
        if stack not in last:
            raise InputError((_FIELD, "stacks", place), f"is {stack!r}; the model has {', '.join(last)}")
    wanted = options.stacks or tuple(last)
    for place, layer in enumerate(options.layers):
        if not any(-last[each] - 1 <= layer <= last[each] for each in wanted):
            highest = max(last[each] for each in wanted)
            raise InputError(
                (_FIELD, "layers", place), f"is {layer}; layers are 0 to {highest}, or -1 to {-highest - 1}"
            )
    selected = [
        each
        for each in described
        if each.stack in wanted
        and (not options.layers or {each.layer, each.layer - last[each.stack] - 1} & {*options.layers})
    ]
    for each in selected:
        if options.top_tokens > each.max_top_tokens:
            most = f"at most {each.max_top_tokens} are read" if each.max_top_tokens else "the model has no head for it"
            raise InputError((_FIELD, "top_tokens"), f"is {options.top_tokens} for {each.name}; {most}")
    return selected
