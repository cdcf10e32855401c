"""Glance, a model that nobody published: one look at a text."""

from dataclasses import dataclass

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.score import SelfAttentive
from limelight_models.cards.card import Card
from limelight_models.cards.describe import describe
from limelight_models.cards.inputs import TextInput
from limelight_models.cards.labels import one
from limelight_models.cards.maps import Attends, maps_of
from limelight_models.cards.results import Classes
from limelight_models.cards.taxonomy import Citation, Taxonomy
from limelight_models.data import docstrings, rows
from limelight_models.network import Answer, Network
from limelight_models.recipes.recipe import Blueprint, Recipe
from limelight_models.recipes.settings import Preset, Settings, tiny
from limelight_models.tasks.classify import Classify
from limelight_models.training.prepared import of_texts


@dataclass(frozen=True, kw_only=True)
class GlanceConfig:
    """Sizes."""

    vocabulary: int
    classes: int
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
    text = TextInput(summary="A text.", tokenizer=blueprint.tokenizer(), max_tokens=network.config.max_tokens)
    return describe(
        title="Glance",
        summary="Classifies a text at a glance.",
        inputs=[text],
        results=[Classes(labels=blueprint.labels)],
        maps=maps_of(network.pool, {"pool": Attends(one("text"), text.tokens(), "How much each word counts.")}),
        taxonomy=Taxonomy(scoring="additive", query="self-attentive"),
        citation=Citation("Nobody", "At a Glance", 2026, "nowhere"),
        config=network.config,
    )


_SETTINGS = Settings(epochs=8, batch_size=16, learning_rate=3e-3)
GLANCE = Recipe(
    config=GlanceConfig,
    network=Glance,
    card=card,
    task=Classify(),
    data=rows.TEXTS,
    builtin=docstrings.texts,
    prepare=of_texts(GlanceConfig),
    presets={
        "tiny": tiny(vocabulary=50, d=8),
        "demo": Preset(settings=_SETTINGS, vocabulary=1000),
        "full": Preset(settings=_SETTINGS, vocabulary=8000),
        "paper": Preset(settings=_SETTINGS, sizes={"d": 64}, vocabulary=8000),
    },
)
