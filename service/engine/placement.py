"""Where a run's inputs and outputs live: in arrays of NumPy, or in values of the runtime's own on its device.

On a device, outputs stay where they were computed until what is asked for of them is cut out there, so that only that
travels: a whole batch's map of 12 heads is 12 MB at 512 tokens, a row of each head 24 kB.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from bundle.values import Array
from service.engine.providers import Provider, runtime

# An ONNX model of IR version 8 and operator set 20, a Gather along each axis:
# take(float[a,b,c,d] x, int64[p] i, int64[q] j, int64[r] m, int64[s] k) => (float[p,q,r,s] y)
_INPUTS = (
    b"Z\x1f\n\x01x\x12\x1a\n\x18\x08\x01\x12\x14\n\x03\x12\x01a\n\x03\x12\x01b\n\x03\x12\x01c\n\x03\x12\x01d"
    b"Z\x10\n\x01i\x12\x0b\n\t\x08\x07\x12\x05\n\x03\x12\x01pZ\x10\n\x01j\x12\x0b\n\t\x08\x07\x12\x05\n\x03\x12\x01q"
    b"Z\x10\n\x01m\x12\x0b\n\t\x08\x07\x12\x05\n\x03\x12\x01rZ\x10\n\x01k\x12\x0b\n\t\x08\x07\x12\x05\n\x03\x12\x01s"
)
_GATHERS = (
    b'\n \n\x01x\n\x01i\x12\x01f"\x06Gather*\x0b\n\x04axis\x18\x00\xa0\x01\x02:\x00'
    b'\n \n\x01f\n\x01j\x12\x01g"\x06Gather*\x0b\n\x04axis\x18\x01\xa0\x01\x02:\x00'
    b'\n \n\x01g\n\x01m\x12\x01h"\x06Gather*\x0b\n\x04axis\x18\x02\xa0\x01\x02:\x00'
)
_SHAPE = b"\x12\x14\n\x03\x12\x01p\n\x03\x12\x01q\n\x03\x12\x01r\n\x03\x12\x01sB\x04\n\x00\x10\x14"
TAKE = (
    b"\x08\x08:\x98\x02" + _GATHERS + b'\n \n\x01h\n\x01k\x12\x01y"\x06Gather*\x0b\n\x04axis\x18\x03\xa0\x01\x02:\x00'
    b"\x12\x04take" + _INPUTS + b"b\x1f\n\x01y\x12\x1a\n\x18\x08\x01" + _SHAPE
)
# The same, and y in halves.
TAKE_HALF = (
    b"\x08\x08:\xb3\x02" + _GATHERS + b'\n \n\x01h\n\x01k\x12\x01w"\x06Gather*\x0b\n\x04axis\x18\x03\xa0\x01\x02:\x00'
    b'\n\x19\n\x01w\x12\x01y"\x04Cast*\t\n\x02to\x18\n\xa0\x01\x02:\x00\x12\x04take'
    + _INPUTS
    + b"b\x1f\n\x01y\x12\x1a\n\x18\x08\n"
    + _SHAPE
)


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

    def run(
        self,
        session: Any,
        outputs: Sequence[str],
        feeds: Mapping[str, Array],
        cuts: Mapping[str, Cut],
        options: Any,
        turn: AbstractContextManager[Any],
    ) -> list[Array]:
        """Run a session and bring outputs back, in this order.

        options: of the run. turn: held while it computes, and neither before nor after.
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
        feeds: Mapping[str, Array],
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

    def run(
        self,
        session: Any,
        outputs: Sequence[str],
        feeds: Mapping[str, Array],
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
        return self._values.ortvalue_from_numpy(np.ascontiguousarray(array), self._device, self._number)

    def like(self, value: Any) -> Any:
        """Make a value of the same shape and type on the device."""
        return self._values.ortvalue_from_shape_and_type(
            value.shape(), value.element_type(), self._device, self._number
        )

    def bind_outputs(self, binding: Any, outputs: Sequence[str]) -> None:
        """Have outputs stay on the device, in memory that the runtime finds."""
        for name in outputs:
            binding.bind_output(name, self._device, self._number)

    def _bind(self, binding: Any, name: str, array: Array) -> None:
        if array.ndim:
            binding.bind_ortvalue_input(name, self.put(array))
        else:  # a gate, which is read where control flow is: on the host
            binding.bind_cpu_input(name, np.ascontiguousarray(array).reshape(()))

    def cut(self, value: Any, cut: Cut) -> Array:
        """Cut an output of a run on the device, and bring that back."""
        session = _taker(self._provider.name, tuple(self._provider.options.items()), cut.half)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value)
        for name, indices in zip("ijmk", cut.indices, strict=True):
            self._bind(binding, name, np.asarray(indices, np.int64))
        binding.bind_output("y", self._device, self._number)
        session.run_with_iobinding(binding)
        (found,) = binding.get_outputs()
        array: Array = found.numpy()
        return array


@cache
def _taker(provider: str, provider_options: tuple[tuple[str, str], ...], half: bool) -> Any:
    """Open what cuts outputs on a device, once for all models."""
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    return ort.InferenceSession(TAKE_HALF if half else TAKE, options, providers=[(provider, dict(provider_options))])


def _cut(array: Array, cut: Cut) -> Array:
    found: Array = array[np.ix_(*cut.indices)]
    return found.astype(np.float16) if cut.half else found
