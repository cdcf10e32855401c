"""DeepSeek sparse attention, T5 (DeepSeek-AI 2025): a light score picks the keys that a query attends to.

§2.1 of the report on DeepSeek-V3.2. The indexer learns to agree with the attention over all keys, as in the report's
warm-up (eq. 3), here from the first step to the last, and nothing else teaches it. It has as many heads as attention,
and no rotary positions; heads have keys of their own, where the report's share latent ones.
"""

from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import softmax
from limelight_models.attention.effective.blocks import Blocked, Blocks, largest, of_each, scaled
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets

NEARER = 2.0**-30  # what a key's distance takes from its score: many are 0, and no two may be equal


class Taught(torch.autograd.Function):
    """A tensor as it is, through which a cost besides the task's is learned from (as in DeepSeek's code of experts)."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, cost: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        return gradients[0], gradients[0].new_ones(())


class Indexed(Blocks):
    """a_t = softmax_s(q_tᵀ k_s / √d) over the s ≤ t of the largest I_ts (eq. 2).

    I_ts = Σ_j w_tj relu(q^I_tjᵀ k^I_s) / √(d^I H^I) (eq. 1), scaled as in the authors' code;  in training, of which
    p_t is the mean over heads of softmax_s(q_tᵀ k_s / √d), s ≤ t:  L = Σ_t KL(p_t ‖ softmax(I_t)) (eq. 3).

    d_index: d^I. most: how many keys. indexed: whether I chooses them; else they are the last ones.

    Shapes: as `Blocks`; query [q; q^I; w] and key [k; k^I], of which k^I is the same in all heads.
    """

    def __init__(self, *, d_index: int, most: int, indexed: bool = True) -> None:
        super().__init__(causal=True)
        self.d_index, self.most, self.indexed = d_index, most, indexed

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Blocked:
        d = query.shape[-1] - self.d_index - 1
        place = torch.arange(key.shape[2], device=key.device)
        away = place.unsqueeze(-1) - place
        allowed = away >= 0 if mask is None else (away >= 0) & mask
        scores = self.index(query[..., d:], key[:, :1, :, d : d + self.d_index]) - NEARER * away
        read = largest(scores.masked_fill(~allowed, -torch.inf), self.most)
        query, key = query[..., :d], key[..., :d]
        if self.training and self.indexed:
            wanted = softmax(scaled(query) @ key.transpose(-2, -1), allowed).mean(1, keepdim=True).detach()
            said = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).log_softmax(-1)
            query = Taught.apply(query, -(wanted * said * allowed).sum(-1).mean())
        return Blocked(query, key, of_each(key, read), mask)

    def index(self, query: Tensor, key: Tensor) -> Tensor:
        """I, broadcastable to [batch, 1, query, key]; head by head, so that the products of one are held at a time."""
        if not self.indexed:
            return query.new_zeros((1, 1, 1, 1))
        each = (
            (query[:, h, :, -1:] * (query[:, h, :, :-1] @ key[:, 0].transpose(-2, -1)).relu())
            for h in range(query.shape[1])
        )
        return (sum(each) * (self.d_index * query.shape[1]) ** -0.5).unsqueeze(1)


class Indexer(nn.Module):
    """q^I and w of each head, and k^I = norm(W x), which heads share. Shapes: x [batch, token, d_model]."""

    deciding = ("",)

    def __init__(self, *, d_model: int, heads: int, d_index: int) -> None:
        super().__init__()
        self.query_map = nn.Linear(d_model, heads * d_index, bias=False)
        self.key_map = nn.Linear(d_model, d_index, bias=False)
        self.weight_map = nn.Linear(d_model, heads, bias=False)
        self.norm = nn.LayerNorm(d_index, 1e-6)


class IndexedHeads(MultiHead):
    """Multi-head attention beside an indexer, which learns nothing to the features that it reads.

    Shapes: as `MultiHead` of features that attend to themselves.
    """

    def __init__(self, attention: Indexed, *, d_model: int, heads: int) -> None:
        super().__init__(attention=attention, d_model=d_model, heads=heads)
        self.indexer = Indexer(d_model=d_model, heads=heads, d_index=attention.d_index)

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """[q; q^I; w], [k; k^I] and v."""
        (q, k, v), own, x = super().project(query, key, value), self.indexer, query.detach()
        asked, weight = self.split(own.query_map(x)), self.split(own.weight_map(x))
        kept = own.norm(own.key_map(x)).unsqueeze(1).expand(-1, self.heads, -1, -1)
        return torch.cat([q, asked, weight], -1), torch.cat([k, kept], -1), v


class IndexedConfig(LongConfig):
    """Sizes. d_index: features of the indexer's heads. most: keys of a query. indexed: whether they are chosen."""

    d_index: int = 8
    most: int = 32
    indexed: bool = True

    def multi_head(self, number: int) -> IndexedHeads:
        attention = Indexed(d_index=self.d_index, most=self.most, indexed=self.indexed)
        return IndexedHeads(attention, d_model=self.d_model, heads=self.heads)


def card(network: LongEncoder, blueprint: Blueprint[IndexedConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="DeepSeek sparse attention",
        summary="Classifies a long text by attention to the few tokens before each that a light score picks.",
        taxonomy="scaled multiplicative, alignment: top-k, self-attentive, multi-head",
        citation="DeepSeek-AI (2025): DeepSeek-V3.2: Pushing the Frontier of Open Large Language Models. arXiv",
        **parts(network, blueprint),
    )


# DeepSeek-V3's sizes, 2,048 keys; its experts are one network here.
PRESETS = presets(
    preset(10, 32, 7.3e-6, patience=2, vocabulary=8000).sized(
        d_model=7168, layers=61, heads=128, d_hidden=18_432, d_index=128, most=2048
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(d_index=3, most=4)

DEEPSEEK_SPARSE = classifying_texts(IndexedConfig, LongEncoder, card, PRESETS, builtin=builtin)
DEEPSEEK_SPARSE_LAST = DEEPSEEK_SPARSE.changed(indexed=False)
