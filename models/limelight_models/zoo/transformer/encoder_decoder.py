"""Encoder and decoder of the Transformer (Vaswani et al. 2017, Figure 1), for models that exchange a part of it.

A model's config makes the parts: the encoder's layers, the decoder's attention to what was put out, and that over the
source.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from limelight_models.attention import Attention
from limelight_models.attention.cached import CausalAttention, CrossAttention, KVCache
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.transformer import AddAndNorm, FeedForward, PostNormLayer, places
from limelight_models.cards.hidden import named_states
from limelight_models.cards.language import Attends, Map, State, cached_states, input_steps, maps_of
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Preset, preset, tiny
from limelight_models.recipes.rewriting import Seq2SeqConfig


class EncoderDecoderConfig(Seq2SeqConfig):
    """Sizes. The paper's base model has d_model 512, 6 layers, 8 heads and d_hidden 2048."""

    d_model: int = 64
    layers: int = 2
    heads: int = 4
    d_hidden: int = 128
    dropout: float = 0.1

    def depth(self) -> int:
        """Layers of the encoder."""
        return self.layers

    def multi_head(self) -> MultiHead:
        """Attention of this many heads."""
        return MultiHead(attention=Attention(score=ScaledDot()), d_model=self.d_model, heads=self.heads)

    def of_source(self) -> nn.Module:
        """The encoder's attention of a source to itself."""
        return self.multi_head()

    def looking_back(self) -> CausalAttention:
        """The decoder's attention to what was put out."""
        return CausalAttention(self.multi_head())

    def of_memory(self) -> CrossAttention:
        """The decoder's attention to the source."""
        return CrossAttention(self.multi_head())

    def states(self) -> list[State]:
        """The decoder's cached keys and values of tokens that were put out."""
        return cached_states(self.layers, self.heads, self.d_model)


class DecoderLayer(nn.Module):
    """Self-attention that looks back alone, attention over the source, then the position-wise network.

    Shapes: features [batch, output, d_model], memory of `CrossAttention.read`, mask bool [batch, source] -> the same,
        weights of both.
    """

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.itself, self.cross = config.looking_back(), config.of_memory()
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


class EncoderDecoder(GeneratingNetwork):
    """Text -> text, with every weight of the encoder, of the decoder on itself, and between them.

    Shapes: source_ids int64 [batch, source], source_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], maps `encoder.<layer>.self` [batch, head, source, source],
        `decoder.<layer>.self` [batch, head, output, output], `decoder.<layer>.cross` [batch, head, output, source].
    """

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocabulary, config.d_model)
        self.target_embedding = nn.Embedding(config.target_vocabulary, config.d_model)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=config.d_model**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(
            PostNormLayer(
                attention=config.of_source(), d_model=config.d_model, d_hidden=config.d_hidden, dropout=config.dropout
            )
            for _ in range(config.depth())
        )
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))

    def embed(self, embedding: nn.Module, token: Tensor, position: Tensor) -> Tensor:
        """√d_model · E y + PE (§3.4, 3.5): […] -> […, d_model]."""
        embedded = math.sqrt(self.config.d_model) * embedding(token)
        placed: Tensor = self.dropout(embedded + places(position, embedded))
        return placed

    def embed_source(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The embedded source [batch, source, d_model]."""
        return self.embed(self.source_embedding, ids, torch.arange(ids.shape[1], device=ids.device))

    def scores(self, features: Tensor) -> Tensor:
        """[…, d_model] -> […, token]: by the target's embeddings themselves (§3.4)."""
        return linear(features, self.target_embedding.weight)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """The encoder's maps and hidden states, and what each layer of the decoder reads of its result."""
        ids, mask = tensors["source_ids"], tensors["source_mask"]
        features = self.embed_source(ids, mask)
        found: dict[str, Tensor] = {}
        layers = [features]
        for number, layer in enumerate(self.encoder):
            features, found[f"encoder.{number}.self"] = layer(features, mask)
            layers.append(features)
        read, shown = self.read(layers)
        for number, (reader, features) in enumerate(zip(self.decoder, read, strict=True)):
            assert isinstance(reader, DecoderLayer)
            memory = reader.cross.read(features)
            found |= {f"source_keys.{number}": memory.keys, f"source_values.{number}": memory.values}
        return {**found, **shown, **named_states("encoder", layers)}

    def read(self, layers: Sequence[Tensor]) -> tuple[Sequence[Tensor], Mapping[str, Tensor]]:
        """The source states that each layer of the decoder reads, and maps of them: here the encoder's last layer.

        layers: the embedded source, and what each layer of the encoder makes of it, [batch, source, d_model].
        """
        return [layers[-1]] * len(self.decoder), {}

    def memory(self, number: int, tensors: Mapping[str, Tensor]) -> KVCache:
        """What a layer of the decoder reads of the source; at a step with the states that it left."""
        return KVCache(tensors[f"source_keys.{number}"], tensors[f"source_values.{number}"])

    def left(self, number: int, cross: Tensor) -> dict[str, Tensor]:
        """States that a layer leaves besides its cache, from its weights over the source [batch, head, 1, source]."""
        return {}

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        position, mask = tensors["position"], tensors["source_mask"]
        features = self.embed(self.target_embedding, token, position).unsqueeze(1)
        states: dict[str, Tensor] = {}
        maps: dict[str, Tensor] = {}
        hidden = [features[:, 0]]
        for number, layer in enumerate(self.decoder):
            assert isinstance(layer, DecoderLayer)
            values = tensors[f"values.{number}"]
            kept = KVCache(tensors.get(f"keys.{number}", values), values)  # of keys that are not read, none are kept
            memory = self.memory(number, tensors)
            features, own, cross, new = layer.step(features, kept, position, memory, mask)
            hidden.append(features[:, 0])
            both = {f"keys.{number}": new.keys, f"values.{number}": new.values}
            both |= self.left(number, cross)
            states |= {f"next_{name}": made for name, made in both.items() if name in tensors}
            maps |= {f"decoder.{number}.self": own[:, :, 0], f"decoder.{number}.cross": cross[:, :, 0]}
        return StepAnswer(self.scores(hidden[-1]), states, maps, named_states("decoder", hidden))

    def forward(self, **tensors: Tensor) -> Answer:
        encoded, target = self.encode(**tensors), tensors["target_ids"]
        put_in = torch.cat([torch.full_like(target[:, :1], self.config.begin), target[:, :-1]], 1)
        features = self.embed(self.target_embedding, put_in, torch.arange(put_in.shape[1], device=put_in.device))
        of_layers = ("source_keys.", "source_values.", "encoder.hidden.", "initial_")
        maps = {name: each for name, each in encoded.items() if not name.startswith(of_layers)}
        states = [features]
        for number, layer in enumerate(self.decoder):
            memory = self.memory(number, encoded)
            features, own, cross = layer(features, memory, tensors["source_mask"])
            states.append(features)
            maps |= {f"decoder.{number}.self": own, f"decoder.{number}.cross": cross}
        hidden = {name: each for name, each in encoded.items() if name.startswith("encoder.hidden.")}
        return Answer({"scores": self.scores(features), **hidden, **named_states("decoder", states)}, maps)


def parts(network: EncoderDecoder, blueprint: Blueprint[Any], read: Mapping[str, Map] | None = None) -> dict[str, Any]:
    """Parts of all of their cards: inputs, the result, maps and hidden states of the layers. read: maps of `read`."""
    config = network.config
    text, target = config.source(blueprint.files), config.target(blueprint.files)
    written = config.written(blueprint.files, position="position", states=config.states())
    source, put_in = text.tokens("source"), input_steps()
    reading = {"encoder.{}.self": Attends(source, source, "What each token of the source looks at in layer {}.")}
    own = "Where layer {} looked in what was put out so far, before each token."
    putting_out = {
        "decoder.{}.self": Attends(written.steps, put_in, own),
        "decoder.{}.cross": Attends(written.steps, source, "Where layer {} looked in the source before each token."),
    }
    return {
        "inputs": [text, target],
        "results": [written],
        "maps": {**maps_of(network.encoder, reading), **(read or {}), **maps_of(network.decoder, putting_out)},
        "hidden": dict.fromkeys(("encoder", "decoder"), config.d_model),
    }


# For models that exchange attention alone. Paper: Transformer base, with this project's schedule of the learning rate.
PRESETS: Mapping[str, Preset] = {
    "tiny": tiny(d_model=8, layers=1, heads=2, d_hidden=8),
    "demo": preset(16, 64, 2e-3, d_model=64, layers=2, heads=4, d_hidden=128),
    "full": preset(12, 64, 1e-3, patience=2, vocabulary=2000).sized(
        d_model=128, layers=2, heads=8, d_hidden=512, dropout=0.1
    ),
    "paper": preset(20, 512, 7e-4, patience=20, weight_decay=0.0, vocabulary=32_000).sized(
        d_model=512, layers=6, heads=8, d_hidden=2048, dropout=0.1
    ),
}
