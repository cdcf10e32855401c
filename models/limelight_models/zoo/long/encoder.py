"""The encoder that rows of sub-quadratic attention share: a Transformer's (Vaswani et al. 2017, Fig. 1, left).

A text is put into a class by the state of its last token. Each token is read with the one before it, by a convolution
of two (as of Arora et al. 2024, §3), so that a layer can look for what stood beside something.
"""

from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.blocks.transformer import PostNormLayer, places
from limelight_models.cards.language import Attends, maps_of
from limelight_models.data import recall
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Preset, TextSizes, preset, tiny


class LongConfig(TextSizes):
    """Sizes of an encoder of long texts."""

    d_model: int = 64
    layers: int = 2
    heads: int = 4
    d_hidden: int = 128
    dropout: float = 0.1
    max_tokens: int = 16_384
    max_characters: int = 200_000
    placed: ClassVar[bool] = True  # tokens are told their places

    @property
    def d_head(self) -> int:
        """Features of a head."""
        return self.d_model // self.heads

    @property
    def looks_back(self) -> bool:
        """Whether a mask lets a token look at itself and those before it alone."""
        return False

    @abstractmethod
    def attention(self) -> Attention | Effective[Any]:
        """Attention of a layer, whose tensors are [batch, head, token, d_head]."""

    def multi_head(self, number: int) -> MultiHead:
        """The same with its heads' maps, of a layer's number, from 0."""
        return MultiHead(attention=self.attention(), d_model=self.d_model, heads=self.heads)

    def layer(self, number: int) -> nn.Module:
        """A layer, counted from 0: called with features and a mask, it gives features and weights, which it `makes`."""
        return PostNormLayer(
            d_model=self.d_model, d_hidden=self.d_hidden, dropout=self.dropout, attention=self.multi_head(number)
        )


class LongEncoder(Network):
    """Text -> classes, with the effective map of every layer.

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class], maps
        `encoder.<layer>.self` [batch, head, token, token].
    """

    def __init__(self, config: LongConfig) -> None:
        super().__init__()
        self.config, d_model = config, config.d_model
        self.embedding = nn.Embedding(config.vocabulary, d_model, padding_idx=0)
        self.before = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(config.layer(number) for number in range(config.layers))
        self.classify = nn.Linear(d_model, config.classes)

    def encode(self, features: Tensor, mask: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Features [batch, token, d_model] of the last layer, and the maps of all."""
        looks, maps = self.looks(mask), dict[str, Tensor]()
        for number, layer in enumerate(self.layers):
            features, maps[f"encoder.{number}.self"] = layer(features, looks)
        return features, maps

    def looks(self, mask: Tensor) -> Tensor:
        """What each token may look at, bool [batch, 1, 1 or token, token], of the tokens that there are."""
        if not self.config.looks_back:
            return mask[:, None, None]
        position = torch.arange(mask.shape[1], device=mask.device)
        return mask[:, None, None] & (position.unsqueeze(-1) >= position)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        tokens = self.embedding(ids)
        before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1)
        position = torch.arange(ids.shape[1], device=ids.device)
        read = tokens + self.before(before)
        features = self.dropout(read + places(position, tokens) if self.config.placed else read)
        features, maps = self.encode(features, mask)
        last = (mask.sum(1) - 1).clamp(min=0)
        return Answer({"logits": self.classify(features[torch.arange(ids.shape[0], device=ids.device), last])}, maps)


def parts(network: LongEncoder, blueprint: Blueprint[Any]) -> dict[str, Any]:
    """Inputs and maps of the card."""
    text = blueprint.text("A long text.")
    shown = Attends(text.tokens(), text.tokens(), "What weight each token of layer {} comes to give to each.")
    return {"inputs": [text], "maps": maps_of(network.layers, {"encoder.{}.self": shown})}


def presets(paper: Preset) -> dict[str, Preset]:
    """Sizes and settings by name, of which `paper` are those of a row's paper."""
    return {
        "tiny": tiny(vocabulary=50, d_model=8, layers=1, heads=2, d_hidden=12, max_tokens=256),
        "demo": preset(6, 32, 2e-3, patience=4, vocabulary=200, max_tokens=2048),
        "full": preset(10, 32, 1e-3, patience=2, vocabulary=8000).sized(d_model=256, layers=4, heads=8, d_hidden=1024),
        "paper": paper,
    }


builtin = partial(recall.dataset, "induction", tokens=256)
