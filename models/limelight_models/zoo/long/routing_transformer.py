"""Routing Transformer, M6 (Roy et al. 2021): a query attends to keys of its cluster, found by online k-means.

§4 of the paper, Algorithm 1 in its form without a causal mask: half of the heads are routed, half look at a window.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize, one_hot

from limelight_models.attention.alignment import softmax
from limelight_models.attention.effective.blocks import Band, gathered
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.effective.groups import HeadGroups
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets

MOMENTUM = 0.999  # λ (§4.1)


class Clusters(NamedTuple):
    """Queries / √d and keys, normalised [batch, head, position, d], and which are in a cluster.

    asked, read: the w queries and keys nearest to each centroid, INT64 [batch, head, cluster, w], -1 for none.
    """

    query: Tensor
    key: Tensor
    asked: Tensor
    read: Tensor


class Routing(Effective[Clusters]):
    """X'_i = mean over clusters c ∋ i of Σ_j softmax_{j ∈ c}(q_iᵀ k_j / √d) v_j; zeros where i is in none.

    q and k are normalised, without parameters; a cluster has the w = ⌈n / clusters⌉ queries, and as many keys, of the
    largest μ_cᵀ q and μ_cᵀ k, so that all are of one size, n those that a text has. Cost: n² / clusters, and n times
    clusters.

    μ ← λ μ + (1 - λ) / 2 (mean of q nearest to μ + mean of k nearest to μ), in training, then of length 1: the paper
    sums, whose length would grow with the batch.

    Shapes: as `Effective`, of so many heads of d features.
    """

    centroids: Tensor  # μ [head, cluster, d]
    normalised = False
    chooses = True

    def __init__(self, *, heads: int, d: int, clusters: int) -> None:
        super().__init__()
        self.register_buffer("centroids", normalize(torch.randn(heads, clusters, d), dim=-1))

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Clusters:
        query, key = (layer_norm(each, each.shape[-1:]) for each in (query, key))
        there = key.new_ones((1, 1, 1, key.shape[2]), dtype=torch.bool) if mask is None else mask
        asked, read = (self.nearest(each, there) for each in (query, key))
        if self.training and self.moves:
            self.learn(query, key, there)
        return Clusters(query * query.shape[-1] ** -0.5, key, asked, read)

    def nearest(self, features: Tensor, there: Tensor) -> Tensor:
        """The w positions nearest to each centroid: INT64 [batch, head, cluster, w], -1 where a text has less."""
        near = (self.centroids @ features.transpose(-2, -1)).masked_fill(~there, -torch.inf)
        near = torch.cat([near, torch.full_like(near[..., :1], -torch.inf)], -1)  # a place is to spare, see `in_blocks`
        clusters = near.shape[2]
        places = near.topk((features.shape[2] + clusters - 1) // clusters + 1).indices
        own = (there.sum(-1, keepdim=True) + clusters - 1) // clusters  # w [batch, 1, 1, 1]
        return torch.where(torch.arange(places.shape[-1], device=places.device) < own, places, -1)

    @torch.no_grad()
    def learn(self, query: Tensor, key: Tensor, there: Tensor) -> None:
        """Move the centroids towards the means of what is nearest to them."""
        moved = self.centroids
        for features in (query, key):
            near = (self.centroids @ features.transpose(-2, -1)).argmax(2)  # [batch, head, position]
            chosen = one_hot(near, moved.shape[1]) * there.transpose(-2, -1)
            total = torch.einsum("bhnc,bhnd->hcd", chosen.to(features.dtype), features)
            count = chosen.sum((0, 2)).unsqueeze(-1)
            mean = torch.where(count > 0, total / count.clamp(min=1), self.centroids)
            moved = moved + (1 - MOMENTUM) / 2 * (mean - self.centroids)
        self.centroids.copy_(normalize(moved, dim=-1))

    def sums(self, prepared: Clusters, value: Tensor) -> Tensor:
        query, key, asked, read = prepared
        scores = gathered(query, asked) @ gathered(key, read).transpose(-2, -1)  # [batch, head, cluster, w, w]
        found = softmax(scores, (read >= 0).unsqueeze(-2)) @ gathered(value, read)
        found = torch.cat([found, torch.ones_like(found[..., :1])], -1) * (asked >= 0).unsqueeze(-1)
        places = asked.clamp(min=0).flatten(2).unsqueeze(-1).expand(-1, -1, -1, found.shape[-1])
        counted = torch.cat([value, value[..., :1]], -1) * 0
        summed = counted.scatter_add(2, places, found.flatten(2, 3))
        return summed[..., :-1] / summed[..., -1:].clamp(min=1)

    def rows(self, prepared: Clusters, index: Tensor) -> Tensor:
        scores = prepared.query[:, :, index] @ prepared.key.transpose(-2, -1)
        raised = (scores - scores.amax(-1, keepdim=True)).exp()
        members, belongs = self.members(prepared, index)
        total = raised @ members.transpose(-2, -1)  # [batch, head, row, cluster]
        shares = belongs / torch.where(total > 0, total, torch.ones_like(total))
        return raised * (shares @ members) / belongs.sum(-1, keepdim=True).clamp(min=1)

    def members(self, prepared: Clusters, index: Tensor) -> tuple[Tensor, Tensor]:
        """1 for keys in a cluster [batch, head, cluster, key], for clusters of a query [batch, head, row, cluster]."""
        count = prepared.key.shape[2]
        asked, read = (
            prepared.key.new_zeros((*each.shape[:3], count + 1)).scatter(-1, torch.where(each < 0, count, each), 1.0)
            for each in (prepared.asked, prepared.read)
        )
        return read[..., :count], asked[..., index].transpose(-2, -1)

    def allowed(self, prepared: Clusters, index: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        members, belongs = self.members(prepared, index)
        return belongs @ members > 0


class RoutingConfig(LongConfig):
    """Sizes. window: how far a key of a local head is at most. clusters: of a routed head; 0 for windows alone."""

    window: int = 16
    clusters: int = 16

    def attention(self) -> HeadGroups:
        near, half = Band(self.window), self.heads // 2
        routed = [Routing(heads=half, d=self.d_head, clusters=self.clusters)] if self.clusters else []
        return HeadGroups([near, *routed])


def card(network: LongEncoder, blueprint: Blueprint[RoutingConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Routing Transformer",
        summary="Classifies a long text by heads that see what is near, and heads that see what is alike.",
        taxonomy="scaled multiplicative, local, alignment: clusters, self-attentive, multi-head",
        citation="Roy, Saffar, Vaswani, Grangier (2021): Efficient Content-Based Sparse Attention with Routing "
        "Transformers. TACL",
        **parts(network, blueprint),
    )


# Of WikiText-103 (§5): 10 layers of 16 heads, windows of 256, 16 clusters, 4,096 tokens. Here every layer is routed.
PRESETS = presets(
    preset(30, 32, 2e-4, patience=30, vocabulary=50_000).sized(
        d_model=1024, layers=10, heads=16, d_hidden=4096, window=256, max_tokens=4096
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(window=2, clusters=3)

ROUTING_TRANSFORMER = classifying_texts(RoutingConfig, LongEncoder, card, PRESETS, builtin=builtin)
ROUTING_TRANSFORMER_LOCAL = ROUTING_TRANSFORMER.changed(clusters=0)
