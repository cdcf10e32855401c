"""Gated-attention reader, R14 (Dhingra, Liu, Yang, Cohen & Salakhutdinov 2017): a question filters a text, hop by hop.

Figure 1 of the paper, from the bottom: in each hop, sentence and document are read anew, each word of the document
looks for what of the sentence is its own, and is multiplied by that; the next hop reads what has passed. In the last,
the place of the word that is lacking looks at the document, and what the places of a word get is its probability. One
hop alone is the attention-sum reader (Kadlec et al. 2016), but that this one asks with the whole sentence. Not here:
embeddings of characters, and the feature of a word's being in the sentence.
"""

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, over_keys, share
from limelight_models.attention.score import Dot
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.recurrent import BiGru
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.data import cloze, rows
from limelight_models.network import Answer
from limelight_models.recipes import Blueprint, Card, Recipe, preset, tiny
from limelight_models.tasks.classify import Classify
from limelight_models.zoo.reading.summed import ReaderConfig, SummedReader, of_answers


class GatedReaderConfig(ReaderConfig):
    """Sizes. hops: times that the document is read. blank: the token in the place of the word that is lacking."""

    blank: int
    hops: int = 3
    d_embedding: int = 64
    d_hidden: int = 64
    dropout: float = 0.1


class Hop(nn.Module):
    """D = BiGRU(X), Q = BiGRU(Y);  α_i = softmax(Qᵀ d_i), q̃_i = Q α_i, x_i = d_i ⊙ q̃_i (eq. 6–8).

    Shapes: document [batch, token, d], sentence [batch, word, d_embedding], masks bool of the first two -> what has
        passed [batch, token, 2 d_hidden], weights [batch, 1, token, word].
    """

    deciding = ("read_document", "read_sentence")

    def __init__(self, *, d_in: int, d_embedding: int, d_hidden: int) -> None:
        super().__init__()
        self.read_document = BiGru(d_in=d_in, d_hidden=d_hidden)
        self.read_sentence = BiGru(d_in=d_embedding, d_hidden=d_hidden)
        self.attention = Attention(score=Dot())

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights."""
        return weights_of(self.attention)

    def forward(self, document: Tensor, sentence: Tensor, told: Tensor, lacking: Tensor) -> tuple[Tensor, Tensor]:
        states, asked = self.read_document(document, told), self.read_sentence(sentence, lacking)
        found, weights = attend(self.attention, states, asked, None, over_keys(lacking))
        return states * found, weights * told[:, None, :, None]


class GatedReader(SummedReader):
    """A sentence that lacks a word, and its document -> the word, one of the classes, where it stands in the document.

    X^(0) the document, X^(k) = GA(X^(k-1), Y), k = 1 … K - 1;  q the state of Y where the word is lacking, of the last
    hop;  s = softmax(qᵀ D^(K)) (eq. 9–10)

    Shapes: first_ids int64 [batch, first], the sentence, second_ids [batch, second], the document, masks bool of the
        same -> logits [batch, class], maps `hop.<k>.cross` [batch, 1, second, first] of all hops but the last,
        `document` s [batch, 1, 1, second].
    """

    deciding = ("read_document", "read_sentence")

    def __init__(self, config: GatedReaderConfig) -> None:
        super().__init__(config)
        self.config, d = config, 2 * config.d_hidden
        self.words = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        self.dropout = nn.Dropout(config.dropout)
        self.hops = nn.ModuleList(
            Hop(d_in=d if hop else config.d_embedding, d_embedding=config.d_embedding, d_hidden=config.d_hidden)
            for hop in range(config.hops - 1)
        )
        self.read_document = BiGru(d_in=d if config.hops > 1 else config.d_embedding, d_hidden=config.d_hidden)
        self.read_sentence = BiGru(d_in=config.d_embedding, d_hidden=config.d_hidden)
        self.point = Attention(score=Dot())

    def forward(self, **tensors: Tensor) -> Answer:
        lacking, told, ids = tensors["first_mask"], tensors["second_mask"], tensors["second_ids"]
        sentence, document = self.words(tensors["first_ids"]), self.words(ids)
        maps = {}
        for number, hop in enumerate(self.hops):
            document, maps[f"hop.{number}.cross"] = hop(self.dropout(document), self.dropout(sentence), told, lacking)
        states = self.read_document(self.dropout(document), told)
        asked = self.read_sentence(self.dropout(sentence), lacking)
        blank = (tensors["first_ids"] == self.config.blank) & lacking
        blank = blank | (lacking & ~blank.any(-1, keepdim=True))  # where none is, all words ask
        query = share(blank, asked).unsqueeze(-2) @ asked
        _, maps["document"] = attend(self.point, query, states, None, over_keys(told))
        return Answer({"logits": self.logits(maps["document"], ids)}, maps)


def card(network: GatedReader, blueprint: Blueprint[GatedReaderConfig]) -> Card:
    """Describe the reader."""
    pair = blueprint.pair(f"A sentence with `{cloze.BLANK}` for one of its words, and a document that has the word.")
    passed = Attends(pair.second, pair.first, "What of the sentence each word of the document is filtered by.")
    found = Attends(one("answer"), pair.second, "The weight of each word of the document; those of a word are summed.")
    return blueprint.card(
        network,
        title="Gated-attention reader" if network.config.hops > 1 else "Attention-sum reader",
        summary="Finds the word that a sentence lacks in a document, which the sentence filters first.",
        inputs=[pair],
        maps=maps_of(network.hops, {"hop.{}.cross": passed}) | maps_of(network.point, {"document": found}),
        taxonomy="multiplicative, multi-hop",
        citation="Dhingra, Liu, Yang, Cohen, Salakhutdinov (2017): Gated-Attention Readers for Text Comprehension. ACL",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, dropout=0.0),
    "demo": preset(4, 32, 4e-3, patience=2, clip=5.0, vocabulary=3000, d_embedding=32, d_hidden=32, dropout=0.2),
    "full": preset(8, 32, 2e-3, patience=2, clip=5.0, vocabulary=20_000),
    # The sizes for CNN's articles.
    "paper": preset(10, 32, 5e-4, weight_decay=0.0, patience=2, clip=10.0, vocabulary=120_000).sized(
        d_embedding=128, d_hidden=256, dropout=0.2
    ),
}

GATED_READER = Recipe(
    GatedReaderConfig,
    GatedReader,
    card,
    of_answers(GatedReaderConfig, blank=cloze.BLANK),
    PRESETS,
    task=Classify(),
    data=rows.TEXT_PAIRS,
    builtin=cloze.dataset,
)
# What the paper compares it with: a single hop, nothing filtered.
GATED_READER_ONE = GATED_READER.changed(hops=1)
