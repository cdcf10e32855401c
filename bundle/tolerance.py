"""Allowed differences between a server's answers and PyTorch's, by execution provider."""

from collections.abc import Iterable, Mapping

import numpy as np

from bundle.v1 import bundle_pb2
from bundle.values import Array


class Tolerances:
    """The tolerances of a bundle for one execution provider; the most specific one applies."""

    def __init__(self, tolerances: Iterable[bundle_pb2.Tolerance], provider: str) -> None:
        self._tolerances = [each for each in tolerances if each.provider in ("", provider)]
        self._tolerances.sort(key=lambda each: (each.name != "", each.provider != ""), reverse=True)

    def difference(self, name: str, actual: Array, expected: Array, *, is_map: bool) -> str:
        """Describe the difference of `actual` and `expected`; empty if it is within the tolerance.

        Outputs: |a - b| <= absolute + relative |b|. Maps: the relative part refers to the row's largest weight.
        """
        if actual.shape != expected.shape:
            return f"{name} has shape {list(actual.shape)}, not {list(expected.shape)}"
        if actual.size == 0:
            return ""
        if not np.issubdtype(expected.dtype, np.floating):
            return "" if np.array_equal(actual, expected) else f"{name} differs"
        excess = np.abs(actual - expected) - self._allowed(
            name, row_magnitude(expected) if is_map else np.abs(expected)
        )
        if np.isfinite(actual).all() and (excess <= 0).all():
            return ""
        return f"{name} differs by up to {float(np.abs(actual - expected).max()):.3g}"

    def rounded(self, name: str, weights: Array) -> Array:
        """Round a map, float32 [..., key], by at most an eighth of what it may differ by: it takes fewer bytes then.

        Impossible positions (the lowest score) stay what they are.
        """
        allowed = self._allowed(name, row_magnitude(weights)) if weights.size else weights
        _, exponent = np.frexp(allowed / 4)
        step = np.ldexp(1.0, exponent - 1)  # a power of two, such that fractions end in zeros
        keep = (weights == np.finfo(weights.dtype).min) | (allowed == 0)
        result: Array = np.where(keep, weights, np.round(weights / step) * step).astype(weights.dtype)
        return result

    def _allowed(self, name: str, magnitude: Array) -> Array:
        tolerance = next((each for each in self._tolerances if each.name in ("", name)), bundle_pb2.Tolerance())
        allowed: Array = tolerance.absolute + tolerance.relative * magnitude
        return allowed


def row_magnitude(expected: Array) -> Array:
    """Return the largest magnitude of each row, without impossible positions (the lowest score)."""
    possible = expected > np.finfo(expected.dtype).min
    magnitude: Array = np.where(possible, np.abs(expected), 0).max(axis=-1, keepdims=True)
    return magnitude


def default_tolerances(maps: Iterable[str], scales: Mapping[str, float] | None = None) -> list[bundle_pb2.Tolerance]:
    """Return the project's tolerances, which are ten times as large on CUDA.

    Outputs 1e-5 + 1e-4 relative; weights 1e-5 + 1e-3 of the row's largest.

    Args:
        scales: usual largest values of outputs, where above 1: their absolute tolerance is 1e-5 of that, since a number
            near 0 beside large ones has their rounding.
    """
    tolerances = []
    for provider, factor in (("", 1.0), ("CUDAExecutionProvider", 10.0)):
        tolerances.append(bundle_pb2.Tolerance(provider=provider, absolute=1e-5 * factor, relative=1e-4 * factor))
        tolerances += [
            bundle_pb2.Tolerance(provider=provider, name=name, absolute=1e-5 * factor, relative=1e-3 * factor)
            for name in maps
        ]
        tolerances += [
            bundle_pb2.Tolerance(provider=provider, name=name, absolute=1e-5 * factor * scale, relative=1e-4 * factor)
            for name, scale in (scales or {}).items()
            if scale > 1
        ]
    return tolerances
