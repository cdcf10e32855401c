"""Set Transformer, M9 (Lee et al. 2019): a set is read through trained points, and its order says nothing.

Fig. 1 of the paper: (d) a set attends to what a few points found in it; then §3.2, a trained seed pools it. A text is a
bag of its words here. Between both attentions of a block are a network and norms, which are not linear: no one map of
the set over itself comes to what a block does, so that both maps are served.
"""

from torch import Tensor, nn

from limelight_models.attention.flat import average
from limelight_models.attention.queries.learned import LearnedQuery
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.transformer import FeedForward, PostNormLayer
from limelight_models.cards.language import Attends, maps_of, numbered, one
from limelight_models.data import docstrings
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny

WAYS = ("inward", "outward")


class SetConfig(TextSizes):
    """Sizes. points: m. whole: whether the set attends to itself. mean: whether it is averaged, not pooled."""

    d_model: int = 64
    layers: int = 2
    heads: int = 4
    d_hidden: int = 64
    points: int = 16
    dropout: float = 0.1
    whole: bool = False
    mean: bool = False
    max_tokens: int = 16_384
    max_characters: int = 200_000

    def block(self) -> PostNormLayer:
        """MAB(X, Y) = norm(H + rFF(H)), H = norm(X + Multihead(X, Y, Y)) (eq. 6–7); MAB(X, X) is the paper's SAB."""
        return PostNormLayer(d_model=self.d_model, heads=self.heads, d_hidden=self.d_hidden, dropout=self.dropout)


class Induced(nn.Module):
    """ISAB(X) = MAB(X, H), H = MAB(I, X), I ∈ ℝ^{m × d} trained (eq. 9–10).

    Shapes: elements [batch, element, d_model], mask bool [batch, element] -> the same, weights [batch, head, point,
        element] of the points, [batch, head, element, point] of the elements.
    """

    def __init__(self, config: SetConfig) -> None:
        super().__init__()
        self.points = LearnedQuery(d_q=config.d_model, count=config.points)
        self.inward, self.outward = config.block(), config.block()

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of both."""
        return weights_of(self.inward, self.outward)

    def forward(self, elements: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found, inward = self.inward(self.points(elements).squeeze(1), mask, elements)
        elements, outward = self.outward(elements, mask[:, None, :, None], found)  # padding asks for nothing
        return elements, inward, outward


class SetTransformer(Network):
    """Text -> classes, whatever the order of its tokens, with what points and tokens look at.

    pooled = MAB(S, rFF(Z)) of one seed S (eq. 11);  y = W pooled + b

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class], maps
        `encoder.<layer>.inward` [batch, head, point, token], `encoder.<layer>.outward` [batch, head, token, point],
        `pool` [batch, head, 1, token]; with `whole` `encoder.<layer>.self` [batch, head, token, token].
    """

    def __init__(self, config: SetConfig) -> None:
        super().__init__()
        self.config, d_model = config, config.d_model
        self.embedding = nn.Embedding(config.vocabulary, d_model, padding_idx=0)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(config.block() if config.whole else Induced(config) for _ in range(config.layers))
        if not config.mean:
            self.seed, self.pool = LearnedQuery(d_q=d_model), config.block()
            self.row_wise = FeedForward(d_model=d_model, d_hidden=config.d_hidden)
        self.classify = nn.Linear(d_model, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        elements = self.dropout(self.embedding(tensors["token_ids"]))
        maps: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            if self.config.whole:
                elements, maps[f"encoder.{number}.self"] = layer(elements, mask[:, None, :, None] & mask[:, None, None])
            else:
                elements, *both = layer(elements, mask)
                maps |= {f"encoder.{number}.{way}": each for way, each in zip(WAYS, both, strict=True)}
        if self.config.mean:
            return Answer({"logits": self.classify(average(elements, mask).squeeze(1))}, maps)
        seed = self.seed(elements).squeeze(1)
        pooled, maps["pool"] = self.pool(seed, mask, self.row_wise(elements))
        return Answer({"logits": self.classify(pooled[:, 0])}, maps)


def card(network: SetTransformer, blueprint: Blueprint[SetConfig]) -> Card:
    """Describe the network."""
    text = blueprint.text("A text, whose order says nothing.")
    tokens, points = text.tokens(), numbered("points", "latents", "point", network.config.points)
    shown = {
        "encoder.{}.inward": Attends(points, tokens, "What each point of layer {} finds in the text.", kind="cross"),
        "encoder.{}.outward": Attends(tokens, points, "Which points of layer {} each token reads.", kind="cross"),
    }
    if network.config.whole:
        shown = {"encoder.{}.self": Attends(tokens, tokens, "What each token of layer {} looks at.")}
    pooled = {"pool": Attends(one("text"), tokens, "What the text is judged by.")}
    return blueprint.card(
        network,
        title="Set Transformer",
        summary="Classifies a text as a set of tokens, which attend to a few points that attended to them.",
        inputs=[text],
        maps=maps_of(network.layers, shown) | ({} if network.config.mean else maps_of(network.pool, pooled)),
        taxonomy="scaled multiplicative, self-attentive, specialised, multi-head, multi-hop",
        citation="Lee, Lee, Kim, Kosiorek, Choi, Teh (2019): Set Transformer: A Framework for Attention-based "
        "Permutation-Invariant Neural Networks. ICML",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_model=8, layers=2, heads=2, d_hidden=12, points=3, max_tokens=256),
    "demo": preset(8, 32, 2e-3, patience=3, vocabulary=3000, max_tokens=2048),
    "full": preset(10, 32, 1e-3, patience=2, vocabulary=8000).sized(d_model=256, heads=8, d_hidden=512, points=32),
    # Its classifier of points of shapes (§5.5), whose sets are not words: two blocks of 4 heads and 16 points.
    "paper": preset(100, 64, 1e-3, patience=100, vocabulary=8000).sized(d_model=256, d_hidden=256, dropout=0.5),
}

SET_TRANSFORMER = classifying_texts(SetConfig, SetTransformer, card, PRESETS, builtin=docstrings.texts)
# What the paper compares both of its parts with: no points between, and an average in the place of the pool.
SET_TRANSFORMER_WHOLE = SET_TRANSFORMER.changed(whole=True)
SET_TRANSFORMER_MEAN = SET_TRANSFORMER.changed(mean=True)
