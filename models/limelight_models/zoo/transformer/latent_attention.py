"""Multi-head latent attention, T3 (DeepSeek-AI 2024): keys and values of all heads come from one short vector a token.

§2.1 of the report on DeepSeek-V2, in a decoder as GPT-2's, told of places by rotary keys alone. A cache keeps short
vectors and the rotary keys that heads share: what makes keys is multiplied to the query, and what makes values to what
was found. Queries are not made of short vectors, as in its smaller model: that saves memory in training alone.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.cached import CausalAttention, KVCache
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.blocks.transformer import turned
from limelight_models.cards.language import State, cached
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.zoo.transformer.decoder import Decoder, DecoderConfig, continuing, parts


class LatentHeads(MultiHead):
    """k_t,h = [W_UK,h c_t; RoPE(W_KR h_t)];  v_t,h = W_UV,h c_t;  c_t = norm(W_DKV h_t) (eq. 9–11, 15–17).

    q_t,h = [W_Q,h h_t; RoPE(W_QR,h h_t)] (eq. 14, 16, without its short vector). d_latent: of c, 0 for c = h. d_turned:
    of what is turned.

    Shapes: as `MultiHead`; features [batch, token, d_model] at positions INT64 [token] or [batch, token].
    """

    deciding = ("turned_map",)

    def __init__(self, *, d_model: int, heads: int, d_head: int, d_latent: int, d_turned: int) -> None:
        attention, inner = Attention(score=ScaledDot()), d_latent or d_model
        super().__init__(attention=attention, d_model=d_model, heads=heads, d_head=d_head, d_key=inner, bias=False)
        self.d_head, self.d_turned = d_head, d_turned
        self.query_map = nn.Linear(d_model, heads * (d_head + d_turned), bias=False)
        self.turned_map = nn.Linear(d_model, d_turned, bias=False)
        shortened = nn.Linear(d_model, inner, bias=False), nn.RMSNorm(inner, 1e-6)
        self.down = nn.Sequential(*(shortened if d_latent else ()))

    def asked(self, features: Tensor, position: Tensor) -> Tensor:
        """q [batch, head, token, d_head + d_turned]."""
        plain, rest = self.split(self.query_map(features)).split([self.d_head, self.d_turned], -1)
        return torch.cat([plain, turned(rest, position)], -1)

    def kept(self, features: Tensor, position: Tensor) -> Tensor:
        """[c; RoPE(W_KR h)] [batch, 1, token, d_latent + d_turned]."""
        shared = turned(self.turned_map(features).unsqueeze(1), position)
        return torch.cat([self.down(features).unsqueeze(1), shared], -1)

    def made(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """k and v of all heads."""
        latent, rest = kept.squeeze(1).split([self.d_key, self.d_turned], -1)
        keys, values = self.split(self.key_map(latent)), self.split(self.value_map(latent))
        return torch.cat([keys, rest.unsqueeze(1).expand(-1, self.heads, -1, -1)], -1), values


class TurnedAttention(CausalAttention):
    """Causal attention of such heads, of which keys and values are kept. Shapes: as `CausalAttention`."""

    attention: LatentHeads

    def project(self, features: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads = self.attention
        return heads.asked(features, position), *heads.made(heads.kept(features, position))


@dataclass(frozen=True)
class LatentCache:
    """[c; RoPE(W_KR h)] of the tokens so far, [batch, 1, token, d_latent + d_turned]."""

    latents: Tensor


class LatentAttention(TurnedAttention):
    """The same, where short vectors are kept.

    q_hᵀ k_j,h = (W_UK,hᵀ q_h)ᵀ c_j + q_Rᵀ k_R,j;  Σ_j a_j W_UV,h c_j = W_UV,h Σ_j a_j c_j (§2.1.2)

    Shapes: as `CausalAttention`.
    """

    cached = LatentCache

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, LatentCache]:
        output, weights, _ = super().forward(features)
        places = torch.arange(features.shape[1], device=features.device)
        return output, weights, LatentCache(self.attention.kept(features, places))

    def step(self, features: Tensor, kept: LatentCache, position: Tensor) -> tuple[Tensor, Tensor, LatentCache]:
        heads, place = self.attention, position.unsqueeze(-1)
        query, new = heads.asked(features, place), heads.kept(features, place)
        up, out = (each.weight.unflatten(0, (heads.heads, -1)) for each in (heads.key_map, heads.value_map))
        absorbed = torch.cat([query[..., : heads.d_head] @ up, query[..., heads.d_head :]], -1)
        absorbed = absorbed * (absorbed.shape[-1] / query.shape[-1]) ** 0.5  # scores are divided by √ of its features
        context, weights = self.looked(absorbed, new, new, KVCache(kept.latents, kept.latents), position)
        return heads.join(context[..., : heads.d_key] @ out.transpose(-2, -1)), weights, LatentCache(new)


class LatentConfig(DecoderConfig):
    """Sizes. d_head: d_h. d_latent: d_c, of the short vector; 0 for keys and values of tokens. d_turned: d_h^R."""

    placed = False
    d_head: int = 16
    d_latent: int = 32
    d_turned: int = 8

    def attention(self) -> CausalAttention:
        heads = LatentHeads(
            d_model=self.d_model, heads=self.heads, d_head=self.d_head, d_latent=self.d_latent, d_turned=self.d_turned
        )
        return LatentAttention(heads) if self.d_latent else TurnedAttention(heads)

    def states(self) -> list[State]:
        if self.d_latent:
            return cached(self.layers, latents=(1, self.d_latent + self.d_turned))
        return cached(self.layers, keys=(self.heads, self.d_head + self.d_turned), values=(self.heads, self.d_head))


def card(network: Decoder, blueprint: Blueprint[LatentConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Multi-head latent attention",
        summary="Continues a text token by token, keeping of each token one short vector from which heads make all.",
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="DeepSeek-AI (2024): DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language "
        "Model. arXiv",
        **parts(network, blueprint),
    )


PRESETS = {
    "tiny": tiny(d_model=16, heads=2, d_hidden=16, d_head=6, d_latent=5, d_turned=4),
    "demo": preset(12, 64, 2e-3, d_hidden=128),
    "full": preset(12, 64, 1e-3, patience=2, vocabulary=2000).sized(
        d_model=256, layers=4, heads=8, d_hidden=1024, dropout=0.2, d_head=32, d_latent=128, d_turned=16
    ),
    # DeepSeek-V2 (§3.1.2); its experts are one network here, as large as its first layer's.
    "paper": preset(1, 512, 2.4e-4, patience=1, vocabulary=100_000).sized(
        d_model=5120, layers=60, heads=128, d_hidden=12_288, d_head=128, d_latent=512, d_turned=64
    ),
}

LATENT_ATTENTION = continuing(LatentConfig, card, PRESETS)
LATENT_ATTENTION_SEPARATE = LATENT_ATTENTION.changed(d_latent=0)
