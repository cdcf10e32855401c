"""Dynamic meta-embeddings, J9 (Kiela, Wang & Cho 2018): which embedding of a word counts is for attention to choose.

§3 of the paper, from the bottom: several embeddings of each word, maps to a common size, attention over the
embeddings, a bidirectional LSTM with the largest of each feature, classes. Contextualised, a small LSTM that has read
the sentence decides the attention.
"""

from collections.abc import Callable, Sequence

import torch
from tokenizers import Tokenizer as Loaded
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.alignment import fill
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.representations import MetaEmbedding
from limelight_models.attention.score import Dot
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, LabelSet, maps_of
from limelight_models.data import docstrings, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny
from limelight_models.tasks.heads import Scores
from limelight_models.zoo.meta_embeddings.tables import ALL, count, tables


class DmeConfig(TextSizes):
    """Sizes. The paper has d 256 (of embeddings with 300 each) and d_hidden 512 in each direction.

    embeddings: which ones there are: `neighbours` are counted from what words stand beside, `spelling` from their
    character n-grams, and stay as they are; `learned` ones learn. contextualised: whether attention reads the sentence.
    """

    embeddings: tuple[str, ...] = ALL
    contextualised: bool = False
    d_embedding: int = 64
    d: int = 64
    d_hidden: int = 48
    dropout: float = 0.4
    max_tokens: int = 256


def chosen(config: DmeConfig) -> MetaEmbedding:
    """Attention over the embeddings. The paper's score is linear, with a bias that softmax does not see: a trained
    query's dot product.
    """
    return MetaEmbedding(
        pool=SelfAttentivePool(attention=Attention(score=Dot()), d_q=2 if config.contextualised else config.d),
        sizes=[config.d_embedding] * len(config.embeddings),
        d=config.d,
        encode=BiLstm(d_in=config.d, d_hidden=1) if config.contextualised else None,
    )


class Concatenated(nn.Module):
    """All embeddings of a word beside each other, x_j = [w_1j; …; w_nj] (paper §4, the baseline): nothing is chosen.

    Shapes: embeddings, each [batch, token, d_embedding] -> [batch, token, d_out], no weights.
    """

    def __init__(self, config: DmeConfig) -> None:
        super().__init__()
        self.d_out = config.d_embedding * len(config.embeddings)

    def forward(self, embeddings: Sequence[Tensor], mask: Tensor) -> tuple[Tensor, None]:
        return torch.cat(tuple(embeddings), -1), None


class Dme(Network):
    """Text -> classes, with how much each embedding of each word counts.

    x_ij = P_i w_ij + b_i;  x_j = Σ_i a_ij x_ij, a_j = softmax_i(aᵀ x_ij) (eq. 1–3);  h = BiLSTM(x);  s = max_j h_j
    Contextualised: a_j = softmax_i(aᵀ h_ij), h_i = BiLSTM(x_i) of one unit in each direction
    join: makes what joins the embeddings of a word.

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class],
        map `meta` [batch, 1, token, embedding].
    """

    def __init__(self, config: DmeConfig, *, join: Callable[[DmeConfig], nn.Module] = chosen) -> None:
        super().__init__()
        self.config = config
        self.tables = tables(config.embeddings, vocabulary=config.vocabulary, d=config.d_embedding)
        self.meta = join(config)
        d_in = self.meta.d_out if isinstance(self.meta, Concatenated) else config.d
        self.encoder = BiLstm(d_in=d_in, d_hidden=config.d_hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.classify = Scores(d_in=self.encoder.d_out, d_out=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        words, weights = self.meta([self.dropout(table(ids)) for table in self.tables.values()], mask.unsqueeze(-1))
        states = self.encoder(words, mask)
        largest = fill(states, mask.unsqueeze(-1)).amax(1)
        return Answer({"logits": self.classify(largest)}, {} if weights is None else {"meta": weights})


def start(network: Dme, dataset: Dataset, blueprint: Blueprint[DmeConfig]) -> None:
    """Count the embeddings that do not learn from the words of the training part."""
    text = blueprint.files["tokenizer.json"]
    encoded = Loaded.from_str(text).encode_batch(
        tokenizers.texts_of([example.instance["text"] for example in dataset.train])
    )
    count(network.tables, (each.ids for each in encoded), tokenizers.vocabulary(text))


def card(network: Dme, blueprint: Blueprint[DmeConfig]) -> Card:
    """Describe the network; one that chooses nothing has no map."""
    config = network.config
    text = blueprint.text("A sentence or a short text.")
    kinds = LabelSet(name="embeddings", kind="representations", names=config.embeddings)
    choice = Attends(text.tokens(), kinds, "How much each embedding counts for each word.", kind="pool")
    return blueprint.card(
        network,
        title="Contextualised dynamic meta-embeddings" if config.contextualised else "Dynamic meta-embeddings",
        summary="Classifies a text whose words have several embeddings each; attention chooses between them.",
        inputs=[text],
        maps={} if isinstance(network.meta, Concatenated) else maps_of(network.meta, {"meta": choice}),
        taxonomy="additive, multi-representational, self-attentive",
        citation="Kiela, Wang, Cho (2018): Dynamic Meta-Embeddings for Improved Sentence Representations. EMNLP",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d=8, d_hidden=6, dropout=0.1),
    "demo": preset(5, 16, 3e-3, patience=3, vocabulary=3000, d_embedding=32, d=32, d_hidden=24, max_tokens=128),
    "full": preset(8, 32, 4e-3, patience=2, vocabulary=12_000),
    # The authors' for SST, whose embeddings are fastText's and GloVe's, and whose classes are behind a layer of 512.
    "paper": preset(100, 64, 4e-4, weight_decay=0.0, patience=3, clip=5.0, vocabulary=20_000).sized(
        d_embedding=300, d=256, d_hidden=512, dropout=0.5
    ),
}

DME = classifying_texts(DmeConfig, Dme, card, PRESETS, builtin=docstrings.texts, start=start)
DME_CONTEXTUALISED = DME.changed(contextualised=True)
# What choosing is compared with: all embeddings beside each other, and each alone.
DME_CONCATENATED = DME.with_parts(join=Concatenated)
DME_NEIGHBOURS, DME_SPELLING, DME_LEARNED = (DME.changed(embeddings=(name,)) for name in ALL)
