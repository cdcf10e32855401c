"""Two texts, pooled into a vector each, from which classes of the pair are told."""

from typing import Any

from torch import Tensor, nn

from limelight_models.attention.alignment import fill
from limelight_models.blocks.comparison import both, comparison
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.network import Answer, Network

SIDES = ("first", "second")


class ComparedPair(Network):
    """Words, a BiLSTM that both texts share, a vector of each, and logits = W relu(W' [a; b; a - b; a ⊙ b]).

    The comparison is that of Mou et al. (2016). pool: makes of the states [batch, word, 2 d_hidden] and masks of both a
    vector of each and named weights; without, the largest of each feature is taken. config: has `vocabulary`,
    `classes`, `d_embedding`, `d_hidden`, `d_compare` and `dropout`.
    """

    def __init__(self, config: Any, pool: nn.Module | None) -> None:
        super().__init__()
        self.config, self.pool = config, pool
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.encoder = BiLstm(d_in=config.d_embedding, d_hidden=config.d_hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.compare = comparison(
            2 * config.d_hidden, hidden=config.d_compare, classes=config.classes, dropout=config.dropout
        )

    def forward(self, **tensors: Tensor) -> Answer:
        masks = [tensors[f"{side}_mask"] for side in SIDES]
        words = [self.dropout(self.embedding(tensors[f"{side}_ids"])) for side in SIDES]
        states = [self.encoder(each, mask) for each, mask in zip(words, masks, strict=True)]
        maps: dict[str, Tensor] = {}
        if self.pool is None:
            first, second = (fill(each, mask.unsqueeze(-1)).amax(1) for each, mask in zip(states, masks, strict=True))
        else:
            (first, second), weights = self.pool(*states, *masks)
            maps = weights._asdict()
        return Answer({"logits": self.compare(self.dropout(both(first, second)))}, maps)
