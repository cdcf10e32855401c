"""Score functions, transcribed from the papers: one query vector, one key vector at a time."""

import math
from collections.abc import Callable

import numpy as np

Array = np.ndarray


def normalised_additive(q: Array, k: Array, w1: Array, w2: Array, b: Array, w: Array, g: float) -> float:
    """Raffel et al. 2017, §2.4: g v/‖v‖ · tanh(W s + V h + b)."""
    return g * additive(q, k, w1, w2, b, w) / math.sqrt(sum(w**2))


def additive(q: Array, k: Array, w1: Array, w2: Array, b: Array, w: Array) -> float:
    """Bahdanau et al. 2015: wᵀ tanh(W₁ q + W₂ k + b)."""
    total = 0.0
    for unit in range(len(w)):
        inner = b[unit]
        for n in range(len(q)):
            inner += w1[unit, n] * q[n]
        for n in range(len(k)):
            inner += w2[unit, n] * k[n]
        total += w[unit] * math.tanh(inner)
    return total


def concat(q: Array, k: Array, big_w: Array, b: Array, w: Array) -> float:
    """Luong et al. 2015: wᵀ tanh(W [q; k] + b)."""
    joint = np.concatenate([q, k])
    return float(w @ np.tanh(big_w @ joint + b))


def dot(q: Array, k: Array) -> float:
    """qᵀ k."""
    return float(sum(q[n] * k[n] for n in range(len(q))))


def scaled_dot(q: Array, k: Array) -> float:
    """Vaswani et al. 2017: qᵀ k / √d_k."""
    return dot(q, k) / math.sqrt(len(k))


def general(q: Array, k: Array, w: Array) -> float:
    """kᵀ W q."""
    return float(sum(k[m] * w[m, n] * q[n] for m in range(len(k)) for n in range(len(q))))


def biased_general(q: Array, k: Array, w: Array, b: Array) -> float:
    """kᵀ (W q + b)."""
    return general(q, k, w) + dot(k, b)


def activated_general(q: Array, k: Array, w: Array, b: float) -> float:
    """tanh(kᵀ W q + b)."""
    return math.tanh(general(q, k, w) + b)


def cosine(q: Array, k: Array, beta: float) -> float:
    """β qᵀk / (‖q‖ ‖k‖)."""
    return beta * dot(q, k) / math.sqrt(dot(q, q) * dot(k, k))


def negative_euclidean(q: Array, k: Array) -> float:
    """-‖q - k‖₂."""
    return -math.sqrt(sum((q[n] - k[n]) ** 2 for n in range(len(q))))


def gaussian_kernel(q: Array, k: Array, h: float) -> float:
    """exp(-‖q - k‖² / 2h²)."""
    return math.exp(-sum((q[n] - k[n]) ** 2 for n in range(len(q))) / (2 * h * h))


def deep(q: Array, k: Array, w0: Array, w1: Array, b1: Array, hidden: list[tuple[Array, Array]], w: Array, c: float):
    """Pavlopoulos et al. 2017 as in survey G, Table 3."""
    layer = np.tanh(w1 @ k + w0 @ q + b1)
    for matrix, bias in hidden:
        layer = np.tanh(matrix @ layer + bias)
    return float(w @ layer + c)


def location_based(q: Array, position: int, w: Array, b: Array) -> float:
    """(W q + b) at the key's position."""
    return dot(w[position], q) + b[position]


def feature_based(keys: Array, valid: Array, at: int, radius: int, w1: Array, w2: Array, b: Array, w: Array) -> float:
    """wᵀ tanh(W₁ mean + W₂ deviation + b) over the valid keys within `radius` of the one at `at`."""
    group = [keys[j] for j in range(len(keys)) if abs(j - at) <= radius and valid[j]]
    if not group:
        return 0.0
    mean = sum(group) / len(group)
    deviation = np.sqrt(sum((g - mean) ** 2 for g in group) / len(group))
    return float(w @ np.tanh(w1 @ mean + w2 @ deviation + b))


def kernel(q: Array, k: Array, phi: Callable[[float], float]) -> float:
    """φ(q)ᵀ φ(k), φ element by element."""
    return sum(phi(float(q[n])) * phi(float(k[n])) for n in range(len(q)))


def elu_plus_one(x: float) -> float:
    """x + 1 where x > 0, exp(x) elsewhere."""
    return x + 1 if x > 0 else math.exp(x)


def self_attentive(k: Array, w: Array, b: Array, importance: Array) -> float:
    """Yang et al. 2016: wᵀ tanh(W k + b)."""
    return float(importance @ np.tanh(w @ k + b))


def multi_dimensional(q: Array, k: Array, w1: Array, w2: Array, b: Array, wd: Array) -> Array:
    """Survey BF eq. 31: W_dᵀ tanh(W₁ q + W₂ k + b), a score per feature."""
    return np.array([additive(q, k, w1, w2, b, wd[feature]) for feature in range(len(wd))])


def location_aware(
    q: Array, k: Array, previous: Array, at: int, w1: Array, w2: Array, u: Array, filters: Array, b: Array, w: Array
) -> float:
    """Chorowski et al. 2015: wᵀ tanh(W q + V k + U f + b), f = F * a (cross-correlation, zeros outside)."""
    width = filters.shape[1]
    f = np.zeros(len(filters))
    for n in range(len(filters)):
        for offset in range(width):
            j = at + offset - width // 2
            if 0 <= j < len(previous):
                f[n] += filters[n, offset] * previous[j]
    return float(w @ np.tanh(w1 @ q + w2 @ k + u @ f + b))


def relation_aware(q: Array, k: Array, distance: int, table: Array, reach: int) -> float:
    """Shaw et al. 2018: qᵀ (k + r_clip(distance)) / √d."""
    clipped = max(-reach, min(reach, distance))
    return dot(q, k + table[clipped + reach]) / math.sqrt(len(q))


def coverage_aware(q: Array, k: Array, coverage: float, w1: Array, w2: Array, v: Array, b: Array, w: Array) -> float:
    """Tu et al. 2016: wᵀ tanh(W q + U k + v C + b)."""
    return float(w @ np.tanh(w1 @ q + w2 @ k + v * coverage + b))


def random_features(q: Array, k: Array, directions: Array) -> float:
    """Peng et al. 2021: (1/m) Σ_i cos(w_i · (q̂ - k̂)), which is φ(q)ᵀ φ(k)."""
    difference = q / np.linalg.norm(q) - k / np.linalg.norm(k)
    return float(np.mean([math.cos(w @ difference) for w in directions]))


def positive_random_features(q: Array, k: Array, directions: Array) -> float:
    """Choromanski et al. 2021: (1/m) Σ_i exp(w_i·(q̃ + k̃) - (‖q̃‖² + ‖k̃‖²) / 2), x̃ = x / d^¼."""
    q, k = q / len(q) ** 0.25, k / len(k) ** 0.25
    return float(np.mean([math.exp(w @ (q + k) - (q @ q + k @ k) / 2) for w in directions]))
