"""Allowed differences between a server's answers and PyTorch's, by execution provider."""

from collections.abc import Iterable

import numpy as np

from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array

# A map that attends to the wrong place differs by its row's largest weight, and a constant output from one of the
# answers by half of their range: no graph that may differ by more is checked by its samples. Exports state no more.
LARGEST_TOLERANCE = 0.5
# Outputs below this are scores of tokens that are never put out; those of models are far above.
_NEVER = -5e3


class Tolerances:
    """The tolerances of a bundle for one execution provider; the most specific one applies."""

    def __init__(self, tolerances: Iterable[bundle_pb2.Tolerance], provider: str) -> None:
        self._by_name: dict[str, bundle_pb2.Tolerance] = {}
        for each in sorted(tolerances, key=lambda each: each.provider == ""):
            if each.provider in ("", provider):
                self._by_name.setdefault(each.name, each)

    def difference(self, name: str, actual: Array, expected: Array, *, is_map: bool) -> str:
        """Describe the difference of `actual` and `expected`; empty if it is within the tolerance.

        Outputs: |a - b| <= absolute max(1, m) + relative |b|, where m is the largest magnitude of the row (the last
        axis): a number near 0 has the rounding of those that it was computed beside. Maps: absolute + relative m.
        """
        if actual.shape != expected.shape:
            return f"{name} has shape {list(actual.shape)}, not {list(expected.shape)}"
        if actual.size == 0:
            return ""
        if not np.issubdtype(expected.dtype, np.floating):
            return "" if np.array_equal(actual, expected) else f"{name} differs"
        tolerance = self._tolerance(name)
        allowed = (
            _allowed_in_map(tolerance, expected)
            if is_map
            else tolerance.absolute * output_scale(expected) + tolerance.relative * np.abs(expected)
        )
        if np.isfinite(actual).all() and (np.abs(actual - expected) <= allowed).all():
            return ""
        return f"{name} differs by up to {float(np.abs(actual - expected).max()):.3g}"

    def rounded(self, name: str, weights: Array) -> Array:
        """Round a map, float32 [..., key], by at most a quarter of what it may differ by: it takes fewer bytes then.

        Impossible positions (the lowest score) stay what they are.
        """
        allowed = _allowed_in_map(self._tolerance(name), weights) if weights.size else weights
        _, exponent = np.frexp(allowed / 2)
        step = np.ldexp(1.0, exponent - 1)  # a power of two, such that fractions end in zeros
        keep = (weights == np.finfo(weights.dtype).min) | (allowed == 0)
        result: Array = np.where(keep, weights, np.round(weights / step) * step).astype(weights.dtype)
        return result

    def _tolerance(self, name: str) -> bundle_pb2.Tolerance:
        return self._by_name.get(name, self._by_name.get("", bundle_pb2.Tolerance()))


def _allowed_in_map(tolerance: bundle_pb2.Tolerance, expected: Array) -> Array:
    allowed: Array = tolerance.absolute + tolerance.relative * row_magnitude(expected)
    return allowed


def row_magnitude(expected: Array) -> Array:
    """Return the largest magnitude of each row, [..., 1], without impossible positions (the lowest score)."""
    return _largest(expected, expected > np.finfo(expected.dtype).min)


def output_scale(expected: Array) -> Array:
    """Return the factor of the absolute tolerance of each row of an output, [..., 1]: its largest magnitude or 1.

    Scores of tokens that are never put out do not count.
    """
    scale: Array = np.maximum(1, _largest(expected, expected > _NEVER))
    return scale


def _largest(array: Array, counted: Array) -> Array:
    magnitudes = np.where(counted, np.abs(array), 0)
    largest: Array = magnitudes.max(axis=-1, keepdims=True) if array.ndim else magnitudes
    return largest


def default_tolerances(maps: Iterable[str]) -> list[bundle_pb2.Tolerance]:
    """Return the project's tolerances, which are ten times as large on CUDA.

    Outputs 1e-5 + 1e-4 relative; weights 1e-5 + 1e-3 of the row's largest.
    """
    tolerances = []
    for provider, factor in (("", 1.0), ("CUDAExecutionProvider", 10.0)):
        tolerances.append(bundle_pb2.Tolerance(provider=provider, absolute=1e-5 * factor, relative=1e-4 * factor))
        tolerances += [
            bundle_pb2.Tolerance(provider=provider, name=name, absolute=1e-5 * factor, relative=1e-3 * factor)
            for name in maps
        ]
    return tolerances
