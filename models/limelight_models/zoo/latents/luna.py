"""Luna, M15 (Ma et al. 2021): a short second sequence packs the text, and the text attends to the pack.

Fig. 1 of the paper. The pack of layer l + 1 is asked for by what layer l made of it. Each head of the second attention
reads all heads of the first, so that the product of their weights is an effective map only where there is one head:
both maps are served.
"""

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import over_keys
from limelight_models.attention.queries.learned import LearnedQuery
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.transformer import AddAndNorm, FeedForward
from limelight_models.cards.language import Attends, maps_of, numbered
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, presets


class LunaConfig(LongConfig):
    """Sizes. packed: l, the length of the second sequence. tied: whether values are the keys (its code's `tie_kv`)."""

    packed: int = 16
    tied: bool = False

    def attention(self) -> Attention:
        return Attention(score=ScaledDot())

    def layer(self, number: int) -> nn.Module:
        return LunaLayer(self)

    def projected(self) -> MultiHead:
        """Attn(X, C) = softmax(X W_Q (C W_K)ᵀ / √d) C W_V in heads, merged; tied, W_V is W_K."""
        made = MultiHead(attention=self.attention(), d_model=self.d_model, heads=self.heads)
        if self.tied:
            made.value_map = made.key_map
        return made


class LunaLayer(nn.Module):
    """Y_P = Attn(P, X), Y_X = Attn(X, Y_P);  P' = norm(Y_P + P), X' = norm(Y_X + X), X'' = norm(FFN(X') + X') (§3).

    Y_P is heads side by side: as in the paper's code, only Y_X is merged.

    Shapes: text [batch, token, d_model], pack [batch, packed, d_model], mask bool [batch, token] -> text, pack, weights
        [batch, head, packed, token] of the pack, [batch, head, token, packed] of the text.
    """

    def __init__(self, config: LunaConfig) -> None:
        super().__init__()
        d_model, dropout = config.d_model, config.dropout
        self.pack, self.unpack = config.projected(), config.projected()
        self.pack.register_module("merge", nn.Identity())
        self.hidden = FeedForward(d_model=d_model, d_hidden=config.d_hidden)
        self.after_pack, self.after_unpack, self.after_hidden = (
            AddAndNorm(d_model=d_model, dropout=dropout) for _ in range(3)
        )

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of both."""
        return weights_of(self.pack, self.unpack)

    def forward(self, text: Tensor, pack: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        packed, inward = self.pack(pack, text, mask=over_keys(mask))
        unpacked, outward = self.unpack(text, packed, mask=mask[:, None, :, None])  # padding asks for nothing
        text = self.after_unpack(text, unpacked)
        return self.after_hidden(text, self.hidden(text)), self.after_pack(pack, packed), inward, outward


class Luna(LongEncoder):
    """Text -> classes, with what the second sequence and the text look at, in every layer.

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class], maps
        `encoder.<layer>.pack` [batch, head, packed, token], `encoder.<layer>.unpack` [batch, head, token, packed].
    """

    config: LunaConfig

    def __init__(self, config: LunaConfig) -> None:
        super().__init__(config)
        self.second = LearnedQuery(d_q=config.d_model, count=config.packed)

    def encode(self, features: Tensor, mask: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        pack = self.second(features).squeeze(1)
        maps: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            features, pack, inward, outward = layer(features, pack, mask)
            maps |= {f"encoder.{number}.pack": inward, f"encoder.{number}.unpack": outward}
        return features, maps


def card(network: Luna, blueprint: Blueprint[LunaConfig]) -> Card:
    """Describe the model."""
    text = blueprint.text("A long text.")
    tokens, packed = text.tokens(), numbered("packed", "latents", "entry", network.config.packed)
    shown = {
        "encoder.{}.pack": Attends(packed, tokens, "What each entry of layer {}'s pack is made of.", kind="cross"),
        "encoder.{}.unpack": Attends(tokens, packed, "What of its pack each token of layer {} reads.", kind="cross"),
    }
    return blueprint.card(
        network,
        title="Luna",
        summary="Classifies a long text whose tokens attend to a short sequence that attended to them.",
        inputs=[text],
        maps=maps_of(network.layers, shown),
        taxonomy="scaled multiplicative, self-attentive, specialised, multi-head, multi-hop",
        citation="Ma, Kong, Wang, Zhou, May, Ma, Zettlemoyer (2021): Luna: Linear Unified Nested Attention. NeurIPS",
    )


# Its model of long texts of bytes (§4.1) with 256 packed entries; what is not said there is as usual.
PRESETS = presets(
    preset(20, 32, 1e-4, patience=20, vocabulary=300).sized(
        d_model=256, layers=4, heads=4, d_hidden=1024, packed=256, max_tokens=4096
    )
)

LUNA = classifying_texts(LunaConfig, Luna, card, PRESETS, builtin=builtin)
LUNA_TIED = LUNA.changed(tied=True)
