"""Parts of answers of limelight.v1 beside their arrays, for every encoding: heads of maps, sums of streams, labels."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.errors import TooLargeError
from limelight_bundle.label_sets import fixed_labels
from limelight_bundle.rows import Labels
from limelight_service.attention.labels import key_groups_of
from limelight_service.attention.options import HeadReduction
from limelight_service.attention.plan import AttentionPlan, is_signed, rollout_description
from limelight_service.attention.select import SelectedMap, indices
from limelight_service.frontend.calls import CheckedCall
from limelight_service.frontend.schema import ModelSchema
from limelight_service.ipc.boundary import ChunkResult, MapResult, StreamedMap


class LabelEncoder:
    """Encodes label sets; one that is the same for every instance of a model is encoded once.

    encode: a label set, as a protocol sends it.
    """

    def __init__(self, encode: Callable[[Labels], bytes]) -> None:
        self._encode = encode
        self._fixed: WeakKeyDictionary[ModelSchema, Mapping[str, bytes]] = WeakKeyDictionary()

    def __call__(self, schema: ModelSchema, labels: Labels) -> bytes:
        """Encode a label set of a model."""
        placed = labels.grid is not None and labels.grid.HasField("region")
        cut = len(labels.special) > 0  # of frames, which end with the recording
        fixed = None if placed or cut else self._of(schema).get(labels.name)
        return self._encode(labels) if fixed is None else fixed

    def _of(self, schema: ModelSchema) -> Mapping[str, bytes]:
        found = self._fixed.get(schema)
        if found is None:
            fixed = fixed_labels(schema.description).items()
            found = self._fixed[schema] = {name: self._encode(labels) for name, labels in fixed}
        return found


@dataclass(frozen=True)
class MapHead:
    """A map without its numbers (`AttentionMap` of the protocol).

    description: of the map, or of the rollout that it is. queries, keys: indices of those that are here; None for all.
    """

    description: model_pb2.MapDescription
    quantity: int
    heads: Sequence[int]
    head_reduction: HeadReduction
    query_labels: str
    key_labels: str
    queries: Sequence[int] | None = None
    keys: Sequence[int] | None = None
    normalised: bool = False
    signed: bool = False


def map_head(found: MapResult, description: model_pb2.MapDescription, quantity: int) -> MapHead:
    """Describe a finished map."""
    return MapHead(
        description,
        quantity,
        found.heads,
        found.head_reduction,
        found.query_labels,
        found.key_labels,
        None if found.queries is None else found.queries.tolist(),
        None if found.keys is None else found.keys.tolist(),
        found.normalised,
        found.signed,
    )


def described_maps(
    maps: Iterable[MapResult], plan: AttentionPlan | None
) -> Iterable[tuple[MapResult, model_pb2.MapDescription]]:
    """Give maps with their descriptions, or those of the rollouts that replace some; none without a plan."""
    if plan is None:
        return ()
    known = {each.description.name: each.description for each in plan.selected}
    rolled = {each.name: each for each in map(rollout_description, plan.stacks.values())}
    return [(each, rolled.get(each.name) or known[each.name]) for each in maps]


def streamed_head(plan: AttentionPlan, selected: SelectedMap, streamed: StreamedMap) -> tuple[MapHead, list[int]]:
    """Describe a map that is to come in chunks; gives its shape too. Raises: InputError for keys that it lacks."""
    description, options = selected.description, plan.options
    wanted = indices(selected.keys, streamed.keys, f"keys of {description.name}")
    keys = streamed.keys if wanted is None else len(wanted)
    key_labels = description.key_labels
    _, groups = plan.groups_of(description)
    if groups is not None:
        wanted, keys, key_labels = None, len(groups.names), key_groups_of(groups.label_set)
    head = MapHead(
        description,
        options.quantity,
        np.asarray(selected.heads).tolist(),
        options.reduce_heads,
        description.query_labels,
        key_labels,
        None if selected.queries is None else streamed.queries.tolist(),
        None if wanted is None else wanted.tolist(),
        signed=is_signed(description, options.quantity),
    )
    heads = len(selected.heads) if options.reduce_heads is HeadReduction.NONE else 1
    features = [description.features] if description.features else []
    return head, [heads, len(streamed.queries), keys, *features]


@dataclass
class StreamSums:
    """Sums over the chunks of one instance, which a stream ends with; times in nanoseconds."""

    chunks: int = 0
    weights_bytes: int = 0
    queue_nanoseconds: int = 0
    compute_nanoseconds: int = 0
    encode_nanoseconds: int = 0

    def add(self, chunk: ChunkResult, started: int) -> None:
        """Count a chunk whose encoding began at `started`, by `perf_counter_ns`."""
        self.chunks += 1
        self.weights_bytes += chunk.map.weights.nbytes
        self.queue_nanoseconds += chunk.timing.queue
        self.compute_nanoseconds += chunk.timing.compute
        self.encode_nanoseconds += chunk.reduce_nanoseconds + time.perf_counter_ns() - started


def check_size(size: int, checked: CheckedCall, name: str = "instances", what: str = "need an answer") -> None:
    """Check the bytes of an answer, which only an axis without a limit in the model's description makes too many.

    Raises: TooLargeError.
    """
    limit = checked.wanted.limit
    if size > limit:
        raise TooLargeError(name, f"{what} of {size} bytes; at most {limit} are allowed")
