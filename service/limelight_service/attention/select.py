"""Which maps a call selects, and which heads, queries and keys of them.

Several selections that name the same map make one map of the answer: its heads are the union of theirs, and so are its
queries and keys. What is returned is the rectangle heads × queries × keys, which holds all that any of them asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from limelight.base.counts import there_are
from limelight.base.suggestions import similar
from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.maps import VALUES, WEIGHTS
from limelight_service.attention.options import Selection

_MOST_NAMED = 12
# What to do about a quantity that a map lacks.
_ADVICE: Mapping[int, str] = {
    VALUES: "; a map has them if its weights multiply one vector for each key and head, and its bundle is of this "
    "release: export an older one again"
}
_MOST_KEPT = 8_192  # indices, on axes of several lengths; views keep some plans


@dataclass(frozen=True)
class IndexList:
    """Indices as a selection gives them, negative ones counting from the end; `field` is their path in the request."""

    field: Path
    indices: tuple[int, ...]

    @cached_property
    def array(self) -> npt.NDArray[np.intp]:
        """The indices as an array, made once a call."""
        return np.array(self.indices, dtype=np.intp)


@dataclass(frozen=True)
class IndexUnion:
    """The union of some lists of indices: put together once a call, so that on an axis they cost what is on it."""

    lists: tuple[IndexList, ...]

    @cached_property
    def distinct(self) -> npt.NDArray[np.intp]:
        """The indices as they were given, ascending, each once."""
        return np.unique(np.concatenate([each.array for each in self.lists]))

    @cached_property
    def _found(self) -> dict[int, npt.NDArray[np.intp]]:
        """The indices on axes of some lengths."""
        return {}

    def on_axis(self, size: int, what: str) -> npt.NDArray[np.intp]:
        """Give the indices on an axis, ascending and without negative ones; found once for all maps of a length.

        Raises: InputError as `resolve`.
        """
        found = self._found.get(size)  # threads share it
        if found is None:
            distinct = self.distinct
            if len(distinct) and (distinct[0] < -size or distinct[-1] >= size):
                for each in self.lists:
                    resolve(each, size, what)
            if len(self._found) * len(distinct) >= _MOST_KEPT:
                self._found.clear()
            found = self._found[size] = np.unique(np.where(distinct < 0, distinct + size, distinct))
        return found


@dataclass(frozen=True)
class SelectedMap:
    """A map that a call selects; `queries` and `keys` are None for all of them.

    heads: ascending, never negative; a range where they are all of them.
    """

    description: model_pb2.MapDescription
    heads: Sequence[int]
    queries: IndexUnion | None = None
    keys: IndexUnion | None = None

    @cached_property
    def name_bytes(self) -> int:
        """Bytes of the names in its message."""
        each = self.description
        names = (each.name, each.stack, each.query_labels, each.key_labels, each.head_labels, each.feature_labels)
        return sum(len(name.encode()) for name in names)


def select_maps(
    maps: Sequence[model_pb2.MapDescription],
    selections: Sequence[Selection],
    quantity: int = WEIGHTS,
    field: Path = ("attention",),
) -> tuple[SelectedMap, ...]:
    """Find the maps that the union of some selections chooses, in the order of the description.

    Maps that lack the quantity are left out, but for those that are named in full.
    Raises: InputError naming the field that matches nothing, or a head that a map lacks, and what there is.
    """
    if not maps:
        raise InputError(field, "the model has no attention maps")
    offering = [each for each in maps if offers(each, quantity)]
    if not offering:
        what = f"is {quantity_name(quantity)}, which no map of the model has{_ADVICE.get(quantity, '')}"
        raise InputError((*field, "quantity"), what)
    if not selections:
        return tuple(SelectedMap(each, range(each.heads)) for each in offering)
    heads: dict[str, set[int] | None] = {}  # None for all, which are as many as somebody says
    # The lists of a selection are the same for all of its maps, and what is worked out of them is so once.
    queries: dict[str, list[IndexList] | None] = {}
    keys: dict[str, list[IndexList] | None] = {}
    for place, selection in enumerate(selections):
        path = (*field, "selections", place)
        matching = _matching(maps, selection, path)
        _check_offered(matching, selection, quantity, (*field, "quantity"))
        of_heads = IndexUnion((IndexList((*path, "heads"), selection.heads),))
        of_queries = IndexList((*path, "queries"), selection.queries)
        of_keys = IndexList((*path, "keys"), selection.keys)
        for each in matching:
            if not offers(each, quantity):
                continue
            # The union with "all" is all, which None stands for and an empty selection means.
            known = heads.setdefault(each.name, set())
            if not selection.heads:
                heads[each.name] = None
            else:
                wanted = of_heads.on_axis(each.heads, f"heads of {each.name}").tolist()
                heads[each.name] = None if known is None else known.union(wanted)
            _add(queries, each.name, of_queries)
            _add(keys, each.name, of_keys)
    unions: dict[tuple[int, ...], IndexUnion] = {}
    return tuple(
        SelectedMap(
            each,
            _ascending(heads[each.name], each.heads),
            _union(queries[each.name], unions),
            _union(keys[each.name], unions),
        )
        for each in maps
        if each.name in heads
    )


def _ascending(heads: set[int] | None, count: int) -> Sequence[int]:
    return range(count) if heads is None else tuple(sorted(heads))


def indices(wanted: IndexUnion | None, size: int, what: str) -> npt.NDArray[np.intp] | None:
    """Give some indices on an axis of an instance, ascending and without negative ones; None for all.

    Raises: InputError naming the first index that the axis lacks; `what` says what it counts.
    """
    return None if wanted is None else wanted.on_axis(size, what)


def side_by_side(ascending: npt.NDArray[np.intp]) -> slice | npt.NDArray[np.intp]:
    """Give indices, which are not empty, as a slice where they stand side by side: nothing is copied then."""
    first, last = int(ascending[0]), int(ascending[-1])
    return slice(first, last + 1) if last - first + 1 == len(ascending) else ascending


def resolve(wanted: IndexList, size: int, what: str) -> npt.NDArray[np.intp]:
    """Give indices on an axis without negative ones, in their own order.

    Raises: InputError naming the first that the axis lacks; `what` says what it counts.
    """
    outside = (wanted.array < -size) | (wanted.array >= size)
    if outside.any():
        place = int(outside.argmax())
        raise InputError((*wanted.field, place), f"is {wanted.indices[place]}; {there_are(size, what)}")
    return np.where(wanted.array < 0, wanted.array + size, wanted.array)


def matches(pattern: str, name: str) -> bool:
    """Tell whether a name fits a glob in which `*` stands for any characters, dots too, and all else for itself.

    Takes time in proportion to the lengths, whatever the pattern: no regular expression from a caller is ever run.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    last = rest.pop()
    rest = [each for each in rest if each]  # of two `*` side by side the second says nothing
    if len(name) < len(first) + len(last) + len(rest) or not name.startswith(first) or not name.endswith(last):
        return False
    place, end = len(first), len(name) - len(last)
    for part in rest:
        place = name.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def offers(description: model_pb2.MapDescription, quantity: int) -> bool:
    """Tell whether a map has a quantity; every map has weights."""
    return quantity == WEIGHTS or quantity in description.quantities


def quantity_name(quantity: int) -> str:
    """Give a quantity as messages to people write it: `SCORES`."""
    return str(attention_pb2.Quantity.Name(quantity)).removeprefix("QUANTITY_")


def _check_offered(
    matching: Sequence[model_pb2.MapDescription], selection: Selection, quantity: int, field: Path
) -> None:
    """Refuse a map that is named in full and lacks the quantity, and a selection of none but such maps."""
    lacking = [each.name for each in matching if not offers(each, quantity)]
    if set(lacking) & set(selection.names) or len(lacking) == len(matching):
        raise InputError(
            field, f"is {quantity_name(quantity)}, which {_listing(lacking)} lacks{_ADVICE.get(quantity, '')}"
        )


def _matching(
    maps: Sequence[model_pb2.MapDescription], selection: Selection, path: Path
) -> list[model_pb2.MapDescription]:
    named = list(maps)
    if selection.names:
        chosen: set[str] = set()
        for pattern in dict.fromkeys(selection.names):
            fitting = {each.name for each in maps if matches(pattern, each.name)}
            if not fitting:
                place = selection.names.index(pattern)
                offered = [each.name for each in maps]
                raise InputError(
                    (*path, "names", place),
                    f"matches no map; the model has {_listing(offered)}{similar(pattern, offered)}",
                )
            chosen |= fitting
        named = [each for each in maps if each.name in chosen]
    if not selection.layers:
        return named
    last = _last_layers(maps)
    layered = [each for each in named if each.HasField("layer")]
    wanted: set[tuple[str, int]] = set()
    known = {(each.stack, each.layer) for each in layered}
    for layer in dict.fromkeys(selection.layers):
        found = {(stack, layer if layer >= 0 else end + 1 + layer) for stack, end in last.items()} & known
        if not found:
            place = selection.layers.index(layer)
            there = _listing(sorted({f"{each.stack}.{each.layer}" for each in layered})) or "no layers"
            raise InputError((*path, "layers", place), f"is {layer}, which no map selected has; there are {there}")
        wanted |= found
    return [each for each in layered if (each.stack, each.layer) in wanted]


def _last_layers(maps: Sequence[model_pb2.MapDescription]) -> Mapping[str, int]:
    last: dict[str, int] = {}
    for each in maps:
        if each.HasField("layer"):
            last[each.stack] = max(last.get(each.stack, 0), each.layer)
    return last


def _add(to: dict[str, list[IndexList] | None], name: str, wanted: IndexList) -> None:
    gathered = to.setdefault(name, [])
    if not wanted.indices:
        to[name] = None
    elif gathered is not None:
        gathered.append(wanted)


def _union(wanted: list[IndexList] | None, unions: dict[tuple[int, ...], IndexUnion]) -> IndexUnion | None:
    """Put lists together, the same ones once: maps that are selected alike share what is worked out of them."""
    if wanted is None:
        return None
    return unions.setdefault(tuple(map(id, wanted)), IndexUnion(tuple(wanted)))


def _listing(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
