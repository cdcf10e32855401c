"""Several representations of each word, and attention that chooses between them (BF §3.1.3, F2)."""

import torch
from torch import Tensor, nn

from limelight_models.attention.flat import average
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.representations import MetaEmbedding
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import map_of
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.letters import Spelled
from limelight_models.catalogue.testbed.text import ATTENTION, TOKENS, Features, Texts
from limelight_models.network import Answer
from limelight_models.tasks.heads import Scores

REPRESENTATIONS = LabelSet(
    name="representations", kind="representations", names=("word", "letters", "word with its neighbours")
)


class WordsAround(nn.Module):
    """Scores of a word's representations from the words around it, for contextualised meta-embeddings.

    Two numbers a word, as the two units of the paper's BiLSTM, by a convolution over five words.

    Shapes: features [batch, token, d], mask [batch, token] -> [batch, token, 2].
    """

    def __init__(self, *, d: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d, 2, 5, padding=2)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        seen = (features * mask.unsqueeze(-1)).transpose(1, 2)
        return self.convolution(seen).transpose(1, 2).tanh()


class MetaModel(SmallModel):
    """A sentence classifier that averages words whose representations attention has mixed (Kiela et al. 2018).

    The three are made in different ways: an embedding a word, a network over its letters, and what its neighbours say.
    A word that the vocabulary lacks has no letters, and is left with two.

    Shapes: token_ids int64 [batch, token], token_mask bool -> logits [batch, class], map `attention`
        [batch, 1, token, representation].
    """

    def __init__(self, texts: Texts, pool: SelfAttentivePool, *, contextualised: bool) -> None:
        super().__init__()
        d = texts.d
        self.features = Features(texts)
        self.spelled = Spelled(texts)
        self.mix = MetaEmbedding(pool=pool, sizes=(d, d, d), d=d, encode=WordsAround(d=d) if contextualised else None)
        self.maps = {ATTENTION: map_of(self.mix, "self", queries=TOKENS, keys=REPRESENTATIONS, features=d)}
        self.classify = Scores(d_in=d, d_out=len(texts.labels), dropout=texts.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        embeddings = [self.features.embedding(ids), self.spelled(ids), self.features(ids, mask)]
        has_letters = self.spelled.letters.table[ids].any(-1)
        words, weights = self.mix(embeddings, torch.stack([mask, mask & has_letters, mask], -1))
        return Answer({"logits": self.classify(torch.flatten(average(words, mask), 1))}, {ATTENTION: weights})
