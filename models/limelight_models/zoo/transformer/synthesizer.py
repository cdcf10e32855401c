"""Synthesizer, L17 (Tay et al. 2021): self-attention whose weights are made without comparing tokens.

Fig. 1 of the paper: (b) dense, each token says by itself where to look; (c) random, a trained matrix says it of places.
Attention over the source stays the Transformer's. Weights are [query, key] as ever, and as quadratic.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.cached import CausalAttention
from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.scoring import Score
from limelight_models.cards.results import State
from limelight_models.recipes import Blueprint, Card
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.transformer.encoder_decoder import PRESETS, EncoderDecoder, EncoderDecoderConfig, parts


class Synthesized(Score):
    """Scores of places for so many heads of d_q features, of at most so many tokens.

    Places behind those are as the last: padding stands there, and the steps of a text that has ended.
    """

    key_free = True
    key_order = True

    def __init__(self, *, heads: int, d_q: int, tokens: int) -> None:
        super().__init__()
        self.heads, self.d_q, self.tokens = heads, d_q, tokens

    def places(self, features: Tensor, known: Tensor | None = None) -> Tensor:
        """The places of features [batch, head, token, …]: 0, 1, 2, … int64 [token] where they are not known."""
        found = torch.arange(features.shape[-2], device=features.device) if known is None else known
        return found.clamp(max=self.tokens - 1)


class Dense(Synthesized):
    """Dense synthesizer: a token's own scores for every place (paper §3.1).

    B_i = F(X_i);  F(x) = W₂ relu(W₁ x + b₁) + b₂, head by head

    Shapes: query W₁ x + b₁ [batch, head, query, d_q], key [batch, head, key, any] -> scores [batch, head, query, key].
    """

    def __init__(self, *, heads: int, d_q: int, tokens: int) -> None:
        super().__init__(heads=heads, d_q=d_q, tokens=tokens)
        self.position_map = HeadLinear(d_in=d_q, d_out=tokens, heads=heads, bias=True)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.position_map(torch.relu(query)).index_select(-1, self.places(key))


class Random(Synthesized):
    """Random synthesizer: scores that are parameters, the same for every text (paper §3.2).

    B = R, R ∈ ℝ^{tokens × tokens} for each head, trained, or fixed in the control `frozen`

    Shapes: as `Dense`; the places of queries are those of the context.
    """

    query_free = True

    def __init__(self, *, heads: int, d_q: int, tokens: int) -> None:
        super().__init__(heads=heads, d_q=d_q, tokens=tokens)
        self.table = nn.Parameter(torch.randn(tokens, heads, tokens))

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        places = self.places(query, context.query_positions).reshape(-1, query.shape[-2])  # [batch or 1, query]
        scores = self.table[places].index_select(-1, self.places(key)).transpose(1, 2)
        return scores.expand(query.shape[0], -1, -1, -1)


class Synthesis(MultiHead):
    """Y = softmax(B) G(X) (paper §3), in heads that are merged as ever; G is `value_map`, W₁ `query_map`.

    Shapes: as `MultiHead` of features that attend to themselves.
    """

    def __init__(self, score: Synthesized, *, d_model: int, heads: int) -> None:
        super().__init__(attention=Attention(score=score), d_model=d_model, heads=heads)
        del self.key_map  # no token is compared with another
        if score.query_free:
            del self.query_map

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The hidden layer of F, and values; of keys nothing but their number is read."""
        values = self.split(self.value_map(key if value is None else value))
        return values if self.attention.query_free else self.split(self.query_map(query)), values, values


class SynthesizerConfig(EncoderDecoderConfig):
    """Sizes, which are those of the Transformer. random: whether weights are those of places alone."""

    random: bool = False

    def synthesis(self, tokens: int) -> Synthesis:
        """Self-attention of texts of at most so many tokens."""
        kind: Callable[..., Synthesized] = Random if self.random else Dense
        score = kind(heads=self.heads, d_q=self.d_model // self.heads, tokens=tokens)
        return Synthesis(score, d_model=self.d_model, heads=self.heads)

    def of_source(self) -> Synthesis:
        return self.synthesis(self.max_source)

    def looking_back(self) -> CausalAttention:
        return CausalAttention(self.synthesis(self.max_new_tokens))

    def states(self) -> list[State]:
        return [each for each in super().states() if each.input.startswith("values")]


def card(network: EncoderDecoder, blueprint: Blueprint[SynthesizerConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Synthesizer",
        summary="Rewrites a text token by token; where tokens look among themselves is made without comparing them.",
        taxonomy="location-based, scaled multiplicative, self-attentive, basic, multi-head, multi-hop",
        citation="Tay, Bahri, Metzler, Juan, Zhao, Zheng (2021): Synthesizer: Rethinking Self-Attention for "
        "Transformer Models. ICML",
        **parts(network, blueprint),
    )


SYNTHESIZER = rewriting(SynthesizerConfig, EncoderDecoder, card, PRESETS)
SYNTHESIZER_RANDOM = SYNTHESIZER.changed(random=True)
