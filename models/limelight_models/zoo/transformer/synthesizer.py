"""Synthesizer, L17 (Tay et al. 2021): self-attention whose weights are made without comparing tokens.

Fig. 1 of the paper: (b) dense, each token says by itself where to look; (c) random, a trained matrix says it of places.
Both may be factorised, or mixed with the Transformer's products, as in the best of the paper's models. Attention over
the source stays the Transformer's. Weights are [query, key] as ever, and as quadratic.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.cached import CausalAttention
from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
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

    def of_keys(self, scores: Tensor, key: Tensor, context: Context) -> Tensor:
        """Those of the keys, of scores of all places [batch, head, query, place]."""
        places = self.places(key, context.key_positions)
        if places.dim() == 1:
            return scores.index_select(-1, places)
        return scores.gather(-1, places.unsqueeze(-2).expand(*scores.shape[:-1], -1))

    def of_queries(self, table: Tensor, query: Tensor, context: Context) -> Tensor:
        """Rows of a table [place, head, …] for the queries: [batch or 1, head, query, …]."""
        places = self.places(query, context.query_positions).reshape(-1, query.shape[-2])  # [batch or 1, query]
        return table[places].transpose(1, 2)


class Dense(Synthesized):
    """Dense synthesizer: a token's own scores for every place (paper §3.1).

    B_i = F(X_i);  F(x) = W₂ relu(W₁ x + b₁) + b₂, head by head

    Shapes: query W₁ x + b₁ [batch, head, query, d_q], key [batch, head, key, any] -> scores [batch, head, query, key].
    """

    def __init__(self, *, heads: int, d_q: int, tokens: int) -> None:
        super().__init__(heads=heads, d_q=d_q, tokens=tokens)
        self.position_map = HeadLinear(d_in=d_q, d_out=tokens, heads=heads, bias=True)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.of_keys(self.position_map(torch.relu(query)), key, context)


class FactoredDense(Synthesized):
    """Factorised dense synthesizer (paper, "Factorized Models"): for each place the product of two of a token's scores.

    C_i,(p a + r) = F_B(X_i)_p F_A(X_i)_r, with a b = tokens, F_A to a scores and F_B to b, both as `Dense` has F

    Each pair is met once: a score of A is repeated block after block, one of B through a block. a and b are as near to
    each other as they can be.

    Shapes: as `Dense`.
    """

    def __init__(self, *, heads: int, d_q: int, tokens: int) -> None:
        super().__init__(heads=heads, d_q=d_q, tokens=tokens)
        inner = next(size for size in range(math.isqrt(tokens), 0, -1) if tokens % size == 0)
        self.inner_map = HeadLinear(d_in=d_q, d_out=inner, heads=heads, bias=True)
        self.outer_map = HeadLinear(d_in=d_q, d_out=tokens // inner, heads=heads, bias=True)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        hidden = torch.relu(query)
        blocks = self.outer_map(hidden).unsqueeze(-1) * self.inner_map(hidden).unsqueeze(-2)
        return self.of_keys(blocks.flatten(-2), key, context)


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
        scores = self.of_keys(self.of_queries(self.table, query, context), key, context)
        return scores.expand(query.shape[0], -1, -1, -1)


class FactoredRandom(Synthesized):
    """Factorised random synthesizer: a matrix of low rank in the place of `Random`'s (paper, "Factorized Models").

    B = R₁ R₂ᵀ, R₁, R₂ ∈ ℝ^{tokens × rank} for each head

    Shapes: as `Random`.
    """

    query_free = True
    rank = 8  # the paper's

    def __init__(self, *, heads: int, d_q: int, tokens: int) -> None:
        super().__init__(heads=heads, d_q=d_q, tokens=tokens)
        self.first, self.second = (
            nn.Parameter(self.rank**-0.25 * torch.randn(tokens, heads, self.rank)) for _ in range(2)
        )

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        scores = self.of_queries(self.first, query, context) @ self.second.permute(1, 2, 0)
        return self.of_keys(scores, key, context).expand(query.shape[0], -1, -1, -1)


class Mixed(Score):
    """Mixture of a synthesizer and the Transformer's own scores (paper, "Mixture of Synthesizers").

    B = α S + (1 - α) Q Kᵀ / √d, α = σ(a) trained, ½ at first; a dense synthesizer's hidden layer reads the queries

    Shapes: query and key [batch, head, position, d_q] -> scores [batch, head, query, key].
    """

    key_order = True

    def __init__(self, synthesized: Synthesized) -> None:
        super().__init__()
        self.synthesized, self.compared = synthesized, ScaledDot()
        self.share = nn.Parameter(torch.zeros(()))
        self.d_q = self.d_k = synthesized.d_q

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        synthesized, compared = (each(query, key, context) for each in (self.synthesized, self.compared))
        return torch.lerp(compared, synthesized, self.share.sigmoid())


class Synthesis(MultiHead):
    """Y = softmax(B) G(X) (paper §3), in heads that are merged as ever; G is `value_map`, W₁ `query_map`.

    Shapes: as `MultiHead` of features that attend to themselves.
    """

    def __init__(self, score: Score, *, d_model: int, heads: int) -> None:
        super().__init__(attention=Attention(score=score), d_model=d_model, heads=heads)
        if score.key_free:
            del self.key_map  # no token is compared with another
        if score.query_free:
            del self.query_map

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The hidden layer of F, keys where they are compared, and values; else of keys but their number is read."""
        values = self.split(self.value_map(key if value is None else value))
        keys = self.split(self.key_map(key)) if hasattr(self, "key_map") else values
        return values if self.attention.query_free else self.split(self.query_map(query)), keys, values


class SynthesizerConfig(EncoderDecoderConfig):
    """Sizes, which are those of the Transformer. random: whether weights are those of places alone. factored: whether
    scores are made of fewer numbers. mixed: whether tokens are compared as well.
    """

    random: bool = False
    factored: bool = False
    mixed: bool = False

    def synthesis(self, tokens: int) -> Synthesis:
        """Self-attention of texts of at most so many tokens."""
        kinds: dict[tuple[bool, bool], Callable[..., Synthesized]] = {
            (False, False): Dense,
            (False, True): FactoredDense,
            (True, False): Random,
            (True, True): FactoredRandom,
        }
        made = kinds[self.random, self.factored](heads=self.heads, d_q=self.d_model // self.heads, tokens=tokens)
        return Synthesis(Mixed(made) if self.mixed else made, d_model=self.d_model, heads=self.heads)

    def of_source(self) -> Synthesis:
        return self.synthesis(self.max_source)

    def looking_back(self) -> CausalAttention:
        return CausalAttention(self.synthesis(self.max_new_tokens))

    def states(self) -> list[State]:
        return [each for each in super().states() if self.mixed or each.input.startswith("values")]


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
SYNTHESIZER_FACTORED, SYNTHESIZER_RANDOM_FACTORED = (
    each.changed(factored=True) for each in (SYNTHESIZER, SYNTHESIZER_RANDOM)
)
SYNTHESIZER_MIXED, SYNTHESIZER_RANDOM_MIXED = (each.changed(mixed=True) for each in (SYNTHESIZER, SYNTHESIZER_RANDOM))
