"""Sizes of attention in answers, in bytes, known before anything runs."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from limelight.v1 import model_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.maps import WEIGHTS, ProjectedSize, worth_probing
from limelight_service.attention.options import Encoding, HeadReduction, Options, Pooling, Selection
from limelight_service.attention.plan import SCORES, AttentionPlan, head_count, plan_attention, rollout_description
from limelight_service.attention.select import IndexUnion, SelectedMap

_INDEX_BYTES = 8  # an edge's query and key, INT32 each
_KEY_BYTES = 4  # of each weight that top k keeps, INT32
_SCALE_BYTES = 4
_FRAME = 120  # tags, lengths, shapes and small fields of a map's message
_LABEL_FRAME = 64
_DERIVED_NAME = len(".query_groups")
_FITTING_POOL = 64


@dataclass(frozen=True)
class AxisSizes:
    """Axis sizes that determine the size of an instance's maps.

    labels: size of every label set, and 1 for "", an axis without one; for output steps the most there can be.
    edges: the most edges of a map, by name; a map of edges that is not here has one a key.
    """

    labels: Mapping[str, int]
    edges: Mapping[str, int]


def attention_bytes(plan: AttentionPlan, sizes: AxisSizes) -> int:
    """Bound the bytes of one instance's maps from above: within a few percent where they are rectangular."""
    return sum(_map_bytes(each, heads, plan, sizes) for each, heads in _answered(plan))


def row_bytes(options: Options, entries: npt.NDArray[np.integer], features: int) -> npt.NDArray[np.int64]:
    """Bound what a head of each query of a map takes: as it is computed, and as it is sent.

    entries: keys or edges of each query [query].
    """
    size = max(1, features)
    computed = entries * (size * Encoding.FLOAT32.itemsize)
    groups = max((len(each.groups) for each in options.key_groups), default=0)
    places = np.maximum(entries, groups)
    if options.top_k:  # each row has as many places as the longest
        places = np.full(len(entries), min(options.top_k, int(places.max(initial=0))))
    sent = places * (size * options.encoding.itemsize + _KEY_BYTES * bool(options.top_k))
    return np.asarray(np.maximum(computed, sent) + 2 * _SCALE_BYTES, np.int64)


def header_bytes(plan: AttentionPlan, sizes: AxisSizes) -> int:
    """Bound the bytes of what is said of an instance's maps before they are streamed."""
    total = 0
    for each in plan.selected:
        description = each.description
        for size, distinct in (
            (description.heads, len(each.heads)),
            (sizes.labels[description.query_labels], len(each.queries.distinct) if each.queries else 0),
            (sizes.labels[description.key_labels], len(each.keys.distinct) if each.keys else 0),
        ):
            total += distinct * _varint(size)
        total += each.name_bytes + 2 * (_DERIVED_NAME + _FRAME)
    return total


def computed_bytes(
    plan: AttentionPlan,
    sizes: AxisSizes,
    probed: Collection[str],
    projected: Mapping[str, ProjectedSize] = MappingProxyType({}),
) -> int:
    """Bound the bytes of one instance's maps as the runtime computes them, before anything is cut.

    probed: the maps of which it can compute single rows. projected: those of which it computes only what they are made
    of.
    """
    total, biases = 0, dict[str, int]()
    for each in plan.selected:
        description = each.description
        queries, keys = sizes.labels[description.query_labels], sizes.labels[description.key_labels]
        if description.name in projected and plan.options.quantity == WEIGHTS:
            size = projected[description.name]
            total += size.numbers * (queries + keys) * Encoding.FLOAT32.itemsize
            biases[size.bias] = size.bias_heads * queries * keys * Encoding.FLOAT32.itemsize
            continue
        wanted = len(each.heads) * _count(each.queries, queries)
        probes = description.name in probed and plan.options.quantity == WEIGHTS
        if probes and worth_probing(wanted, description.heads * queries):
            total += wanted * keys * Encoding.FLOAT32.itemsize
            continue
        places = queries * keys
        if description.form == model_pb2.MAP_FORM_EDGES:
            places = min(sizes.edges.get(description.name, sizes.labels[description.key_labels]), places)
            total += places * _INDEX_BYTES
        total += description.heads * places * max(1, description.features) * Encoding.FLOAT32.itemsize
    return total + sum(biases.values())


def sequence_bytes(plan: AttentionPlan, sizes: AxisSizes, steps_label: str) -> int:
    """Bound the bytes of those maps that each further sequence has of its own."""
    own = [(each, heads) for each, heads in _answered(plan) if steps_label in _axes(each.description)]
    return sum(_map_bytes(each, heads, plan, sizes) for each, heads in own)


def derived_label_bytes(plan: AttentionPlan, sizes: AxisSizes) -> int:
    """Bound the bytes of the label sets that groups and ranges make."""
    total = 0
    for groups in (*plan.query_groups.values(), *plan.key_groups.values()):
        names = sum(len(name.encode()) + 6 for name in groups.names)
        total += names + 2 * len(groups.label_set.encode()) + _DERIVED_NAME + _LABEL_FRAME
    if plan.options.pool is not None:
        most = plan.options.pool.size
        axes = {(place, name) for each, _ in _answered(plan) for place, name in enumerate(_axes(each.description))}
        for _, name in axes:
            if sizes.labels[name] > most:
                places = 2 * most * _varint(sizes.labels[name])
                total += places + 2 * len(name.encode()) + _DERIVED_NAME + _LABEL_FRAME
    return total


def fitting(
    maps: Sequence[model_pb2.MapDescription],
    options: Options,
    limit: int,
    measure: Callable[[AttentionPlan], int],
) -> str:
    """Say which change of the options makes an answer fit, the mildest first; empty where none does.

    measure: bytes of the whole answer under a plan.
    """
    for words, changed in _milder(options):
        try:
            size = measure(plan_attention(maps, changed))
        except InputError:
            continue  # this change is not possible for these maps
        if size <= limit:
            return f"{words} would fit ({size} bytes)"
    return ""


def _milder(options: Options) -> Iterator[tuple[str, Options]]:
    if options.encoding is Encoding.FLOAT32:
        yield "encoding FLOAT16", replace(options, encoding=Encoding.FLOAT16)
    if options.encoding is not Encoding.UINT8:
        yield "encoding UINT8", replace(options, encoding=Encoding.UINT8)
    if not options.top_k:
        yield "top_k 8", replace(options, top_k=8)
    if options.reduce_heads is HeadReduction.NONE:
        yield "reduce_heads MEAN", replace(options, reduce_heads=HeadReduction.MEAN)
    small = replace(options, encoding=Encoding.UINT8, reduce_heads=HeadReduction.MEAN)
    yield "reduce_heads MEAN with encoding UINT8", small
    if options.pool is None or options.pool.size > _FITTING_POOL:
        yield f"pool {{ size: {_FITTING_POOL} }}", replace(options, pool=Pooling(_FITTING_POOL))
    last = (Selection(layers=(-1,)),)
    yield "the last layer alone (selections { layers: -1 })", replace(options, selections=last)
    yield "the last layer alone with reduce_heads MEAN and encoding UINT8", replace(small, selections=last)
    row = (Selection(layers=(-1,), queries=(0,)),)
    yield (
        "one query of the last layer (selections { layers: -1 queries: 0 })",
        replace(small, selections=row, rollout=False),
    )
    row = (Selection(queries=(0,)),)
    yield "one query (selections { queries: 0 })", replace(small, selections=row, rollout=False)


def _answered(plan: AttentionPlan) -> list[tuple[SelectedMap, int]]:
    """Give the maps of the answer, each with its heads after the reduction: a rollout in place of what it replaces."""
    rolled = {each.description.name for members in plan.stacks.values() for each in members}
    maps = [(each, head_count(each, plan.options)) for each in plan.selected if each.description.name not in rolled]
    for members in plan.stacks.values():
        heads = tuple(sorted({head for each in members for head in each.heads}))
        maps.append((SelectedMap(rollout_description(members), heads), 1))
    return maps


def _axes(description: model_pb2.MapDescription) -> tuple[str, str]:
    return description.query_labels, description.key_labels


def _map_bytes(selected: SelectedMap, heads: int, plan: AttentionPlan, sizes: AxisSizes) -> int:
    description, options = selected.description, plan.options
    query_size, key_size = sizes.labels[description.query_labels], sizes.labels[description.key_labels]
    queries, keys = _count(selected.queries, query_size), _count(selected.keys, key_size)
    listed = len(selected.heads) * _varint(description.heads)
    edges = None
    if description.form == model_pb2.MAP_FORM_EDGES:
        # In the nested form each key belongs to one query; queries can only make them fewer.
        edges = min(sizes.edges.get(description.name, keys), queries * keys)
    query_groups, key_groups = plan.groups_of(description)
    if query_groups or key_groups or options.pool:
        edges = None
    if query_groups:
        queries = len(query_groups.names)
    elif selected.queries is not None:
        listed += queries * _varint(query_size)
    if key_groups:
        keys = len(key_groups.names)
    elif selected.keys is not None:
        listed += keys * _varint(key_size)
    if options.pool:
        queries, keys = min(queries, options.pool.size), min(keys, options.pool.size)
    if options.top_k:
        longest = keys if edges is None else min(keys, edges)
        places = queries * min(longest, options.top_k)
        indices = heads * places * _KEY_BYTES
    else:
        places = queries * keys if edges is None else edges
        indices = (edges or 0) * _INDEX_BYTES
    total = heads * places * max(1, description.features) * options.encoding.itemsize + listed + indices
    rows = heads * queries * _SCALE_BYTES
    total += rows if options.encoding is Encoding.UINT8 else 0
    total += rows if options.top_k and options.quantity != SCORES else 0
    return total + selected.name_bytes + 2 * _DERIVED_NAME + _FRAME


def _count(wanted: IndexUnion | None, size: int) -> int:
    return size if wanted is None else min(size, len(wanted.distinct))


def _varint(largest: int) -> int:
    return max(1, math.ceil(max(1, largest).bit_length() / 7))
