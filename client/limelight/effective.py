"""Effective attention (Brunner et al. 2020, "On Identifiability in Transformers", section 3)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_PRECISION = float(np.finfo(np.float32).eps)  # of values as they are sent


def effective_attention(weights: ArrayLike, values: ArrayLike, output: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the part of attention that reaches the output of its layer, head by head.

    The output is A T with T = V W_O. What of a row of A lies in the left null space of T multiplies to nothing, so that
    other weights would have given the same output; there is such a part wherever there are more keys than T has rank.
    The effective attention is the rest, A⊥ = A - A P, where P projects on that null space: A⊥ T = A T. Its rows need
    not sum to 1, and can be negative.

    Args:
        weights: A, [head, query, key], or a map of weights.
        values: V, [head, key, feature], or a map of values (`quantity="values"`) of the same heads and keys. A bias of
            the value map is in it.
        output: W_O, [head, feature, model]: the rows of the output map that each head has. None where they are not
            known: the null space of V is that of T wherever the rows of a head are linearly independent, as those of
            trained models are, whose heads are smaller than the model.
    Returns: A⊥, [head, query, key].
    Raises:
        ValueError: the shapes do not fit.
    """
    found, vectors = (np.asarray(each, np.float64) for each in (weights, values))
    if found.ndim != 3 or vectors.ndim != 3 or (len(found), found.shape[2]) != vectors.shape[:2]:
        shapes = f"{list(found.shape)} and {list(vectors.shape)}"
        raise ValueError(f"weights [head, query, key] and values [head, key, feature] have the shapes {shapes}")
    made: Any = vectors if output is None else vectors @ np.asarray(output, np.float64)
    basis, sizes, _ = np.linalg.svd(made, full_matrices=False)  # [head, key, rank], [head, rank]
    kept = sizes > sizes.max(-1, keepdims=True, initial=0) * max(made.shape[1:]) * _PRECISION
    basis = basis * kept[:, None]
    return np.asarray(found @ basis @ basis.swapaxes(1, 2))
