"""Two sentences, each encoded as one vector, and compared (Shen et al. 2018, §5.1): what DiSAN and Bi-BloSAN share."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from limelight_models.blocks.comparison import both, comparison
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, TextSizes, preset, tiny

SIDES = ("first", "second")


class ComparedConfig(TextSizes):
    """Sizes. The paper has d 300 for words (GloVe) and features alike, and d_compare 300."""

    d: int = 48
    d_compare: int = 96
    dropout: float = 0.3
    max_tokens: int = 64


class Encoded(NamedTuple):
    """Sentences as vectors [batch, 2 d], and the maps of how, by name."""

    vector: Tensor
    maps: Mapping[str, Tensor]


class Compared(Network):
    """Two sentences -> classes of the pair, with the weights of each sentence's encoding.

    encoder: makes, of the config, what gives an `Encoded` of words and their mask, and says its `maps`.

    logits = W relu(W' [s¹; s²; s¹ - s²; s¹ ⊙ s²])

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same -> logits [batch, class],
        the maps of the encoder as `first.<map>` and `second.<map>`.
    """

    def __init__(self, config: ComparedConfig, *, encoder: Callable[[Any], Any]) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = encoder(config)
        self.compare = comparison(2 * config.d, hidden=config.d_compare, classes=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        vectors: list[Tensor] = []
        maps: dict[str, Tensor] = {}
        for side in SIDES:
            words = self.dropout(self.embedding(tensors[f"{side}_ids"]))
            encoded: Encoded = self.encoder(words, tensors[f"{side}_mask"])
            vectors.append(encoded.vector)
            maps |= {f"{side}.{name}": weights for name, weights in encoded.maps.items()}
        first, second = vectors
        return Answer({"logits": self.compare(both(first, second))}, maps)


def parts(network: Compared, blueprint: Blueprint[Any]) -> dict[str, Any]:
    """Inputs and maps of the card."""
    pair = blueprint.pair("Two sentences: what is given (the premise), and what is asked about it (the hypothesis).")
    maps = {
        f"{side}.{name}": each
        for side, tokens in zip(SIDES, (pair.first, pair.second), strict=True)
        for name, each in network.encoder.maps(tokens, network.config.d).items()
    }
    return {"inputs": [pair], "maps": maps}


PRESETS = {
    "tiny": tiny(vocabulary=50, d=8, d_compare=8, dropout=0.0),
    "demo": preset(4, 32, 4e-3, patience=2, vocabulary=500, d=16, d_compare=32, dropout=0.1),
    "full": preset(8, 32, 2e-3, patience=3, vocabulary=8000),
    # The authors' for SNLI, with Adam in the place of Adadelta. Their words are GloVe's, and stay as they are.
    "paper": preset(50, 64, 1e-3, weight_decay=5e-5, patience=10, vocabulary=40_000).sized(
        d=300, d_compare=300, dropout=0.25
    ),
}
