"""Alignments, transcribed from the papers: one row of scores e, and which keys it may attend to."""

import math

import numpy as np

Array = np.ndarray


def softmax(e: Array, allowed: Array) -> Array:
    """exp(e_l) / Σ exp(e_j) over the allowed keys; zeros where there are none."""
    a = np.zeros(len(e))
    if not allowed.any():
        return a
    top = max(e[j] for j in range(len(e)) if allowed[j])
    total = sum(math.exp(e[j] - top) for j in range(len(e)) if allowed[j])
    for j in range(len(e)):
        if allowed[j]:
            a[j] = math.exp(e[j] - top) / total
    return a


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def sigmoids(e: Array, allowed: Array) -> Array:
    """Each allowed key by itself."""
    return np.array([sigmoid(e[j]) if allowed[j] else 0.0 for j in range(len(e))])


def hard(e: Array, allowed: Array, noise: Array | None = None) -> Array:
    """One key: the best, or with uniform noise the best of e - log(-log u)."""
    a = np.zeros(len(e))
    best, best_score = None, -math.inf
    for j in range(len(e)):
        score = e[j] if noise is None else e[j] - math.log(-math.log(noise[j]))
        if allowed[j] and score > best_score:
            best, best_score = j, score
    if best is not None:
        a[best] = 1
    return a


def local_monotonic(e: Array, allowed: Array, p: int, radius: int) -> Array:
    """Softmax over keys p - D … p + D."""
    near = np.array([abs(j - p) <= radius for j in range(len(e))])
    return softmax(e, allowed & near)


def local_predictive(e: Array, allowed: Array, q: Array, hidden: Array, position: Array, radius: int) -> Array:
    """Luong et al. 2015, eq. 9-10."""
    p = allowed.sum() * sigmoid(float(position @ np.tanh(hidden @ q)))
    near = np.array([abs(j - p) <= radius for j in range(len(e))])
    a = softmax(e, allowed & near)
    sigma = radius / 2
    return np.array([a[j] * math.exp(-((j - p) ** 2) / (2 * sigma**2)) for j in range(len(e))])


def selector(keys: Array, valid: Array, at: int, w: Array, b: Array, odds: Array, offset: float) -> float:
    """Shen et al. 2018b: probability of keeping the token at `at`."""
    chosen = [keys[j] for j in range(len(keys)) if valid[j]]
    mean = sum(chosen) / len(chosen) if chosen else np.zeros(keys.shape[1])
    inner = w @ np.concatenate([keys[at], mean, keys[at] * mean]) + b
    return sigmoid(float(odds @ np.where(inner > 0, inner, np.exp(inner) - 1)) + offset)


def bisect(function, low: float, high: float) -> float:
    """Root of a decreasing function."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2


def entmax(e: Array, allowed: Array, alpha: float) -> Array:
    """[(α-1) e - τ]₊^{1/(α-1)} with τ by bisection; α = 2 is sparsemax."""
    if not allowed.any():
        return np.zeros(len(e))
    z = (alpha - 1) * np.where(allowed, e, -np.inf)

    def weights(tau: float) -> Array:
        return np.maximum(z - tau, 0) ** (1 / (alpha - 1))

    return weights(bisect(lambda tau: weights(tau).sum() - 1, z.max() - 1, z.max()))


def gaussian_grid(count: int, allowed: Array, filters: int, centre: float, log_variance: float, log_stride: float):
    """DRAW, eq. 22-25 in one dimension (positions from 0): [filters, keys]."""
    size = allowed.sum()
    g = (size + 1) / 2 * (centre + 1) - 1
    stride = max(size - 1, 0) / (filters - 1) * math.exp(log_stride)
    grid = np.zeros((filters, count))
    for i in range(1, filters + 1):
        mu = g + (i - filters / 2 - 0.5) * stride
        row = np.array([-((a - mu) ** 2) / (2 * math.exp(log_variance)) for a in range(count)])
        grid[i - 1] = softmax(row, allowed)
    return grid


def picture_grid(columns: int, allowed: Array, filters: int, centre: Array, log_variance: float, log_stride: float):
    """DRAW, eq. 22-26: the patch of filters × filters points, row by row, over a picture's cells, row by row."""
    width, height = columns, allowed.sum() / columns
    longest, variance = max(width, height), 2 * math.exp(log_variance)
    x = (width + 1) / 2 * (centre[0] + 1) - 1  # positions are counted from 0 here, from 1 in the paper
    y = (height + 1) / 2 * (centre[1] + 1) - 1
    stride = max(longest - 1, 0) / (filters - 1) * math.exp(log_stride)
    grid = np.zeros((filters, filters, len(allowed)))
    for i in range(1, filters + 1):
        for j in range(1, filters + 1):
            down, across = y + (i - filters / 2 - 0.5) * stride, x + (j - filters / 2 - 0.5) * stride
            energy = [
                -((c // columns - down) ** 2 + (c % columns - across) ** 2) / variance for c in range(len(allowed))
            ]
            grid[i - 1, j - 1] = softmax(np.array(energy), allowed)
    return grid.reshape(filters**2, -1)


def temperature(e: Array, allowed: Array, q: Array, w: Array, u: Array, before: Array, base: float) -> Array:
    """Lin et al. 2018b: softmax(e / λ^tanh(w q_t + u c_{t-1}))."""
    return softmax(e / base ** math.tanh(float(w @ q) + float(u @ before)), allowed)


def de_attention(
    e: Array,
    allowed: Array,
    q: Array,
    keys: Array,
    *,
    scale: float = 1.0,
    centred: bool = False,
    nearer: float | None = None,
) -> Array:
    """Survey C §3: tanh(qk/√d) times sigmoid(G/√d), G the negative L1 distance; doubled or centred as Tay et al. 2019.

    nearer: what G is multiplied by, 1/√d where it is not given.
    """
    nearer = 1 / math.sqrt(len(q)) if nearer is None else nearer
    a = np.zeros(len(e))
    far = [sum(abs(q[n] - keys[j, n]) for n in range(len(q))) for j in range(len(e))]
    chosen = [far[j] for j in range(len(e)) if allowed[j]]
    middle = sum(chosen) / len(chosen) if centred and chosen else 0.0
    for j in range(len(e)):
        if allowed[j]:
            a[j] = math.tanh(e[j]) * scale * sigmoid(-nearer * (far[j] - middle))
    return a


def constrained_softmax(e: Array, allowed: Array, u: Array) -> Array:
    """min(u_l, r exp(e_l)) with r by bisection; u itself where it sums to less than 1."""
    u = np.where(allowed, u, 0.0)
    if u.sum() < 1:
        return u
    odds = np.where(allowed, np.exp(e - e.max()), 0.0)
    log_r = -bisect(lambda x: np.minimum(u, np.exp(-x) * odds).sum() - 1, -50, 50)
    return np.minimum(u, math.exp(log_r) * odds)


def constrained_sparsemax(e: Array, allowed: Array, u: Array) -> Array:
    """min(u_l, max(0, e_l - τ)) with τ by bisection; u itself where it sums to less than 1."""
    u = np.where(allowed, u, 0.0)
    if u.sum() < 1:
        return u
    tau = bisect(lambda t: np.clip(e - t, 0, u).sum() - 1, e.min() - 2, e.max())
    return np.clip(e - tau, 0, u)


def adaptive_span(e: Array, allowed: Array, at: int, span: float, ramp: float) -> Array:
    """Sukhbaatar et al. 2019: m exp(e) / Σ m exp(e)."""
    m = np.array([min(max((ramp + span - abs(at - j)) / ramp, 0), 1) if allowed[j] else 0 for j in range(len(e))])
    odds = m * np.exp(e - e.max())
    return odds / odds.sum() if odds.sum() else np.zeros(len(e))


def monotonic(e: Array, allowed: Array, previous: Array | None, noise: Array | None = None) -> Array:
    """Raffel et al. 2017, algorithm 1: from the last stop on, stop at the first key that says so."""
    start = 0
    if previous is not None:
        stops = [j for j in range(len(e)) if previous[j] > 0]
        start = stops[0] if stops else len(e)
    a = np.zeros(len(e))
    for j in range(start, len(e)):
        p = sigmoid(e[j])
        if allowed[j] and (p > 0.5 if noise is None else noise[j] < p):
            a[j] = 1
            break
    return a


def expected_monotonic(e: Array, allowed: Array, previous: Array | None) -> Array:
    """Raffel et al. 2017, eq. 9-10: q_j = (1 - p_{j-1}) q_{j-1} + a'_j, a_j = p_j q_j."""
    p = [sigmoid(e[j]) if allowed[j] else 0.0 for j in range(len(e))]
    before = previous if previous is not None else np.eye(len(e))[0]
    a, reach = np.zeros(len(e)), 0.0
    for j in range(len(e)):
        reach = ((1 - p[j - 1]) * reach if j else 0.0) + before[j]
        a[j] = p[j] * reach
    return a


def chunkwise(stops: Array, u: Array, allowed: Array, width: int) -> Array:
    """Chiu & Raffel 2018: softmax of u over the `width` keys that end where attention stops."""
    b = np.zeros(len(u))
    for k in range(len(u)):
        chunk = np.array([k - width < j <= k for j in range(len(u))])
        b += stops[k] * softmax(u, allowed & chunk)
    return b


def distance_aware(e: Array, allowed: Array, d: Array, radius: float) -> Array:
    """Softmax within the radius times exp(-d² / 2σ²), σ = radius / 2, divided by its sum."""
    a = softmax(e, allowed & (d <= radius)) * np.exp(-(d**2) / (2 * (radius / 2) ** 2))
    return a / a.sum() if a.sum() else a


def ratio(kernel: Array, allowed: Array) -> Array:
    """Kernel values over their sum."""
    a = np.where(allowed, kernel, 0.0)
    return a / a.sum() if a.sum() > 0 else a
