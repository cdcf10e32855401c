"""Arrays and small graphs on a device, beside models."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from limelight_bundle.values import Array
from limelight_service.engine.graphs import graph
from limelight_service.engine.runtime.providers import Provider, loaded


def put(array: Array, provider: Provider) -> Any:
    """Put an array on a provider's device."""
    assert provider.device is not None
    return loaded().OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), *provider.device)


def bind_outputs(binding: Any, outputs: Sequence[str], provider: Provider) -> None:
    """Keep outputs of a run on a provider's device, in memory that the runtime allocates."""
    assert provider.device is not None
    for name in outputs:
        binding.bind_output(name, *provider.device)


def run_graph(name: str, values: Mapping[str, Any], provider: Provider) -> Any:
    """Run a small graph of the engine on a device, on values that are there; its output stays there."""
    assert provider.device is not None
    session = _open(name, provider.name, tuple(provider.options.items()))
    binding = session.io_binding()
    for each, value in values.items():
        binding.bind_ortvalue_input(each, value)
    binding.bind_output("y", *provider.device)
    session.run_with_iobinding(binding)
    (found,) = binding.get_outputs()
    return found


@cache
def _open(name: str, provider: str, provider_options: tuple[tuple[str, str], ...]) -> Any:
    """Open a graph on a device, once for all models."""
    ort = loaded()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    return ort.InferenceSession(graph(name), options, providers=[(provider, dict(provider_options))])
