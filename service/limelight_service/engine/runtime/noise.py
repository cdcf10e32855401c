"""Randomness that belongs to a row: the same seed draws the same in any place of any batch, on any worker."""

from typing import Any

import numpy as np

from limelight_bundle.errors import BundleError
from limelight_bundle.rows import BoundTensor, Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES

_LARGEST = 2**64 - 1
# The first noise input is stream 1, the second 2 …
_TOKENS = 0


def generator(seed: int, *, stream: int = _TOKENS, step: int = 0) -> np.random.Generator:
    """Make the generator of one row (Philox, counter-based: it needs no state between steps).

    seed: of the row, 0 to 2**64 - 1; stream: what is drawn (0: tokens); step: of a generation.
    """
    key = np.array([seed & _LARGEST, 0], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, step, stream], dtype=np.uint64)))


class Noise:
    """The noise inputs of one graph.

    Raises: BundleError for a distribution that is not known, or a type that is not floating.
    """

    def __init__(self, inputs: list[tuple[int, bundle_pb2.NoiseInput]]) -> None:
        for _, each in inputs:
            dtype = DTYPES.get(each.tensor.data_type)
            if each.distribution not in _DRAW or dtype is None or dtype.kind != "f":
                raise BundleError(f"the noise input {each.tensor.name!r} has no known distribution or type")
        self._inputs = inputs
        self._tensors = [BoundTensor(each.tensor) for _, each in inputs]

    @classmethod
    def of_graph(cls, bundle: bundle_pb2.Bundle, graph: bundle_pb2.OnnxGraph) -> "Noise":
        """Take those that the graph has among its inputs."""
        return cls([(number, each) for number, each in enumerate(bundle.noise, 1) if each.tensor.name in graph.inputs])

    @property
    def tensors(self) -> list[BoundTensor]:
        """Describe the inputs, in the bundle's order."""
        return self._tensors

    def dtype(self, tensor: BoundTensor) -> np.dtype[Any]:
        """Give the type of an input."""
        return DTYPES[tensor.description.data_type]

    def draw(self, row: Row, seed: int | None, *, step: int = 0) -> dict[str, Array]:
        """Draw every input for a row, of the row's own sizes; without a seed, the neutral value."""
        drawn: dict[str, Array] = {}
        for number, each in self._inputs:
            shape = tuple(dimension.size or row.sizes[dimension.name] for dimension in each.tensor.dimensions)
            dtype = DTYPES[each.tensor.data_type]
            if seed is None:
                drawn[each.tensor.name] = np.full(shape, _NEUTRAL[each.distribution], dtype)
            else:
                random = generator(seed, stream=number, step=step)
                drawn[each.tensor.name] = _DRAW[each.distribution](random, shape).astype(dtype)
                if each.distribution == bundle_pb2.DISTRIBUTION_UNIFORM:  # a narrower type rounds up to 1
                    np.minimum(drawn[each.tensor.name], 1 - np.finfo(dtype).epsneg, out=drawn[each.tensor.name])
        return drawn


_NEUTRAL = {
    bundle_pb2.DISTRIBUTION_GUMBEL: 0.0,
    bundle_pb2.DISTRIBUTION_UNIFORM: 0.5,
    bundle_pb2.DISTRIBUTION_NORMAL: 0.0,
}
_DRAW = {
    bundle_pb2.DISTRIBUTION_GUMBEL: lambda random, shape: random.gumbel(size=shape),
    bundle_pb2.DISTRIBUTION_UNIFORM: lambda random, shape: random.random(shape),
    bundle_pb2.DISTRIBUTION_NORMAL: lambda random, shape: random.standard_normal(shape),
}
