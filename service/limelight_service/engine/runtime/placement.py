"""Placement of a run's inputs and outputs: NumPy arrays, or the runtime's own values on its device.

On a device, outputs stay where they were computed until their requested parts are cut out there, so that only those
travel: a whole batch's map of 12 heads is 12 MB at 512 tokens, a row of each head 24 kB.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from limelight_bundle.values import Array
from limelight_service.engine.runtime.device_graphs import bind_outputs, put, run_graph
from limelight_service.engine.runtime.providers import Provider, loaded

# An input: an array of NumPy, or a value of the runtime that is on the device already.
Fed = Array | Any


@dataclass(frozen=True)
class Cut:
    """The part of an output FLOAT [batch, head, query, key] that is brought back: indices INT64, ascending.

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

        Args:
            feeds: arrays, or values on the device.
            options: of the run.
            turn: held while the session computes, and neither before nor after.
        """


def placement_of(provider: Provider) -> Placement:
    """Place the runs of a provider's sessions."""
    return HostArrays() if provider.device is None else DeviceValues(provider)


class HostArrays:
    """Arrays in, arrays out."""

    cuts = False

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
        bind_outputs(binding, outputs, self._provider)
        with turn:
            session.run_with_iobinding(binding, options)
        values = zip(outputs, binding.get_outputs(), strict=True)
        return [
            cut_value(value, cuts[name], self._provider) if name in cuts else value.numpy() for name, value in values
        ]

    def _bind(self, binding: Any, name: str, array: Fed) -> None:
        if not isinstance(array, np.ndarray):
            binding.bind_ortvalue_input(name, array)
        elif array.ndim:
            binding.bind_ortvalue_input(name, put(array, self._provider))
        else:  # a gate, which is read where control flow is: on the host
            gate = np.ascontiguousarray(array).reshape(())
            binding.bind_ortvalue_input(name, loaded().OrtValue.ortvalue_from_numpy(gate))


def cut_value(value: Any, cut: Cut, provider: Provider) -> Array:
    """Cut a value on a provider's device, and bring the part back."""
    axes = zip("ijmk", cut.indices, strict=True)
    indices = {name: put(np.asarray(each, np.int64), provider) for name, each in axes}
    array: Array = run_graph("take-half" if cut.half else "take", {"x": value, **indices}, provider).numpy()
    return array


def _cut(array: Array, cut: Cut) -> Array:
    found: Array = array[np.ix_(*cut.indices)]
    return found.astype(np.float16) if cut.half else found
