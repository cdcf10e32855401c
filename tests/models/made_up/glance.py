"""Glance, a model that nobody published: one look at a text."""

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.score import SelfAttentive
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.data import docstrings
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny


class GlanceConfig(TextSizes):
    """Sizes."""

    d: int = 32
    max_tokens: int = 64
    max_characters: int = 1000


class Glance(Network):
    """Text -> classes. Shapes: token_ids int64 [batch, token], token_mask -> logits, map [batch, 1, 1, token]."""

    def __init__(self, config: GlanceConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d, padding_idx=0)
        self.pool = SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=config.d, d_w=config.d)))
        self.classify = nn.Linear(config.d, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        pooled, weights = self.pool(self.embedding(tensors["token_ids"]), mask=tensors["token_mask"])
        return Answer({"logits": self.classify(pooled)}, {"pool": weights})


def card(network: Glance, blueprint: Blueprint[GlanceConfig]) -> Card:
    """Describe the network."""
    text = blueprint.text("A text.")
    return blueprint.card(
        network,
        title="Glance",
        summary="Classifies a text at a glance.",
        inputs=[text],
        maps=maps_of(network.pool, {"pool": Attends(one("text"), text.tokens(), "How much each word counts.")}),
        taxonomy="additive, self-attentive",
        citation="Nobody (2026): At a Glance. nowhere",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d=8),
    "demo": preset(8, 16, 3e-3, vocabulary=1000),
    "full": preset(8, 16, 3e-3, vocabulary=8000),
    "paper": preset(8, 16, 3e-3, vocabulary=8000, d=64),
}
GLANCE = classifying_texts(GlanceConfig, Glance, card, PRESETS, builtin=docstrings.texts)
