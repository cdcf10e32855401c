"""Transparent attention, P12 (Bapna et al. 2018): each layer of a decoder reads a mixture of all layers of the encoder.

The Transformer with a deep encoder. What is weighed is layers, not tokens; the weights are parameters, and a short way
for gradients to the lowest layers.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.scoring import Score
from limelight_models.cards.language import Attends, LabelSet, maps_of
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, parts


class TransparentConfig(EncoderDecoderConfig):
    """Sizes. layers: of the decoder; encoder_layers: of the encoder."""

    encoder_layers: int = 8

    def depth(self) -> int:
        return self.encoder_layers


class LayerScore(Score):
    """A parameter for each layer of the decoder and each of the encoder, whatever is read (W of the paper).

    Shapes: query None, key [batch, 1, layer, any] -> scores [batch, 1, reader, layer].
    """

    query_free = True
    key_free = True

    def __init__(self, *, readers: int, layers: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(readers, layers))

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.weight.expand(key.shape[0], 1, -1, -1)


class LastLayer(LayerScore):
    """Reads the encoder's last layer alone: what transparent attention is compared with.

    Shapes: as `LayerScore`.
    """

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        lowest = torch.full_like(self.weight[:, :-1], torch.finfo(self.weight.dtype).min)
        last = torch.cat([lowest, torch.zeros_like(self.weight[:, -1:])], 1)
        return last.expand(key.shape[0], 1, -1, -1)


class TransparentTransformer(EncoderDecoder):
    """Text -> text, with every weight of the Transformer, and those of the layers of the encoder.

    s_ij = exp(W_ij) / Σ_k exp(W_kj) (the paper's weights of layers);  z_j = Σ_{i=0…N} s_ij h_i, h_0 the embedded source

    score: of layers, for so many readers and so many layers.

    Shapes: as `EncoderDecoder`, and the map `layers` [batch, 1, layer of the decoder, 1 + layer of the encoder].
    """

    def __init__(self, config: TransparentConfig, *, score: Callable[..., LayerScore] = LayerScore) -> None:
        super().__init__(config)
        self.mix = Attention(score=score(readers=config.layers, layers=1 + config.encoder_layers))

    def read(self, layers: Sequence[Tensor]) -> tuple[Sequence[Tensor], Mapping[str, Tensor]]:
        stacked = torch.stack(list(layers), 1).flatten(2).unsqueeze(1)  # [batch, 1, layer, source × d_model]
        mixed, weights = self.mix(None, stacked)
        return mixed[:, 0].unflatten(-1, (-1, self.config.d_model)).unbind(1), {"layers": weights}


def numbered_layers(count: int) -> tuple[str, ...]:
    """Name the layers as the maps do: `layer 0`, `layer 1`, …"""
    return tuple(f"layer {number}" for number in range(count))


def card(network: TransparentTransformer, blueprint: Blueprint[TransparentConfig]) -> Card:
    """Describe the model."""
    config = blueprint.config
    readers = LabelSet(name="decoder_layers", kind="hops", names=numbered_layers(config.layers))
    read = ("embedding", *numbered_layers(config.encoder_layers))
    encoder = LabelSet(name="encoder_layers", kind="representations", names=read)
    mixed = Attends(
        readers, encoder, "How much each layer of the decoder reads of each layer of the encoder.", "memory"
    )
    return blueprint.card(
        network,
        title="Transformer with transparent attention",
        summary="Rewrites a text token by token; its decoder reads a mixture of all layers of a deep encoder.",
        taxonomy="scaled multiplicative, self-attentive, basic, multi-head, multi-hop",
        citation="Bapna, Chen, Firat, Cao, Wu (2018): Training Deeper Neural Machine Translation Models with "
        "Transparent Attention. EMNLP",
        **parts(network, blueprint, maps_of(network.mix, {"layers": mixed})),
    )


PRESETS = {
    "tiny": tiny(d_model=8, layers=1, encoder_layers=2, heads=2, d_hidden=8),
    "demo": preset(12, 64, 2e-3, patience=12, d_model=32, encoder_layers=10, d_hidden=64),
    "full": preset(12, 64, 1e-3, patience=12, vocabulary=2000, encoder_layers=10, d_hidden=256),
    # The deepest encoder that the paper trains, with this project's schedule of the learning rate.
    "paper": preset(20, 512, 7e-4, patience=20, weight_decay=0.0, vocabulary=32_000).sized(
        d_model=512, layers=6, encoder_layers=20, heads=8, d_hidden=2048
    ),
}

TRANSPARENT = rewriting(TransparentConfig, TransparentTransformer, card, PRESETS)
# As deep, but the decoder reads the encoder's last layer alone.
TRANSPARENT_LAST = TRANSPARENT.with_parts(score=LastLayer)
