"""Hierarchical attention transfer network, J6 (Li, Wei, Zhang & Yang 2018): sentiment learned in one domain, told
in another.

The paper's figure: two hierarchical attention networks over the same review. The P-net finds pivots, the words of
opinion that domains share: it learns sentiment, and by a reversed gradient not to tell the domains apart. The NP-net
reads what is left when pivots are hidden, and learns sentiment, and to tell which pivots were there: so it learns the
words of opinion of the domain without labels. Both together tell the class.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer as Loaded
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from limelight_models.attention import Attention
from limelight_models.attention.levels import Hierarchical, HierarchicalWeights
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.score import Dot
from limelight_models.blocks.reversal import reverse
from limelight_models.cards.language import Attends, DocumentInput, Map, maps_of, one
from limelight_models.data import embeddings, reviews, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.data.folder import TRANSFER
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Settings, TextSizes, classifying_texts, preset, tiny
from limelight_models.recipes.device import device_of
from limelight_models.tasks.classify import Classify
from limelight_models.tasks.heads import Scores
from limelight_models.tasks.task import UNKNOWN
from limelight_models.training.batches import Batches
from limelight_models.training.pivots import pivots
from limelight_models.training.stop import Stop
from limelight_models.training.trainer import Trainer

_DEVIATION = 0.3  # of embeddings
_BATCH, _RATE = 64, 3e-3  # of the P-net alone
# The two networks, and what they look at.
ABOUT = {"pivots": "among all words, the shared words of opinion", "others": "where those words are hidden"}


class HatnConfig(TextSizes):
    """Sizes. The paper has d_embedding and d 300 (word2vec).

    pivots: how many for each class; 0 leaves the NP-net out. transfer: whether reviews of the target take part in
    training. ramp: steps after which the reversed gradient counts almost whole. search: epochs of the P-net alone,
    before pivots are chosen by what it looks at.
    """

    pivots: int = 100
    transfer: bool = True
    d_embedding: int = 64
    d: int = 64
    ramp: int = 400
    search: int = 2
    dropout: float = 0.4
    max_sentences: int = 32
    max_words: int = 64


class Memory(nn.Module):
    """Memory of one level's attention: items with their places, h_i = tanh(W (x_i + p_i) + b).

    Shapes: items [batch, position, d_in] -> [batch, position, d], zeros at padding.
    """

    def __init__(self, places: nn.Embedding, *, d: int) -> None:
        super().__init__()
        self.places = places
        self.linear = nn.Linear(places.embedding_dim, d)

    def forward(self, items: Tensor, mask: Tensor) -> Tensor:
        placed = items + self.places(torch.arange(items.shape[1], device=items.device))
        return torch.tanh(self.linear(placed)) * mask.unsqueeze(-1)


class Reader(nn.Module):
    """One hierarchical attention network with places (paper, "hierarchical position attention").

    a_i = softmax(h_iᵀ q_w), s = Σ_i a_i h_i for each sentence; the same over sentences with q_s

    Shapes: words [batch, sentence, word, d_embedding], mask [batch, sentence, word] -> [batch, d],
        HierarchicalWeights.
    """

    def __init__(self, word_places: nn.Embedding, sentence_places: nn.Embedding, *, d: int) -> None:
        super().__init__()
        self.words = Memory(word_places, d=d)
        self.levels = Hierarchical(word=pool(d), sentence=pool(d), encode=Memory(sentence_places, d=d))

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, HierarchicalWeights]:
        memory = self.words(words.flatten(0, 1), mask.flatten(0, 1)).unflatten(0, words.shape[:2])
        return self.levels(memory, mask)


def pool(d: int) -> SelfAttentivePool:
    """Attention with a trained query."""
    return SelfAttentivePool(attention=Attention(score=Dot()), d_q=d)


class Hatn(Network):
    """A review -> classes, with what each of the two networks looks at.

    v_p = P-net(x);  v_np = NP-net(x without pivots);  y = softmax(W [v_p; v_np] + b)
    L = L_sentiment + L_domain(reversed v_p) + Σ_c L_pivots of c(v_np) (the paper's joint objective)

    Shapes: token_ids int64 [batch, sentence, word], token_mask bool of the same -> logits [batch, class], maps
        `pivots.word` and `others.word` [batch, 1, sentence, word], `<network>.sentence` [batch, 1, 1, sentence].
    """

    is_pivot: Tensor
    steps: Tensor

    def __init__(self, config: HatnConfig) -> None:
        super().__init__()
        self.config, size, d = config, config.d_embedding, config.d
        self.embedding = nn.Embedding(config.vocabulary, size, padding_idx=0)
        # Both networks share words and places.
        places = nn.Embedding(config.max_words, size), nn.Embedding(config.max_sentences, d)
        for each in places:
            nn.init.normal_(each.weight, std=0.01)
        names = [name for name in ABOUT if name == "pivots" or config.pivots]
        self.readers = nn.ModuleDict({name: Reader(*places, d=d) for name in names})
        self.dropout = nn.Dropout(config.dropout)
        self.classify = Scores(d_in=len(names) * d, d_out=config.classes, dropout=config.dropout)
        self.domain = nn.Linear(d, 2)
        self.which = nn.Linear(d, config.classes)
        self.register_buffer("is_pivot", torch.zeros(config.classes, config.vocabulary, dtype=torch.bool))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        words = self.dropout(self.embedding(ids))
        hidden = self.is_pivot.any(0)[ids]
        masks = {"pivots": mask, "others": mask & ~hidden}
        vectors: dict[str, Tensor] = {}
        maps: dict[str, Tensor] = {}
        for name, reader in self.readers.items():
            vectors[name], weights = reader(words, masks[name])
            maps |= {f"{name}.{level}": each for level, each in weights._asdict().items()}
        logits = self.classify(torch.cat(list(vectors.values()), -1))
        return Answer({"logits": logits}, maps, self.signals(vectors, ids, mask) if self.training else {})

    def signals(self, vectors: Mapping[str, Tensor], ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Signals of transfer: scores of domains, scores of pivots by class, and whether they were there."""
        if not self.config.transfer:
            return {}
        found = {"domain": self.domain(reverse(vectors["pivots"], self.strength()))}
        self.steps += 1
        if "others" in vectors:
            found["which"] = self.which(vectors["others"])
            found["there"] = (self.is_pivot[:, ids] & mask).flatten(2).any(-1).T.to(found["which"].dtype)
        return found

    def strength(self) -> Tensor:
        """Factor of the reversed gradient, from 0 to 1 (Ganin et al. 2016, §5.2.2): 2 / (1 + exp(-10 p)) - 1."""
        return 2 / (1 + torch.exp(-10 * (self.steps / self.config.ramp).clamp(max=1))) - 1

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """The sentiment of labelled reviews, the mean being over them; domains and pivots of all."""
        known = target != UNKNOWN
        loss = losses.sum() * (len(losses) / known.sum().clamp(min=1))
        if not answer.signals:
            return loss
        signals = answer.signals
        loss = loss + cross_entropy(signals["domain"], known.long(), reduction="sum")
        if "which" in signals:
            loss = loss + binary_cross_entropy_with_logits(signals["which"], signals["there"], reduction="sum")
        return loss


def start(network: Hatn, dataset: Dataset, blueprint: Blueprint[HatnConfig]) -> None:
    """Before both networks learn together: count embeddings from the words of both domains, where the paper has some of
    another corpus; then train a P-net alone, and choose pivots by what it looks at.
    """
    config = network.config
    texts = tokenizers.texts_of([example.instance["document"] for example in dataset.train])
    encoded = Loaded.from_str(blueprint.files["tokenizer.json"]).encode_batch(texts)
    counted = embeddings.of_neighbours(
        (each.ids for each in encoded), vocabulary=config.vocabulary, d=config.d_embedding
    )
    with torch.no_grad():
        network.embedding.weight.copy_(_DEVIATION * counted)
    if not config.pivots:
        return
    device = device_of(network)
    alone = Hatn(replace(config, pivots=0)).to(device)
    alone.embedding.load_state_dict(network.embedding.state_dict())
    train, dev = (
        Batches(card(alone, blueprint), TASK, part, labels=blueprint.labels, batch_size=_BATCH, device=device)
        for part in (dataset.train, dataset.dev)
    )
    settings = Settings(epochs=config.search, batch_size=_BATCH, learning_rate=_RATE)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(task=TASK, model=alone, train=train, dev=dev, settings=settings, folder=Path(folder)).run(Stop())
    shape = config.classes, config.vocabulary
    network.is_pivot.copy_(pivots(alone, train, shape=shape, count=config.pivots))


def card(network: Hatn, blueprint: Blueprint[HatnConfig]) -> Card:
    """Describe the network."""
    config = network.config
    document = DocumentInput(
        tokenizer=blueprint.tokenizer(), max_sentences=config.max_sentences, max_words=config.max_words
    )
    maps: dict[str, Map] = {}
    for name, reader in network.readers.items():
        word, sentence = "How much each word counts in its sentence", "How much each sentence counts"
        shown = {
            f"{name}.word": Attends(
                document.sentences, document.words, f"{word}, {ABOUT[name]}.", kind="pool", nested=True
            ),
            f"{name}.sentence": Attends(one("document"), document.sentences, f"{sentence}, {ABOUT[name]}."),
        }
        maps |= maps_of(reader.get_submodule("levels"), shown)
    return blueprint.card(
        network,
        title="Hierarchical attention transfer network",
        summary="Tells the sentiment of reviews in a domain without labels, by words it shares with a labelled one.",
        inputs=[document],
        maps=maps,
        taxonomy="hierarchical, additive, self-attentive",
        citation="Li, Wei, Zhang, Yang (2018): Hierarchical Attention Transfer Network for Cross-Domain Sentiment "
        "Classification. AAAI",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d=6, pivots=4, search=1, dropout=0.1),
    "demo": preset(10, 32, 4e-3, patience=10, vocabulary=500, d_embedding=24, d=24, pivots=4, dropout=0.1),
    "full": preset(5, 64, 3e-3, patience=5, vocabulary=10_000),
    "paper": preset(100, 50, 1e-3, patience=10, vocabulary=50_000, d_embedding=300, d=300, ramp=10_000, search=10),
}
TASK = Classify()

HATN = classifying_texts(
    HatnConfig, Hatn, card, PRESETS, builtin=reviews.dataset, task=TASK, data=TRANSFER, start=start
)
# The same learned from the source alone: what transfer is compared with. And the P-net without the other.
HATN_SOURCE = HATN.changed(transfer=False)
HATN_PNET = HATN.changed(pivots=0)
