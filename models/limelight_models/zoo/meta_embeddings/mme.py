"""Hierarchical multilingual meta-embeddings, J16 (Winata, Lin & Fung 2019; Winata, Lin, Shin, Liu & Fung 2019).

Figure 1 of the later paper, from the bottom: several embeddings of each word, between which attention chooses; the word
read by its subwords and by its characters; attention between these levels; a Transformer over the words; a tag a word.

The papers' embeddings were made from texts of several languages; here they are made in several ways of one, counted and
learned. What the levels give is laid side by side there; here attention chooses between them too. They end in a
conditional random field; here every word has a tag of its own, with its probability. Subwords and characters are read
by a convolution, which is small, where the papers have a Transformer.
"""

import torch
from tokenizers import Tokenizer as Loaded
from torch import Tensor, nn

from limelight_bundle.values import Sentences
from limelight_models.attention import Attention
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.representations import MetaEmbedding
from limelight_models.attention.score import SelfAttentive
from limelight_models.blocks.convolved import Convolved, Parts
from limelight_models.blocks.transformer import EncoderLayer, places
from limelight_models.cards.hidden import named_states
from limelight_models.cards.language import Attends, Classes, LabelSet, Map, WordsInput, maps_of
from limelight_models.data import names, rows, tokenizers
from limelight_models.data.dataset import Dataset, classes
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, TextSizes, preset, tiny
from limelight_models.tasks.entities import Entities
from limelight_models.tasks.heads import Scores
from limelight_models.zoo.meta_embeddings.tables import ALL, count, tables

PIECES, FINER = "tokenizer.json", "subwords.json"
WORDS, SUBWORDS, CHARACTERS = "words", "subwords", "characters"
_UNKNOWN = 1


class MmeConfig(TextSizes):
    """Sizes.

    vocabulary: pieces of words, of which the frequent words are one. subwords, letters: how many there are, with 0 for
    none and one for unknown. embeddings: of words, by how they are made. levels: by what a word is read. most_*: of a
    word that are read.
    """

    subwords: int
    letters: int
    embeddings: tuple[str, ...] = ALL
    levels: tuple[str, ...] = (WORDS, SUBWORDS, CHARACTERS)
    d_embedding: int = 48
    d: int = 64
    layers: int = 1
    heads: int = 4
    d_hidden: int = 128
    dropout: float = 0.2
    max_words: int = 64
    max_pieces: int = 32
    most_subwords: int = 8
    most_letters: int = 20
    max_characters: int = 5_000


class Spelled(nn.Module):
    """A word from smaller parts of its pieces. Shapes: piece_ids int64 [batch, word, piece] -> [batch, word, d]."""

    def __init__(self, parts: Tensor, *, count: int, d_embedding: int, d: int) -> None:
        super().__init__()
        self.parts = Parts(parts, most=parts.shape[1])
        self.embedding = nn.Embedding(count, d_embedding, padding_idx=0)
        self.read = Convolved(d_in=d_embedding, d_out=d)

    def forward(self, piece_ids: Tensor) -> Tensor:
        ids = self.parts(piece_ids)
        word: Tensor = self.read(self.embedding(ids), ids > 0)
        return word


class Mme(Network):
    """Words -> a tag a word, with how much each embedding and each level counts for it, and what it looks at.

    x_ij = W_j w_ij + b_j;  u_i = Σ_j a_ij x_ij, a_i = softmax_j(φ(x_ij)), φ(x) = wᵀ tanh(V x), over the embeddings of a
    word (HME §2; survey BF eq. 21–22), and again over the levels.
    A word that is no single piece has the embeddings of the unknown one; its subwords and characters say what it is.

    Shapes: token_ids int64 [batch, word, piece], token_mask bool of the same -> logits [batch, word, class], maps
        `meta` [batch, 1, word, embedding], `level` [batch, 1, word, level], `encoder.<layer>.self` [batch, head,
        word, word].
    """

    def __init__(self, config: MmeConfig, *, subwords: Tensor, letters: Tensor) -> None:
        super().__init__()
        self.config, d = config, config.d
        if WORDS in config.levels:
            self.tables = tables(config.embeddings, vocabulary=config.vocabulary, d=config.d_embedding)
            self.words = chosen([config.d_embedding] * len(config.embeddings), d)
        parts = {SUBWORDS: (subwords, config.subwords), CHARACTERS: (letters, config.letters)}
        self.spelled = nn.ModuleDict(
            {
                level: Spelled(table, count=count, d_embedding=config.d_embedding, d=d)
                for level, (table, count) in parts.items()
                if level in config.levels
            }
        )
        self.levels = chosen([d] * len(config.levels), d)
        self.encoder = nn.ModuleList(
            EncoderLayer(d_model=d, heads=config.heads, d_hidden=config.d_hidden, dropout=config.dropout)
            for _ in range(config.layers)
        )
        self.norm, self.dropout = nn.LayerNorm(d), nn.Dropout(config.dropout)
        self.classify = Scores(d_in=d, d_out=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        real, maps, found = mask.any(-1), {}, {}
        if WORDS in self.config.levels:
            whole = torch.where(mask.sum(-1) > 1, _UNKNOWN, ids[:, :, 0])
            embedded = [self.dropout(table(whole)) for table in self.tables.values()]
            found[WORDS], maps["meta"] = self.words(embedded, real.unsqueeze(-1))
        found |= {level: self.dropout(read(ids)) for level, read in self.spelled.items()}
        features, maps["level"] = self.levels([found[each] for each in self.config.levels], real.unsqueeze(-1))
        # √d: what a word is, beside where it is (Vaswani et al. 2017, §3.4).
        features = features * self.config.d**0.5 + places(torch.arange(ids.shape[1], device=ids.device), features)
        features = self.dropout(features)
        both = (real.unsqueeze(-1) & real.unsqueeze(-2)).unsqueeze(1)  # a padded place looks at nothing
        states = [features]
        for number, layer in enumerate(self.encoder):
            features, looks = layer(features, both)
            states.append(features)
            maps[f"encoder.{number}.self"] = looks.weights
        states[-1] = self.norm(features)
        return Answer({"logits": self.classify(states[-1]), **named_states("encoder", states)}, maps)


def chosen(sizes: list[int], d: int) -> MetaEmbedding:
    """Attention between as many vectors of a word."""
    score = SelfAttentive(d_k=d, d_w=d)
    return MetaEmbedding(pool=SelfAttentivePool(attention=Attention(score=score)), sizes=sizes, d=d)


def build(blueprint: Blueprint[MmeConfig]) -> Mme:
    """The network: which subwords and letters a piece has follows from the tokenizers."""
    config = blueprint.config
    known = tokenizers.vocabulary(blueprint.files[PIECES])
    finer, letters = Loaded.from_str(blueprint.files[FINER]), alphabet(blueprint.files[PIECES])
    subwords = {number: finer.encode(piece).ids for number, piece in known.items()}
    spelled = {number: [letters[letter] for letter in piece] for number, piece in known.items()}
    return Mme(
        config,
        subwords=parts_of(subwords, config.vocabulary, config.most_subwords),
        letters=parts_of(spelled, config.vocabulary, config.most_letters),
    )


def alphabet(tokenizer: str) -> dict[str, int]:
    """A number for each letter; 0 is for none, and 1 for one that is not known."""
    found = sorted({letter for piece in tokenizers.vocabulary(tokenizer).values() for letter in piece})
    return {letter: number for number, letter in enumerate(found, start=_UNKNOWN + 1)}


def parts_of(known: dict[int, list[int]], vocabulary: int, most: int) -> Tensor:
    """The first `most` parts of each piece int64 [piece, part], 0 behind them; an unknown piece is an unknown part."""
    table = torch.zeros(vocabulary, most, dtype=torch.int64)
    table[_UNKNOWN, 0] = _UNKNOWN
    for number, parts in known.items():
        if number:  # 0 is padding, whatever it is called
            table[number, : len(parts[:most])] = torch.tensor(parts[:most])
    return table


def start(network: Mme, dataset: Dataset, blueprint: Blueprint[MmeConfig]) -> None:
    """Count the embeddings that do not learn from the words of the training part."""
    if WORDS not in network.config.levels:
        return
    tokenizer = Loaded.from_str(blueprint.files[PIECES])

    def ids(words: tuple[str, ...]) -> list[int]:
        pieces = (encoded.ids for encoded in tokenizer.encode_batch(list(words)))
        return [each[0] if len(each) == 1 else _UNKNOWN for each in pieces]

    texts = [ids(words) for words in sentences(dataset)]
    count(network.tables, texts, tokenizers.vocabulary(blueprint.files[PIECES]))


def sentences(dataset: Dataset) -> list[tuple[str, ...]]:
    """The words of the training part's sentences."""
    documents = (example.instance["document"] for example in dataset.train)
    return [each.texts for each in documents if isinstance(each, Sentences)]


def card(network: Mme, blueprint: Blueprint[MmeConfig]) -> Card:
    """Describe the network."""
    config = network.config
    text = WordsInput(
        tokenizer=blueprint.tokenizer(PIECES), max_sentences=config.max_words, max_words=config.max_pieces
    )
    words = text.sentences
    maps: dict[str, Map] = {}
    if WORDS in config.levels:
        kinds = LabelSet(name="embeddings", kind="representations", names=config.embeddings)
        about = "How much each embedding counts for each word."
        maps |= maps_of(network.words, {"meta": Attends(words, kinds, about, kind="pool")})
    levels = LabelSet(name="levels", kind="representations", names=config.levels)
    about = "How much each word counts as a whole, by its subwords, and by its characters."
    maps |= maps_of(network.levels, {"level": Attends(words, levels, about, kind="pool")})
    looks = {"encoder.{}.self": Attends(words, words, "Which words each word looks at in layer {}.")}
    maps |= maps_of(nn.ModuleList(layer.get_submodule("attention") for layer in network.encoder), looks)
    return blueprint.card(
        network,
        title="Hierarchical meta-embeddings",
        summary="Finds the names in a sentence; attention chooses between embeddings of each word, and between levels.",
        inputs=[text],
        results=[Classes(labels=blueprint.labels, name="tags", over=words)],
        maps=maps,
        hidden={"encoder": network.config.d},
        taxonomy="additive, multi-representational, self-attentive, multi-head",
        citation="Winata, Lin, Shin, Liu, Fung (2019): Hierarchical Meta-Embeddings for Code-Switching Named "
        "Entity Recognition. EMNLP",
    )


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[MmeConfig]:
    """The training part's words, their pieces and tags."""
    words = [word for each in sentences(dataset) for word in each]
    pieces = tokenizers.within_words(words, vocabulary=preset.vocabulary)
    finer = tokenizers.within_words(words, vocabulary=max(200, preset.vocabulary // 10))
    labels = classes(dataset)
    config = MmeConfig(
        vocabulary=tokenizers.size(pieces),
        classes=len(labels),
        subwords=tokenizers.size(finer),
        letters=len(alphabet(pieces)) + _UNKNOWN + 1,
        **preset.sizes,
    )
    return Blueprint(config, labels, {PIECES: pieces, FINER: finer})


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d=8, heads=2, d_hidden=8),
    "demo": preset(12, 32, 4e-3, vocabulary=1000, d_embedding=24, d=32, d_hidden=64),
    "full": preset(12, 32, 3e-3, patience=12, vocabulary=6000),
    # The authors' code, but for what the head of this module says, and for a rate of Adam in the place of one that
    # falls with the root of the steps. Subwords are a tenth of the vocabulary: 5000, as theirs of each language.
    "paper": preset(200, 32, 1e-3, weight_decay=0.0, patience=15, vocabulary=50_000, d_embedding=300, d=200, layers=4),
}

MME = Recipe(
    MmeConfig,
    build,
    card,
    prepare,
    PRESETS,
    needs_files=True,
    task=Entities(),
    data=rows.TAGGED,
    start=start,
    builtin=names.dataset,
)


# What choosing is compared with: words without what is inside of them, characters alone, and each embedding alone.
MME_WORDS, MME_CHARACTERS = MME.changed(levels=(WORDS,)), MME.changed(levels=(CHARACTERS,))
MME_NEIGHBOURS, MME_SPELLING, MME_LEARNED = (MME.changed(levels=(WORDS,), embeddings=(name,)) for name in ALL)
