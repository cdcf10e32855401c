"""A copy of a KV cache on the device where decode steps run.

The arrays of `KVCache` are the original. A step changes one entry of each cache, so that only this is brought to the
device, and written there; whole arrays are brought where rows joined, or a size changed.
"""

from typing import Any

from limelight_bundle.values import Array
from limelight_service.engine.runtime.device_graphs import put, run_graph
from limelight_service.engine.runtime.providers import Provider


class DeviceCache:
    """Arrays on a device, [slot, …] each, by name."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._values: dict[str, Any] = {}

    def feed(self, name: str, array: Array) -> Any:
        """Give the runtime's value of an array, brought to the device where it is not there yet."""
        if name not in self._values:
            self._values[name] = put(array, self._provider)
        return self._values[name]

    def clear(self) -> None:
        """Drop all values: the arrays have changed."""
        self._values.clear()

    def rearrange(self, slots: Array) -> None:
        """Let each array have these slots of what it had, INT64 [slot]."""
        indices = put(slots, self._provider) if self._values else None
        for name, value in self._values.items():
            self._values[name] = run_graph(f"gather-{_type(value)}", {"x": value, "i": indices}, self._provider)

    def write(self, name: str, indices: Array, new: Array) -> None:
        """Write parts of an array, where it is there. indices: INT64 [part…, axis]; new: [part…, …]."""
        value = self._values.get(name)
        if value is not None:
            parts = {"x": value, "i": put(indices, self._provider), "u": put(new, self._provider)}
            self._values[name] = run_graph(f"scatter-{_type(value)}", parts, self._provider)


def _type(value: Any) -> str:
    """Give the element type of a value of the runtime: `float` of `tensor(float)`."""
    found: str = value.data_type()
    return found.removeprefix("tensor(").removesuffix(")")
