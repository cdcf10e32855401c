"""The logarithm of a filter bank, as Kaldi's `compute-fbank-feats` computes it with Hann windows, undithered."""

import numpy as np
from numpy.typing import NDArray

from limelight_bundle.preprocess.log_mel import triangles
from limelight_bundle.values import Array

_LOWEST_POWER = 2.0**-23
_PREEMPHASIS = 0.97


def fbank_filters(*, sample_rate: int, points: int, mels: int, lowest: float) -> NDArray[np.float64]:
    """Make triangular filters, [mel, frequency], evenly spaced in mel from `lowest` Hz to half the sample rate.

    The frequencies are those of the Fourier transform of `points` samples: points / 2 + 1.
    """
    edges = np.linspace(_mel(np.float64(lowest)), _mel(np.float64(sample_rate / 2)), mels + 2)
    return triangles(edges, _mel(np.linspace(0, sample_rate / 2, points // 2 + 1)))


def fbank(samples: Array, filters: NDArray[np.float64], *, window: int, hop: int) -> NDArray[np.float64]:
    """Compute the logarithm of a filter bank: [mel, frame], a frame for each whole window.

    Args:
        samples: [sample] from -1 to 1.
        filters: of `fbank_filters`.
    """
    if len(samples) < window:
        return np.zeros((len(filters), 0))
    windows = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), window)[::hop]
    windows = windows - windows.mean(1, keepdims=True)
    before = np.concatenate([windows[:, :1], windows[:, :-1]], 1)
    shaped = (windows - _PREEMPHASIS * before) * np.hanning(window)
    powers = np.abs(np.fft.rfft(shaped, 2 * (filters.shape[1] - 1))) ** 2
    logarithms: NDArray[np.float64] = np.log(np.maximum(filters @ powers.T, _LOWEST_POWER))
    return logarithms


def _mel(hertz: "NDArray[np.float64] | np.float64") -> NDArray[np.float64]:
    return np.asarray(1127.0 * np.log(1.0 + hertz / 700.0))
