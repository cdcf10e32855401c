"""Attention between channels in the place of positions, and what stands around it (El-Nouby et al. 2021)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.flat import join_heads, split_heads
from limelight_models.attention.score import Score
from limelight_models.attention.score.similarity import unit
from limelight_models.attention.weights import Weights


class LearnedCosine(Score):
    """Cosine similarity over a temperature that each head learns (El-Nouby et al. 2021, §3.2).

    e = q̂ᵀ k̂ / τ

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key].
    Raises: ShapeError where query and key differ in size.
    """

    needs_equal_sizes = True

    def __init__(self, *, heads: int) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.ones(heads, 1, 1))  # 1/τ

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.sharpness * (unit(query) @ unit(key).transpose(-2, -1))


class CrossCovariance(nn.Module):
    """Cross-covariance attention: a head's channels attend to each other (El-Nouby et al. 2021, §3.2).

    XCA(Q, K, V) = V softmax(K̂ᵀ Q̂ / τ), each column of Q̂ and K̂ of length 1 over the positions;  W_O [XCA_1; …; XCA_H]

    Time and memory are linear in the number of positions, and quadratic in the channels of a head. Positions are all
    real: there is no mask.

    Shapes: [batch, position, d] -> the same, weights [batch, head, channel of Q, channel of K].
    Raises: ShapeError where the heads do not divide d.
    """

    deciding = ("query_map", "key_map")

    def __init__(self, *, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_map, self.key_map, self.value_map, self.merge = (nn.Linear(d_model, d_model) for _ in range(4))
        self.attention = Attention(score=LearnedCosine(heads=heads))

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of each head."""
        return (Weights(heads=self.heads),)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        maps = (self.query_map, self.key_map, self.value_map)
        query, key, value = (split_heads(each(features), self.heads).transpose(-2, -1) for each in maps)
        found, weights = self.attention(query, key, value)
        return self.merge(join_heads(found.transpose(-2, -1))), weights


class LocalPatches(nn.Module):
    """Local patch interaction: two depthwise 3 × 3 convolutions over the cells (El-Nouby et al. 2021, §3.3).

    x -> C₂ BN(gelu(C₁ x)); on a picture of rows × columns = `grid` patches

    Shapes: [batch, patch, d], row by row -> the same.
    """

    def __init__(self, *, d_model: int, grid: tuple[int, int]) -> None:
        super().__init__()
        self.grid = grid
        self.inner, self.outer = (nn.Conv2d(d_model, d_model, 3, padding=1, groups=d_model) for _ in range(2))
        self.norm = nn.BatchNorm2d(d_model)

    def forward(self, patches: Tensor) -> Tensor:
        cells = patches.transpose(1, 2).unflatten(2, self.grid)
        mixed: Tensor = self.outer(self.norm(gelu(self.inner(cells))))
        return mixed.flatten(2).transpose(1, 2)
