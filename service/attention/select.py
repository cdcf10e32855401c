"""Which maps a call selects, and which heads, queries and keys of them.

Several selections that name the same map make one map of the answer: its heads are the union of theirs, and so are its
queries and keys. What is returned is the rectangle heads × queries × keys, which holds all that any of them asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bundle.errors import InputError
from limelight.v1 import model_pb2
from service.attention.options import Selection

_MOST_NAMED = 12


@dataclass(frozen=True)
class Wanted:
    """Indices as a selection gives them, negative ones counting from the end; `field` is their path in the request."""

    field: str
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Chosen:
    """A map that a call selects; `queries` and `keys` are None for all of them.

    heads: ascending, never negative.
    """

    description: model_pb2.MapDescription
    heads: tuple[int, ...]
    queries: tuple[Wanted, ...] | None = None
    keys: tuple[Wanted, ...] | None = None


def choose(
    maps: Sequence[model_pb2.MapDescription], selections: Sequence[Selection], field: str = "attention"
) -> tuple[Chosen, ...]:
    """Find the maps that the union of some selections chooses, in the order of the description.

    Raises: InputError naming the field that matches nothing, or a head that a map lacks, and what there is.
    """
    if not maps:
        raise InputError(field, "the model has no attention maps")
    if not selections:
        return tuple(Chosen(each, tuple(range(each.heads))) for each in maps)
    heads: dict[str, set[int]] = {}
    queries: dict[str, list[Wanted] | None] = {}
    keys: dict[str, list[Wanted] | None] = {}
    for place, selection in enumerate(selections):
        path = f"{field}.selections[{place}]"
        for each in _matching(maps, selection, path):
            wanted = Wanted(f"{path}.heads", selection.heads)
            # The union with "all" is all, which None stands for and an empty selection means.
            of_map = _resolve(wanted, each.heads, f"heads of {each.name}") if selection.heads else range(each.heads)
            heads.setdefault(each.name, set()).update(of_map)
            _add(queries, each.name, f"{path}.queries", selection.queries)
            _add(keys, each.name, f"{path}.keys", selection.keys)
    return tuple(
        Chosen(each, tuple(sorted(heads[each.name])), _all_or(queries[each.name]), _all_or(keys[each.name]))
        for each in maps
        if each.name in heads
    )


def indices(wanted: Sequence[Wanted] | None, size: int, what: str) -> np.ndarray[tuple[int], np.dtype[np.intp]] | None:
    """Give the union of some indices on an axis of an instance, ascending and without negative ones; None for all.

    Raises: InputError naming the first index that the axis lacks; `what` says what it counts.
    """
    if wanted is None:
        return None
    found = {index for each in wanted for index in _resolve(each, size, what)}
    return np.array(sorted(found), dtype=np.intp)


def matches(pattern: str, name: str) -> bool:
    """Tell whether a name fits a glob in which `*` stands for any characters, dots too, and all else for itself.

    Takes time in proportion to the lengths, whatever the pattern: no regular expression from a caller is ever run.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    last = rest.pop()
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    place, end = len(first), len(name) - len(last)
    for part in rest:
        place = name.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def _matching(
    maps: Sequence[model_pb2.MapDescription], selection: Selection, path: str
) -> list[model_pb2.MapDescription]:
    named = list(maps)
    if selection.names:
        chosen: set[str] = set()
        for place, pattern in enumerate(selection.names):
            fitting = {each.name for each in maps if matches(pattern, each.name)}
            if not fitting:
                there = _listing([each.name for each in maps])
                raise InputError(f"{path}.names[{place}]", f"matches no map; the model has {there}")
            chosen |= fitting
        named = [each for each in maps if each.name in chosen]
    if not selection.layers:
        return named
    last = _last_layers(maps)
    layered = [each for each in named if each.HasField("layer")]
    wanted: set[tuple[str, int]] = set()
    for place, layer in enumerate(selection.layers):
        of_stacks = {(stack, layer if layer >= 0 else end + 1 + layer) for stack, end in last.items()}
        found = {(each.stack, each.layer) for each in layered} & of_stacks
        if not found:
            there = _listing(sorted({f"{each.stack}.{each.layer}" for each in layered})) or "no layers"
            raise InputError(f"{path}.layers[{place}]", f"is {layer}, which no map selected has; there are {there}")
        wanted |= found
    return [each for each in layered if (each.stack, each.layer) in wanted]


def _last_layers(maps: Sequence[model_pb2.MapDescription]) -> Mapping[str, int]:
    last: dict[str, int] = {}
    for each in maps:
        if each.HasField("layer"):
            last[each.stack] = max(last.get(each.stack, 0), each.layer)
    return last


def _resolve(wanted: Wanted, size: int, what: str) -> list[int]:
    resolved = []
    for place, index in enumerate(wanted.indices):
        if not -size <= index < size:
            raise InputError(f"{wanted.field}[{place}]", f"is {index}; there are {size} {what}")
        resolved.append(index % size)
    return resolved


def _add(to: dict[str, list[Wanted] | None], name: str, field: str, values: tuple[int, ...]) -> None:
    gathered = to.setdefault(name, [])
    if not values:
        to[name] = None
    elif gathered is not None:
        gathered.append(Wanted(field, values))


def _all_or(wanted: list[Wanted] | None) -> tuple[Wanted, ...] | None:
    return None if wanted is None else tuple(wanted)


def _listing(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
