"""How many bytes an answer's attention takes, known before anything runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from bundle.errors import InputError
from limelight.v1 import model_pb2
from service.attention.options import Encoding, HeadReduction, Options, Selection
from service.attention.plan import Plan, head_count, make_plan, rollout_description
from service.attention.select import Chosen, Wanted

_INDEX_BYTES = 8  # an edge's query and key, INT32 each
_SCALE_BYTES = 4
_FRAME = 96  # tags, lengths, shapes and small fields of a map's message


def attention_bytes(plan: Plan, sizes: Mapping[str, int]) -> int:
    """Bound the bytes of one instance's maps from above: within a few percent where they are rectangular.

    sizes: of every label set; for output steps the most there can be.
    """
    rolled = {each.description.name for members in plan.stacks.values() for each in members}
    total = sum(
        _map_bytes(each, plan.options, sizes, head_count(each, plan.options))
        for each in plan.chosen
        if each.description.name not in rolled
    )
    for members in plan.stacks.values():
        total += _map_bytes(Chosen(rollout_description(members), (0,)), plan.options, sizes, 1)
    return total


def fitting(
    maps: Sequence[model_pb2.MapDescription], options: Options, limit: int, measure: Callable[[Plan], int]
) -> str:
    """Say which change of the options makes an answer fit, the mildest first; empty where none does.

    measure: bytes of the whole answer under a plan.
    """
    for words, changed in _milder(options):
        try:
            size = measure(make_plan(maps, changed))
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


def _map_bytes(chosen: Chosen, options: Options, sizes: Mapping[str, int], heads: int) -> int:
    description = chosen.description
    query_size, key_size = sizes[description.query_labels], sizes[description.key_labels]
    queries, keys = _count(chosen.queries, query_size), _count(chosen.keys, key_size)
    edges = 0
    if description.form == model_pb2.MAP_FORM_EDGES:
        edges = keys  # each key belongs to one query; queries can only make them fewer
    elif options.top_k:
        edges = queries * min(keys, heads * options.top_k)
    places = edges or queries * keys * max(1, description.features)
    scales = heads * queries * _SCALE_BYTES if options.encoding is Encoding.UINT8 else 0
    listed = heads * _varint(description.heads)
    listed += queries * _varint(query_size) if chosen.queries is not None else 0
    listed += keys * _varint(key_size) if chosen.keys is not None else 0
    names = len((description.name + description.stack + description.query_labels + description.key_labels).encode())
    return heads * places * options.encoding.itemsize + edges * _INDEX_BYTES + scales + listed + names + _FRAME


def _count(wanted: Sequence[Wanted] | None, size: int) -> int:
    if wanted is None:
        return size
    return min(size, len({index for each in wanted for index in each.indices}))


def _varint(largest: int) -> int:
    return max(1, (max(1, largest).bit_length() + 6) // 7)
