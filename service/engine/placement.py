"""Where a run's inputs and outputs live: in arrays of NumPy, or in values of the runtime's own on its device.

On a device, outputs stay where they were computed until what is asked for of them is cut out there, so that only that
travels: a whole batch's map of 12 heads is 12 MB at 512 tokens, a row of each head 24 kB.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bundle.values import Array
from service.engine.device_graphs import put, run_graph
from service.engine.mirror import Mirror
from service.engine.providers import Provider, runtime

# What goes in: an array of NumPy, or a value of the runtime that is on the device already.
Fed = Array | Any


@dataclass(frozen=True)
class Cut:
    """What is brought back of an output FLOAT [batch, head, query, key]: indices along each axis, INT64, ascending.

    half: as FLOAT16.
    """

    places: Array
    heads: Array
    queries: Array
    keys: Array
    half: bool = False

    @property
    def indices(self) -> tuple[Array, Array, Array, Array]:
        """Of the four axes, in order."""
        return self.places, self.heads, self.queries, self.keys


class Placement(Protocol):
    """Runs sessions of one graph. Thread-safe."""

    @property
    def cuts(self) -> bool:
        """True where cutting outputs before they are brought back is worth it."""

    def mirror(self) -> Mirror | None:
        """Make a mirror of what is fed again and again; None where it would be no nearer."""

    def run(
        self,
        session: Any,
        outputs: Sequence[str],
        feeds: Mapping[str, Fed],
        cuts: Mapping[str, Cut],
        options: Any,
        turn: AbstractContextManager[Any],
    ) -> list[Array]:
        """Run a session and bring outputs back, in this order.

        feeds: arrays, or values of a mirror. options: of the run. turn: held while it computes, and neither before nor
        after.
        """


def placement_of(provider: Provider) -> Placement:
    """Place the runs of a provider's sessions."""
    return HostArrays() if provider.device is None else DeviceValues(provider)


class HostArrays:
    """Arrays in, arrays out."""

    cuts = False

    def mirror(self) -> None:
        """There is none: arrays are where they are used."""

    def run(
        self,
        session: Any,
        outputs: Sequence[str],
        feeds: Mapping[str, Fed],
        cuts: Mapping[str, Cut],
        options: Any,
        turn: AbstractContextManager[Any],
    ) -> list[Array]:
        with turn:
            found = session.run(outputs, feeds, options)
        return [_cut(array, cuts[name]) if name in cuts else array for name, array in zip(outputs, found, strict=True)]


class DeviceValues:
    """Inputs are put on the device before a run; its outputs stay there until they are cut."""

    cuts = True

    def __init__(self, provider: Provider) -> None:
        assert provider.device is not None
        self._provider = provider
        self._device, self._number = provider.device
        self._values = runtime().OrtValue

    def mirror(self) -> Mirror:
        """Make a mirror on the device."""
        return Mirror(self._provider)

    def run(
        self,
        session: Any,
        outputs: Sequence[str],
        feeds: Mapping[str, Fed],
        cuts: Mapping[str, Cut],
        options: Any,
        turn: AbstractContextManager[Any],
    ) -> list[Array]:
        binding = session.io_binding()
        for name, array in feeds.items():
            self._bind(binding, name, array)
        self.bind_outputs(binding, outputs)
        with turn:
            session.run_with_iobinding(binding, options)
        values = zip(outputs, binding.get_outputs(), strict=True)
        return [self.cut(value, cuts[name]) if name in cuts else value.numpy() for name, value in values]

    def put(self, array: Array) -> Any:
        """Put an array on the device."""
        return put(array, self._provider)

    def like(self, value: Any) -> Any:
        """Make a value of the same shape and type on the device."""
        return self._values.ortvalue_from_shape_and_type(
            value.shape(), value.element_type(), self._device, self._number
        )

    def bind_outputs(self, binding: Any, outputs: Sequence[str]) -> None:
        """Have outputs stay on the device, in memory that the runtime finds."""
        for name in outputs:
            binding.bind_output(name, self._device, self._number)

    def _bind(self, binding: Any, name: str, array: Fed) -> None:
        if not isinstance(array, np.ndarray):
            binding.bind_ortvalue_input(name, array)
        elif array.ndim:
            binding.bind_ortvalue_input(name, self.put(array))
        else:  # a gate, which is read where control flow is: on the host
            binding.bind_cpu_input(name, np.ascontiguousarray(array).reshape(()))

    def cut(self, value: Any, cut: Cut) -> Array:
        """Cut an output of a run on the device, and bring that back."""
        indices = {name: self.put(np.asarray(each, np.int64)) for name, each in zip("ijmk", cut.indices, strict=True)}
        array: Array = run_graph("take-half" if cut.half else "take", {"x": value, **indices}, self._provider).numpy()
        return array


def _cut(array: Array, cut: Cut) -> Array:
    found: Array = array[np.ix_(*cut.indices)]
    return found.astype(np.float16) if cut.half else found
