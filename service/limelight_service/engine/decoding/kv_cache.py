"""The KV cache: the inputs of a step graph for each slot, kept in place. A slot is one live hypothesis of one row.

The live slots are the first ones of every array, [slot, …], so the runtime is fed a view and nothing is gathered. A row
that joins is written behind the others; where slots end, the last ones fill the holes. A cache has spare places: a step
writes its new entry at each slot's own length.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight_bundle.errors import BundleError
from limelight_bundle.rows import BoundTensor
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES
from limelight_service.engine.runtime.device_cache import DeviceCache
from limelight_service.errors import InferenceError

# The axis of a cache's entries. Its size is a multiple of the block, so that it changes seldom.
GROWN = "<entries>"
BLOCK = 32

# The size of an axis, or its name where it varies.
AxisSize = int | str


@dataclass(frozen=True)
class CachedInput:
    """An input of the step graph of which each slot has its part.

    Attributes:
        axes: behind the slot's.
        slot_axis: its place in the graph.
        output: of the graph, that replaces the input after a step, or is its new entry; empty for a constant.
        fill: the value past a row's own sizes.
        dtype: None for that of the first array.
    """

    name: str
    axes: tuple[AxisSize, ...]
    slot_axis: int = 0
    output: str = ""
    fill: float = 0.0
    dtype: np.dtype[Any] | None = None


class KVCache:
    """The arrays of all slots, by the names of the step graph's inputs.

    Attributes:
        count: of live slots.
        sizes: of the axes that vary, by name.
    """

    def __init__(self, inputs: Iterable[CachedInput], device: DeviceCache | None = None) -> None:
        """Make an empty cache.

        Args:
            device: a copy, on a device, of the arrays of which a step changes one entry at most.
        """
        self._inputs = tuple(inputs)
        self._device = device
        self._present: list[CachedInput] = []
        self._arrays: dict[str, Array] = {}
        self._lengths = np.zeros(0, np.int64)
        self.sizes: dict[str, int] = {}
        self.count = 0

    @property
    def lengths(self) -> Array:
        """Number of valid entries of each live slot, INT64 [slot]; a view."""
        return self._lengths[: self.count]

    def feeds(self) -> dict[str, Any]:
        """Give the inputs of the graph: values on the device, or views wherever the slots are the first axis."""
        feeds: dict[str, Any] = {}
        for each in self._present:
            live = self._arrays[each.name][: self.count]
            if self._device is not None and each.slot_axis == 0 and (not each.output or GROWN in each.axes):
                feeds[each.name] = self._device.feed(each.name, live)
            else:
                feeds[each.name] = np.moveaxis(live, 0, each.slot_axis)
        return feeds

    def add(self, arrays: Mapping[str, Array], lengths: Sequence[int], needed: Mapping[str, int]) -> None:
        """Add slots behind the others.

        Args:
            arrays: [new slot, …], padded to any sizes; a missing one begins as `fill`.
            needed: the sizes that all live slots need, the new ones included.
        """
        first, self.count = self.count, self.count + len(lengths)
        self._make(arrays)
        try:
            self.fit(needed)
        except Exception:
            self.count = first
            raise
        self._lengths[first : self.count] = lengths
        self._forget()
        for each in self._present:
            own = self._arrays[each.name][first : self.count]
            own[:] = each.fill
            if each.name in arrays:
                new = np.moveaxis(arrays[each.name], each.slot_axis, 0)
                inside = tuple(slice(min(sizes)) for sizes in zip(new.shape, own.shape, strict=True))
                own[inside] = new[inside]

    def write(self, outputs: Mapping[str, Array]) -> None:
        """Take over the outputs of a step.

        Raises:
            InferenceError: a cache did not get one entry.
        """
        for each in self._present:
            if not each.output:
                continue
            array = self._arrays[each.name]
            new = np.moveaxis(outputs[each.output], each.slot_axis, 0)
            if GROWN in each.axes:
                axis = 1 + each.axes.index(GROWN)
                if new.shape[axis] != 1:
                    raise InferenceError("the model's state did not grow by one")
                places = np.moveaxis(array, axis, 1)
                places[np.arange(self.count), self.lengths] = np.moveaxis(new, axis, 1)[:, 0]
                if self._device is not None:
                    self._device.write(each.name, self._newest(array.shape[1:axis]), np.squeeze(new, axis))
            else:
                array[: self.count] = new
        self.lengths[:] += 1

    def rearrange(self, copies: Sequence[tuple[int, int]], count: int) -> None:
        """Copy slots, (from, to) each, all at once; then so many are live."""
        sources, targets = (list(each) for each in zip(*copies, strict=True)) if copies else ([], [])
        if self._device is not None:
            slots = np.arange(count)
            slots[targets] = sources
            self._device.rearrange(slots)
        self.count = count
        self._make_room()
        if not copies:
            return
        self._lengths[targets] = self._lengths[sources]
        for array in self._arrays.values():
            array[targets] = array[sources]

    def fit(self, needed: Mapping[str, int]) -> None:
        """Let every axis that varies have the sizes needed: grow it at once, shrink it where half of it is spare."""
        if not self.count:
            self._present, self._arrays, self._lengths, self.sizes = [], {}, self._lengths[:0], {}
            self._forget()
            return
        for name, size in needed.items():
            wanted = -(-size // BLOCK) * BLOCK if name == GROWN else size
            now = self.sizes.get(name, 0)
            if wanted > now or 2 * wanted <= now:
                self.sizes[name] = wanted
                self._forget()
        self._make_room()

    def _forget(self) -> None:
        if self._device is not None:
            self._device.clear()

    def _newest(self, before: tuple[int, ...]) -> Array:
        """Give where each slot's next entry is, INT64 [slot, …, axis]. before: the sizes between slots and entries."""
        places = np.indices((self.count, *before))
        lengths = self.lengths.reshape(-1, *(1 for _ in before))
        return np.stack([*places, np.broadcast_to(lengths, places.shape[1:])], axis=-1)

    def _make(self, arrays: Mapping[str, Array]) -> None:
        """Begin arrays that are missing, without a slot."""
        for each in self._inputs:
            if each.name in self._arrays or not (each.name in arrays or each.dtype):
                continue
            dtype = each.dtype or arrays[each.name].dtype
            self._present.append(each)
            self._arrays[each.name] = np.zeros((0, *(0 for _ in each.axes)), dtype)

    def _make_room(self) -> None:
        room = len(self._lengths)
        if self.count > room:
            room = max(self.count, 2 * room)
            self._lengths = np.concatenate([self._lengths, np.zeros(room - len(self._lengths), np.int64)])
        for each in self._present:
            shape = (room, *(axis if isinstance(axis, int) else self.sizes[axis] for axis in each.axes))
            before = self._arrays[each.name]
            if before.shape != shape:
                resized = np.full(shape, each.fill, before.dtype)
                inside = tuple(slice(min(sizes)) for sizes in zip(shape, before.shape, strict=True))
                resized[inside] = before[inside]
                self._arrays[each.name] = resized


def cached_inputs(
    generation: bundle_pb2.Generation,
    declared: Mapping[str, Sequence[int | str | None]],
    tensors: Mapping[str, BoundTensor],
    constant: Iterable[str],
    driven: Collection[str],
) -> list[CachedInput]:
    """List the inputs that are cached for each slot: the states, and the constant inputs of the step graph.

    Args:
        declared: the shapes of the step graph's inputs; axes of one name there are one axis. Where a tensor's
            description names an axis, that name stands, so that a row knows its size.
        constant: outputs of the encoder that are inputs of every step.
        driven: inputs that are made anew for each step.
    """
    fills = {name: each.pad_value if name == each.name else 0.0 for each in tensors.values() for name in _names(each)}
    constants = dict.fromkeys([*constant, *(name for name in fills if name in declared and name not in driven)])
    known: dict[str, str] = {}
    for each in tensors.values():
        for name in _names(each):
            known |= _named(declared.get(name, ()), 0, [axis.name for axis in each.description.dimensions])
    for state in generation.states:
        if state.WhichOneof("initial") == "zeros":
            named = [axis.name for axis in state.zeros.dimensions]
            known |= _named(declared[state.input], state.batch_axis, named)
    cached = [CachedInput(name, _axes(name, declared[name], 0, known), fill=fills.get(name, 0.0)) for name in constants]
    for state in generation.states:
        axes = list(_axes(state.input, declared[state.input], state.batch_axis, known))
        if state.HasField("growing_axis"):
            axes[state.growing_axis - (state.growing_axis > state.batch_axis)] = GROWN
        zeros = DTYPES[state.zeros.data_type] if state.WhichOneof("initial") == "zeros" else None
        cached.append(CachedInput(state.input, tuple(axes), state.batch_axis, state.output, dtype=zeros))
    return cached


def check_states(
    generation: bundle_pb2.Generation,
    step: bundle_pb2.OnnxGraph,
    encoder: bundle_pb2.OnnxGraph | None,
    prefill: bundle_pb2.OnnxGraph | None,
) -> None:
    """Check the states of a generation.

    Raises:
        BundleError: a state refers to an input or output that the graphs lack, has no known type, or grows without an
            input of each row's length: rows of different lengths could not share a step.
    """
    encoded = set(encoder.outputs) if encoder else set()
    for each in generation.states:
        if each.input not in step.inputs or each.output not in step.outputs:
            raise BundleError(f"the state {each.input!r} is no input and output of the graph {step.name}")
        kind = each.WhichOneof("initial")
        if kind == "encoder_output" and each.encoder_output not in encoded:
            raise BundleError(
                f"the state {each.input!r} begins as {each.encoder_output!r}, which no graph has as an output"
            )
        if kind is None or (kind == "zeros" and each.zeros.data_type not in DTYPES):
            raise BundleError(f"the state {each.input!r} does not say how it begins")
        if each.HasField("growing_axis") and not (generation.lengths_input and kind == "zeros"):
            raise BundleError(f"the state {each.input!r} grows: it begins as zeros, and generation has a lengths_input")
        if prefill and not (each.HasField("growing_axis") and each.output in prefill.outputs):
            raise BundleError(f"the state {each.input!r} does not grow, or {prefill.name} does not begin it")
    if prefill and set(prefill.inputs) - {generation.token_input, generation.positions_input}:
        raise BundleError(f"the graph {prefill.name} takes more than tokens and their places")
    if bool(prefill) != bool(generation.prompt_tensor):
        raise BundleError("generation has a prefill graph, or a prompt, but not both")
    for name in filter(None, (generation.positions_input, generation.lengths_input)):
        if name not in step.inputs:
            raise BundleError(f"the graph {step.name} does not take {name!r}, which generation states")


def _names(tensor: BoundTensor) -> tuple[str, ...]:
    return (tensor.name, tensor.mask) if tensor.mask else (tensor.name,)


def _named(declared: Sequence[int | str | None], slot_axis: int, names: Sequence[str]) -> dict[str, str]:
    """Match the names that a graph has for axes with those of a description."""
    behind = [axis for place, axis in enumerate(declared) if place != slot_axis]
    return {axis: name for axis, name in zip(behind, names, strict=False) if isinstance(axis, str) and name}


def _axes(
    name: str, declared: Sequence[int | str | None], slot_axis: int, known: Mapping[str, str]
) -> tuple[AxisSize, ...]:
    axes: list[AxisSize] = []
    for place, axis in enumerate(declared):
        if place != slot_axis:
            axes.append(axis if isinstance(axis, int) else known.get(axis or "", axis or f"{name}.{place}"))
    return tuple(axes)
