"""The logarithm of a mel spectrogram, as Whisper computes it (Radford et al. 2022, section 2.2)."""

import numpy as np
from numpy.typing import NDArray

from limelight_bundle.values import Array

_LOWEST_POWER = 1e-10
_RANGE = 8.0  # powers of ten between the largest value and the smallest
# Slaney's mel scale (Auditory Toolbox, 1998): linear up to 1000 Hz, and logarithmic above.
_HZ_A_MEL = 200 / 3
_BREAK_HZ = 1000.0
_BREAK_MEL = _BREAK_HZ / _HZ_A_MEL
_LOG_STEP = np.log(6.4) / 27


def mel_filters(*, sample_rate: int, window: int, mels: int, highest: float) -> NDArray[np.float64]:
    """Make triangular filters of equal area, [mel, frequency], evenly spaced in mel from 0 to `highest` Hz.

    The frequencies are those of the Fourier transform of `window` samples: window / 2 + 1.
    """
    edges = _hz(np.linspace(0, _mel(highest), mels + 2))
    areas = 2 / (edges[2:] - edges[:-2])
    return triangles(edges, np.linspace(0, sample_rate / 2, window // 2 + 1)) * areas[:, None]


def triangles(edges: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make triangles that rise from each edge to 1 at the next one and fall to the one behind: [edge - 2, place]."""
    widths = np.diff(edges)[:, None]
    slopes = edges[:, None] - places
    rising, falling = -slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]
    return np.maximum(0, np.minimum(rising, falling))


def log_mel(samples: Array, filters: NDArray[np.float64], *, window: int, hop: int, frames: int) -> Array:
    """Compute the logarithm of a mel spectrogram.

    Args:
        samples: [frames · hop] from -1 to 1, of which at least window / 2 + 1.
        filters: of `mel_filters`.
    Returns: float32 [mel, frame].
    """
    mirrored = np.pad(samples.astype(np.float64), window // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(mirrored, window)[: frames * hop : hop]
    shape = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)  # a periodic Hann window
    powers = np.abs(np.fft.rfft(windows * shape)) ** 2
    logarithms = np.log10(np.maximum(filters @ powers.T, _LOWEST_POWER))
    logarithms = np.maximum(logarithms, logarithms.max() - _RANGE)
    return np.ascontiguousarray((logarithms + 4) / 4, dtype=np.float32)


def _mel(hertz: float) -> float:
    if hertz < _BREAK_HZ:
        return hertz / _HZ_A_MEL
    return float(_BREAK_MEL + np.log(hertz / _BREAK_HZ) / _LOG_STEP)


def _hz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _BREAK_HZ * np.exp(_LOG_STEP * (mels - _BREAK_MEL))
    return np.where(mels < _BREAK_MEL, mels * _HZ_A_MEL, above)
