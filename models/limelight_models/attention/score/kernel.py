"""Kernel scores (B12, and the random features of C17): an inner product of feature maps."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import elu

from limelight_models.attention.context import Context
from limelight_models.attention.score.similarity import unit
from limelight_models.attention.scoring import Score


def elu_plus_one(x: Tensor) -> Tensor:
    """elu(x) + 1, positive everywhere (Katharopoulos et al. 2020, eq. 7)."""
    return elu(x) + 1


class GeneralisedKernel(Score):
    """Generalised kernel (Choromanski et al. 2021; survey C Table 2).

    e = φ(q)ᵀ φ(k), with φ ≥ 0

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key], at least 0.
    Raises: ShapeError where query and key differ in size.
    """

    needs_equal_sizes = True
    kernel = True

    def __init__(self, *, feature_map: Callable[[Tensor], Tensor] = elu_plus_one) -> None:
        super().__init__()
        self.feature_map = feature_map

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return self.feature_map(query), self.feature_map(key), 1.0

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.feature_map(query) @ self.feature_map(key).transpose(-2, -1)


class RandomFeatures(Score):
    """Random features whose inner product estimates a softmax kernel (survey S §5.3).

    trigonometric (Peng et al. 2021, eq. 4–5): φ(x) = [sin(W x̂); cos(W x̂)] / √m, x̂ = x / ‖x‖
    positive (Choromanski et al. 2021, eq. 5): φ(x) = exp(W x̃ - ‖x̃‖² / 2) / √m, x̃ = x / d^¼
    e = φ(q)ᵀ φ(k), with W drawn once, m × d, standard normal

    The trigonometric estimate may be negative; the positive one never is. Positive features are exponentials: scores
    are float32 at least, whatever the query's type, because half precision ends at 65,504.

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key].
    Raises: ShapeError where d differs from what the score was built for.
    """

    kernel = True
    needs_equal_sizes = True

    def __init__(self, *, d: int, features: int, positive: bool = False, seed: int = 0) -> None:
        super().__init__()
        self.d_q = self.d_k = d
        self.positive, self.signed = positive, not positive
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("directions", torch.randn(features, d, generator=generator))

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return self.feature_map(query), self.feature_map(key), 1.0

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.feature_map(query) @ self.feature_map(key).transpose(-2, -1)

    def feature_map(self, x: Tensor) -> Tensor:
        """φ(x) [batch, head, position, m or 2m], in float32 at least: exp overflows half precision."""
        x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        directions: Tensor = self.get_buffer("directions").to(x.dtype)
        scale = directions.shape[0] ** -0.5
        if self.positive:
            x = x * x.shape[-1] ** -0.25
            return scale * torch.exp(x @ directions.T - x.square().sum(-1, keepdim=True) / 2)
        angles = unit(x) @ directions.T
        return scale * torch.cat([angles.sin(), angles.cos()], -1)
