"""What slots keep, once more on the device where steps run.

The arrays of `Slots` are what counts. A step changes one entry of each cache, so that only this is brought to the
device, and written there; whole arrays are where rows came, or a size changed.
"""

from typing import Any

import numpy as np

from bundle.values import Array
from service.engine.device_graphs import gather, opened, scatter
from service.engine.providers import Provider, runtime


class Mirror:
    """Arrays on a device, [slot, …] each, by name."""

    def __init__(self, provider: Provider) -> None:
        assert provider.device is not None
        self._provider = provider
        self._place = provider.device
        self._values: dict[str, Any] = {}

    def feed(self, name: str, array: Array) -> Any:
        """Give the runtime's value of an array, brought to the device where it is not there yet."""
        if name not in self._values:
            self._values[name] = self._put(array)
        return self._values[name]

    def clear(self) -> None:
        """Let go of all: arrays are not what they were."""
        self._values.clear()

    def rearrange(self, slots: Array) -> None:
        """Let each array have these slots of what it had, INT64 [slot]."""
        indices = self._put(slots) if self._values else None
        for name, value in self._values.items():
            self._values[name] = self._run(gather(value.element_type()), {"x": value, "i": indices})

    def write(self, name: str, indices: Array, new: Array) -> None:
        """Write parts of an array, where it is there. indices: INT64 [part…, axis]; new: [part…, …]."""
        value = self._values.get(name)
        if value is not None:
            parts = {"x": value, "i": self._put(indices), "u": self._put(new)}
            self._values[name] = self._run(scatter(value.element_type()), parts)

    def _put(self, array: Array) -> Any:
        return runtime().OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), *self._place)

    def _run(self, graph: bytes, values: dict[str, Any]) -> Any:
        session = opened(graph, self._provider)
        binding = session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output("y", *self._place)
        session.run_with_iobinding(binding)
        (found,) = binding.get_outputs()
        return found
