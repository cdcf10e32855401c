"""Dynamic attention span, R2 (Sukhbaatar, Grave, Bojanowski & Joulin 2019): each token says how far its heads look.

§2.2 of the paper, "dynamic attention span": a soft window, whose width a head learns for all tokens (adaptive span), is
said by the token itself, and looking far has a price. As the paper's decoder, tokens look back alone.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from limelight_models.attention import Attention
from limelight_models.attention.alignment import fill
from limelight_models.attention.context import Context
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.scoring import Score
from limelight_models.attention.weights import Weights
from limelight_models.cards.language import Map, one
from limelight_models.network import Answer
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class Spanned(Score):
    """e_tj = q_tᵀ k_j / √d + log m_t(t - j);  m_t(x) = clamp((R + z_t - x) / R, 0, 1)

    Behind softmax those are the paper's weights m exp(e) / Σ m exp(e) (eq. 3, 4).

    Shapes: query [batch, head, query, d + 1] with z last, key [batch, head, key, d] -> scores [..., query, key].
    """

    key_order = True
    context_fields = ("query_positions", "key_positions")

    def __init__(self, *, ramp: int) -> None:
        super().__init__()
        self.ramp, self.product = ramp, ScaledDot()

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        scores = self.product(query[..., :-1], key, context)
        t, j = context.positions(scores)
        soft = (self.ramp + query[..., -1:] - (t - j)).clamp(max=self.ramp) / self.ramp
        return fill(scores + soft.clamp(min=torch.finfo(soft.dtype).tiny).log(), soft > 0)


class SpannedHeads(MultiHead):
    """Multi-head attention whose queries have spans: z_t = S σ(vᵀ x_t + b), v and b of a head.

    by_token: whether x_t is read; without, a head's span is that of all tokens, S σ(b).

    Shapes: as `MultiHead` of features that attend to themselves.
    """

    deciding = ("span_map",)

    def __init__(self, *, d_model: int, heads: int, max_span: int, ramp: int, by_token: bool) -> None:
        super().__init__(attention=Attention(score=Spanned(ramp=ramp)), d_model=d_model, heads=heads)
        self.max_span, self.by_token, self.span_map = max_span, by_token, nn.Linear(d_model, heads)

    def spans(self, features: Tensor) -> Tensor:
        """z. Shapes: features [batch, token, d_model] -> [batch, head, token, 1]."""
        read: Tensor = self.span_map(features if self.by_token else torch.zeros_like(features))
        # σ, in a form whose error is small beside a short span: that of runtimes is 1e-7, of S tokens.
        return self.max_span * (-softplus(-read)).exp().transpose(1, 2).unsqueeze(-1)

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """[q; z], k and v."""
        q, k, v = super().project(query, key, value)
        return torch.cat([q, self.spans(query)], -1), k, v


class DynamicSpanConfig(LongConfig):
    """Sizes. span: who says how far, each `token`, each `head` for all of them, or `none`, so that all is looked at.

    max_span: S, ramp: R, of the soft window. price: λ, what a token of a span costs.
    """

    looks_back = True
    span: str = "token"
    max_span: int = 256
    ramp: int = 16
    price: float = 1e-3

    def attention(self) -> Attention:
        return Attention(score=ScaledDot())

    def multi_head(self, number: int) -> MultiHead:
        if self.span == "none":
            return super().multi_head(number)
        sizes = {"d_model": self.d_model, "heads": self.heads, "max_span": self.max_span, "ramp": self.ramp}
        return SpannedHeads(by_token=self.span == "token", **sizes)


class DynamicSpanEncoder(LongEncoder):
    """Text -> classes, with the weights of every layer, and how far each of its tokens looks.

    L = loss + λ / M Σ z, the mean over heads, layers and tokens (eq. 5)

    Shapes: as `LongEncoder`, and where there are spans maps `span.<layer>.self` z [batch, head, token, 1].
    """

    config: DynamicSpanConfig

    def encode(self, features: Tensor, mask: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        looks, maps, spans = self.looks(mask), dict[str, Tensor](), dict[str, Tensor]()
        for number, layer in enumerate(self.layers):
            if isinstance(heads := layer.attention, SpannedHeads):
                spans[f"span.{number}.self"] = heads.spans(features) * mask[:, None, :, None]
            features, maps[f"encoder.{number}.self"] = layer(features, looks)
        return features, maps | spans

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """The price of every text's mean span beside its loss."""
        spans = [each for name, each in answer.maps.items() if name.startswith("span.")]
        if not spans:
            return losses.sum()
        read = torch.stack(spans, 1).flatten(1)
        return (losses + self.config.price * read.sum(1) / (read > 0).sum(1).clamp(min=1)).sum()


def card(network: DynamicSpanEncoder, blueprint: Blueprint[DynamicSpanConfig]) -> Card:
    """Describe the model."""
    found, config = parts(network, blueprint), network.config
    tokens = found["inputs"][0].tokens()
    spans, about = Weights(heads=config.heads, normalised=False), "How many tokens back each token of layer {} looks."
    for number in range(config.layers if config.span != "none" else 0):
        says = about.format(number)
        found["maps"][f"span.{number}.self"] = Map(
            weights=spans, kind="self", queries=tokens, keys=one("span"), summary=says
        )
    return blueprint.card(
        network,
        title="Dynamic attention span",
        summary="Classifies a long text by heads that look back as far as each token says.",
        taxonomy="scaled multiplicative, local, self-attentive, multi-head",
        citation="Sukhbaatar, Grave, Bojanowski, Joulin (2019): Adaptive Attention Span in Transformers. ACL",
        **found,
    )


# The small model of §3: 12 layers of 8 heads, which look back 8,192 characters at most. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 1e-4, patience=2, vocabulary=8000).sized(
        d_model=512, layers=12, heads=8, d_hidden=2048, max_span=8192, ramp=32, price=2e-6
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(max_span=6, ramp=3)

DYNAMIC_SPAN = classifying_texts(DynamicSpanConfig, DynamicSpanEncoder, card, PRESETS, builtin=builtin)
# A span for each head (the adaptive span), and no window.
DYNAMIC_SPAN_HEAD, DYNAMIC_SPAN_NONE = (DYNAMIC_SPAN.changed(span=each) for each in ("head", "none"))
