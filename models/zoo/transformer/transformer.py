"""Transformer, J7 (Vaswani et al. 2017, Figure 1): an encoder, and a decoder that looks at it and back at itself."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from models.attention import Attention
from models.attention.cached import CausalAttention, CrossAttention, KVCache
from models.attention.queries.multi_head import MultiHead
from models.attention.score import ScaledDot
from models.attention.weights import Weights, weights_of
from models.blocks.transformer import AddAndNorm, FeedForward, PostNormLayer, places
from models.cards.card import Card
from models.cards.describe import describe
from models.cards.labels import input_steps
from models.cards.maps import Attends, maps_of
from models.cards.results import cached_states
from models.cards.taxonomy import Citation, Taxonomy
from models.data import dates, rows
from models.network import Answer, GeneratingNetwork, StepAnswer
from models.tasks.generate import Generate
from models.training.recipe import Blueprint, Recipe
from models.training.settings import Preset, Settings, tiny
from models.zoo.seq2seq import Seq2SeqConfig, prepare


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Seq2SeqConfig):
    """Sizes. The paper's base model has d_model 512, 6 layers, 8 heads and d_hidden 2048."""

    d_model: int = 64
    layers: int = 2
    heads: int = 4
    d_hidden: int = 128
    dropout: float = 0.1

    def multi_head(self) -> MultiHead:
        """Attention of this many heads."""
        return MultiHead(attention=Attention(score=ScaledDot()), d_model=self.d_model, heads=self.heads)

    def encoder_layer(self) -> PostNormLayer:
        """A layer of the encoder."""
        return PostNormLayer(d_model=self.d_model, heads=self.heads, d_hidden=self.d_hidden, dropout=self.dropout)


class DecoderLayer(nn.Module):
    """Self-attention that looks back alone, attention over the source, then the position-wise network.

    Shapes: features [batch, output, d_model], memory of `CrossAttention.read`, mask bool [batch, source] -> the same,
        weights of both.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.itself, self.cross = CausalAttention(config.multi_head()), CrossAttention(config.multi_head())
        self.hidden = FeedForward(d_model=config.d_model, d_hidden=config.d_hidden)
        self.after_itself, self.after_cross, self.after_hidden = (
            AddAndNorm(d_model=config.d_model, dropout=config.dropout) for _ in range(3)
        )

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those over what was put out; then those over the source."""
        return weights_of(self.itself, self.cross)

    def forward(self, features: Tensor, memory: KVCache, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        attended, own, _ = self.itself(features)
        features, cross = self.rest(self.after_itself(features, attended), memory, mask)
        return features, own, cross

    def step(
        self, features: Tensor, kept: KVCache, position: Tensor, memory: KVCache, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, KVCache]:
        """One token [batch, 1, d_model], from what is kept of those before it."""
        attended, own, new = self.itself.step(features, kept, position)
        features, cross = self.rest(self.after_itself(features, attended), memory, mask)
        return features, own, cross, new

    def rest(self, features: Tensor, memory: KVCache, mask: Tensor) -> tuple[Tensor, Tensor]:
        """All behind the attention to itself."""
        attended, weights = self.cross(features, memory, mask)
        features = self.after_cross(features, attended)
        return self.after_hidden(features, self.hidden(features)), weights


class Transformer(GeneratingNetwork):
    """Text -> text, with every weight of the encoder, of the decoder on itself, and between them.

    Shapes: source_ids int64 [batch, source], source_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], maps `encoder.<layer>.self` [batch, head, source, source],
        `decoder.<layer>.self` [batch, head, output, output], `decoder.<layer>.cross` [batch, head, output, source].
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocabulary, config.d_model)
        self.target_embedding = nn.Embedding(config.target_vocabulary, config.d_model)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=config.d_model**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(config.encoder_layer() for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))

    def embed(self, embedding: nn.Module, token: Tensor, position: Tensor) -> Tensor:
        """√d_model · E y + PE (§3.4, 3.5): […] -> […, d_model]."""
        d_model = self.config.d_model
        embedded: Tensor = self.dropout(math.sqrt(d_model) * embedding(token) + places(position, d_model))
        return embedded

    def scores(self, features: Tensor) -> Tensor:
        """[…, d_model] -> […, token]: by the target's embeddings themselves (§3.4)."""
        return linear(features, self.target_embedding.weight)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """The encoder's maps, and what each layer of the decoder reads of its result."""
        ids, mask = tensors["source_ids"], tensors["source_mask"]
        features = self.embed(self.source_embedding, ids, torch.arange(ids.shape[1], device=ids.device))
        found: dict[str, Tensor] = {}
        for number, layer in enumerate(self.encoder):
            features, found[f"encoder.{number}.self"] = layer(features, mask)
        for number, reader in enumerate(self.decoder):
            assert isinstance(reader, DecoderLayer)
            memory = reader.cross.read(features)
            found |= {f"source_keys.{number}": memory.keys, f"source_values.{number}": memory.values}
        return found

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        position, mask = tensors["position"], tensors["source_mask"]
        features = self.embed(self.target_embedding, token, position).unsqueeze(1)
        states: dict[str, Tensor] = {}
        maps: dict[str, Tensor] = {}
        for number, layer in enumerate(self.decoder):
            assert isinstance(layer, DecoderLayer)
            kept = KVCache(tensors[f"keys.{number}"], tensors[f"values.{number}"])
            memory = KVCache(tensors[f"source_keys.{number}"], tensors[f"source_values.{number}"])
            features, own, cross, new = layer.step(features, kept, position, memory, mask)
            states |= {f"next_keys.{number}": new.keys, f"next_values.{number}": new.values}
            maps |= {f"decoder.{number}.self": own[:, :, 0], f"decoder.{number}.cross": cross[:, :, 0]}
        return StepAnswer(self.scores(features[:, 0]), states, maps)

    def forward(self, **tensors: Tensor) -> Answer:
        encoded, target = self.encode(**tensors), tensors["target_ids"]
        put_in = torch.cat([torch.full_like(target[:, :1], self.config.begin), target[:, :-1]], 1)
        features = self.embed(self.target_embedding, put_in, torch.arange(put_in.shape[1], device=put_in.device))
        maps = {f"encoder.{number}.self": encoded[f"encoder.{number}.self"] for number in range(len(self.encoder))}
        for number, layer in enumerate(self.decoder):
            memory = KVCache(encoded[f"source_keys.{number}"], encoded[f"source_values.{number}"])
            features, own, cross = layer(features, memory, tensors["source_mask"])
            maps |= {f"decoder.{number}.self": own, f"decoder.{number}.cross": cross}
        return Answer({"scores": self.scores(features)}, maps)


def card(network: Transformer, blueprint: Blueprint[TransformerConfig]) -> Card:
    """Describe the model."""
    config = network.config
    text, target = config.source(blueprint.files), config.target(blueprint.files)
    written = config.written(
        blueprint.files,
        position="position",
        states=cached_states(config.layers, config.heads, config.d_model),
    )
    source, put_in = text.tokens("source"), input_steps()
    reading = {"encoder.{}.self": Attends(source, source, "What each token of the source looks at in layer {}.")}
    own = "Where layer {} looked in what was put out so far, before each token."
    putting_out = {
        "decoder.{}.self": Attends(written.steps, put_in, own),
        "decoder.{}.cross": Attends(written.steps, source, "Where layer {} looked in the source before each token."),
    }
    return describe(
        title="Transformer",
        summary="Rewrites a text token by token, looking at the source and back at itself before each one.",
        inputs=[text, target],
        results=[written],
        maps=maps_of(network.encoder, reading) | maps_of(network.decoder, putting_out),
        taxonomy=Taxonomy(
            scoring="scaled multiplicative",
            query=("self-attentive", "basic"),
            multiplicity=("multi-head", "multi-hop"),
        ),
        citation=Citation(
            "Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser, Polosukhin",
            "Attention Is All You Need",
            2017,
            "NeurIPS",
        ),
        config=config,
    )


PRESETS = {
    "tiny": tiny(d_model=16, layers=2, heads=2, d_hidden=16),
    "demo": Preset(
        settings=Settings(epochs=24, batch_size=64, learning_rate=2e-3, patience=4),
        sizes={"d_model": 64, "layers": 2, "heads": 4, "d_hidden": 128},
    ),
    "full": Preset(
        settings=Settings(epochs=12, batch_size=64, learning_rate=1e-3, patience=2),
        sizes={"d_model": 128, "layers": 2, "heads": 8, "d_hidden": 512, "dropout": 0.1},
        vocabulary=2000,
    ),
    # The base model (Table 3) on pieces of words (§5.1), with this project's schedule of the learning rate.
    "paper": Preset(
        settings=Settings(epochs=20, batch_size=512, learning_rate=7e-4, patience=20, weight_decay=0.0),
        sizes={"d_model": 512, "layers": 6, "heads": 8, "d_hidden": 2048, "dropout": 0.1},
        vocabulary=37_000,
    ),
}

TRANSFORMER = Recipe(
    config=TransformerConfig,
    network=Transformer,
    card=card,
    task=Generate(),
    data=rows.PAIRS,
    builtin=dates.dataset,
    prepare=prepare(TransformerConfig),
    presets=PRESETS,
)
