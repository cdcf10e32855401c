"""Maps of a card, checked against the tensors that hold them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

from limelight.base.counts import counted
from limelight_export.errors import ExportError
from limelight_export.importing import cards
from limelight_export.importing.inputs import imported_inputs
from limelight_export.importing.label_sets import axis_of, find_labels, label_sets_of
from limelight_export.importing.observed import Observed, listed, shape_at
from limelight_export.interface import BATCH, AxisSize
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import Map
from limelight_models.weights import Weights

_BATCH_HEAD = "batch*head"
# Axes of a tensor of so many, where the card states none.
_DEFAULT_AXES: Mapping[int, tuple[str, ...]] = {
    4: (BATCH, "head", "query", "key"),
    3: (BATCH, "query", "key"),
    2: (BATCH, "key"),
}


@dataclass(frozen=True)
class MapSource:
    """Conversion of a model's tensor to a map [batch, head, query, key].

    Attributes:
        axes: of the tensor, in order.
        heads: of an axis `batch*head`.
    """

    output: str
    axes: tuple[str, ...]
    heads: int


def map_source(name: str, stated: cards.Map, tensor: Observed) -> MapSource:
    """Return where a map comes from. Raises ExportError where its axes are not those of the tensor."""
    where, rank = f"the card's map {name!r}", len(tensor.shapes[0])
    axes: tuple[str, ...] = tuple(stated.axes) or _DEFAULT_AXES.get(rank, ())
    known = get_args(cards.MapAxis)
    if unknown := [axis for axis in axes if axis not in known]:
        raise ExportError(f"{where} has the axis {unknown[0]!r}; an axis is one of {listed(known)}")
    if len(axes) != rank:
        stated_axes = f"the axes {list(axes)}" if axes else "no axes"
        raise ExportError(f"{where} has {stated_axes}, and the output {tensor.name!r} has the shape {shape_at(tensor)}")
    folded = _BATCH_HEAD in axes
    if len(set(axes)) < len(axes) or "key" not in axes or (folded and {BATCH, "head"} & set(axes)):
        raise ExportError(f"{where} has the axes {list(axes)}; each appears once, and one of them is the key")
    if not folded and axes[0] != BATCH:
        raise ExportError(f"{where} has the axes {list(axes)}; the first is the batch")
    if folded and (axes[0] != _BATCH_HEAD or stated.heads < 1):
        raise ExportError(f"{where} has an axis {_BATCH_HEAD!r}, which must be the first and needs `heads`")
    return MapSource(tensor.name, axes, stated.heads if folded else 0)


def imported_map(
    name: str, stated: cards.Map, source: MapSource, tensor: Observed, known: Mapping[str, LabelSet]
) -> Map:
    """Return a map of a card.

    Raises:
        ExportError: its heads are not fixed, or an axis of the tensor is not what its label set counts.
    """
    where = f"the card's map {name!r}"
    sizes = dict(zip(source.axes, tensor.axes, strict=True))
    heads: AxisSize = source.heads or sizes.get("head", 1)
    if isinstance(heads, str):
        raise ExportError(
            f"{where}: its head axis varies with {heads!r}; the output {tensor.name!r} has {shape_at(tensor)}"
        )
    if source.heads:
        for shape, at in zip(tensor.shapes, tensor.sizes, strict=True):
            if shape[0] != at[BATCH] * source.heads:
                raise ExportError(
                    f"{where} has {counted(source.heads, 'head')}, and the first axis of the output {tensor.name!r} is "
                    f"{shape[0]} for {counted(at[BATCH], 'row')}"
                )
    elif sizes[BATCH] != BATCH:
        raise ExportError(
            f"{where}: the first axis of the output {tensor.name!r} is not the batch; it has {shape_at(tensor)}"
        )
    if stated.heads and stated.heads != heads:
        raise ExportError(f"{where} has {counted(stated.heads, 'head')}, and the output {tensor.name!r} has {heads}")
    chosen = {}
    for axis, labels in (("query", stated.query), ("key", stated.key)):
        chosen[axis] = find_labels(known, labels, where)
        found, wanted = sizes.get(axis, 1), axis_of(chosen[axis])
        if found != wanted:
            raise ExportError(
                f"{where} has {labels!r} as {axis}, {size_of(wanted)}, and that axis of the output {tensor.name!r} "
                f"is {size_of(found)}: it has the shape {shape_at(tensor)}"
            )
    queries, keys = chosen["query"], chosen["key"]
    return Map(
        weights=Weights(heads=heads, normalised=stated.normalised, signed=stated.signed),
        kind=stated.kind or ("pool" if queries.kind == "one" else "self" if queries == keys else "cross"),
        queries=queries,
        keys=keys,
        summary=stated.summary,
    )


def with_found_maps(card: cards.Card, observed: Mapping[str, Observed]) -> cards.Card:
    """Return a card with a map, of its own name, for each inner tensor of weights that no map names.

    Left out are those whose axes no label set counts, or several do.
    """
    guessed = {name: guess_map(card, each) for name, each in unnamed(card, observed).items()}
    named = "Its axes are named after the label sets of their sizes."
    found = {
        name: replace(each, summary=f"Attention of {name}. {named}")
        for name, each in guessed.items()
        if each is not None
    }
    return replace(card, maps={**card.maps, **found})


def unnamed(card: cards.Card, observed: Mapping[str, Observed]) -> dict[str, Observed]:
    """Return the inner tensors of weights that no map of a card names."""
    named = {each.output for each in card.maps.values()} | set(card.maps)
    return {name: each for name, each in observed.items() if each.is_inner and name not in named}


def guess_map(card: cards.Card, tensor: Observed) -> cards.Map | None:
    """Return the map that a tensor of weights is; None where no label set of the card, or several, count an axis."""
    known = label_sets_of(card, imported_inputs(card))
    axes, rank = tensor.axes, len(tensor.shapes[0])
    heads = _folded_heads(tensor) if rank == 3 else 0
    names = (_BATCH_HEAD, "query", "key") if heads else _DEFAULT_AXES.get(rank, ())
    found = dict(zip(names, axes, strict=False))
    if not found or (not heads and axes[0] != BATCH) or isinstance(found.get("head", 1), str):
        return None
    chosen = {}
    for axis in ("query", "key"):
        size = found.get(axis, 1)
        counted = [name for name, labels in known.items() if axis_of(labels) == size]
        if len(counted) != 1:
            return None
        chosen[axis] = counted[0]
    return cards.Map(output=tensor.name, axes=names if heads else (), heads=heads, **chosen)  # type: ignore[arg-type]


def _folded_heads(tensor: Observed) -> int:
    """Return the number of heads of an axis `batch*head`; 0 for another axis."""
    found = {divmod(shape[0], at[BATCH]) for shape, at in zip(tensor.shapes, tensor.sizes, strict=True)}
    ((heads, rest), *others) = found
    is_constant = rest or others or len({at[BATCH] for at in tensor.sizes}) == 1
    return 0 if is_constant or heads == 1 else heads


def size_of(axis: AxisSize) -> str:
    return f"always {axis}" if isinstance(axis, int) else f"as long as {axis!r}"
