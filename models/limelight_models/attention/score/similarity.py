"""Similarity scores (B8): cosine, negative distances, Gaussian kernel."""

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from limelight_models.attention.alignment import in_single
from limelight_models.attention.context import Context
from limelight_models.attention.errors import require_features
from limelight_models.attention.score.pairwise import pairwise
from limelight_models.attention.scoring import Score


class Cosine(Score):
    """Cosine similarity, sharpened by β (Graves et al. 2014, eq. 6; survey BF Table 2, G Table 3).

    e = β · qᵀk / (‖q‖ ‖k‖)

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key] in [-β, β].
    Raises: ShapeError where query and key differ in size.
    """

    needs_equal_sizes = True

    def __init__(self, *, sharpness: float = 1.0) -> None:
        super().__init__()
        self.sharpness = sharpness

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return unit(query), unit(key), self.sharpness

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.sharpness * (unit(query) @ unit(key).transpose(-2, -1))


class NegativeDistance(Score):
    """Negative distance: the nearest key scores highest (survey BF §3.2.1, L2; G Table 3).

    e = -‖q - k‖_p, with p = 2 (Euclidean) or 1

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key], at most 0.
    Memory: batch × head × query × key × d numbers, unless `chunk` (queries at a time) bounds it.
    Raises: ShapeError where query and key differ in size; ValueError where p is neither 1 nor 2.
    """

    needs_equal_sizes = True

    def __init__(self, *, p: int = 2, chunk: int | None = None) -> None:
        super().__init__()
        if p not in (1, 2):
            raise ValueError(f"p must be 1 or 2; it is {p}")
        self.p, self.chunk = p, chunk

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return -pairwise(query, -key, self.norm, self.chunk)

    def norm(self, difference: Tensor) -> Tensor:
        """‖difference‖ over the last axis, with gradient 0 (and not NaN) at 0."""
        if self.p == 1:
            return difference.abs().sum(-1)
        squared = squares(difference)
        length = torch.where(squared > 0, squared, torch.ones_like(squared)).sqrt() * (squared > 0)
        return length.to(difference.dtype)


class GaussianKernel(Score):
    """Gaussian kernel (survey C §2; SOFT, Lu et al. 2021, eq. 3; Skyformer, Chen et al. 2021, eq. 3).

    e = exp(-‖q - k‖² / 2h²), or its exponent where `log` is set; h² = √d unless a bandwidth h is given

    Softmax over the exponent is the kernel divided by its sum, without underflow.

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key] in [0, 1].
    Memory: batch × head × query × key × d numbers, unless `chunk` (queries at a time) bounds it.
    Raises: ShapeError where query and key differ in size.
    """

    needs_equal_sizes = True

    def __init__(self, *, bandwidth: float | None = None, log: bool = False, chunk: int | None = None) -> None:
        super().__init__()
        self.bandwidth, self.log, self.chunk, self.kernel = bandwidth, log, chunk, not log

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        require_features(query, "query", key.shape[-1], self)
        variance = math.sqrt(key.shape[-1]) if self.bandwidth is None else self.bandwidth**2
        exponent = pairwise(query, -key, squares, self.chunk) / (-2 * variance)
        found = exponent if self.log else exponent.exp()
        if found.dtype != query.dtype:  # half precision ends sooner: far is far, and not infinite
            found = found.clamp(min=torch.finfo(query.dtype).min)
        return found.to(query.dtype)


def squares(difference: Tensor) -> Tensor:
    """‖difference‖² over the last axis, in float32 at least: in half precision, that of 256 is infinite."""
    return in_single(difference).square().sum(-1)


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length 1; zero vectors stay zero."""
    single = in_single(vectors)
    return normalize(single, dim=-1, eps=torch.finfo(vectors.dtype).tiny ** 0.5).to(vectors.dtype)
