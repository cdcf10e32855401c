"""Aspects without labels, P24 (He, Lee, Ng & Dahlmeier 2017): attention keeps of a text what it can be built from.

Figure 1 of the paper, from the bottom: words, weighed by how they go with the average of all; their sum; how much of it
each aspect has; and the sum built again from the aspects. Weights so learn to leave out words that say nothing of an
aspect. Words are counted from their neighbours, where the paper has word2vec, and stay; aspects begin as the centres of
groups of words, and W as they are: drawn, few aspects get all texts. Words that stand in a tenth of the texts have no
embedding, as the paper leaves out stop words. What an aspect means has to be named by people.
"""

import torch
from tokenizers import Tokenizer as Loaded
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, average, over_keys
from limelight_models.attention.score import General
from limelight_models.cards.language import Attends, Classes, maps_of, one
from limelight_models.data import docstrings, embeddings, rows, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, Sizes, preset, tiny
from limelight_models.recipes.recipe import TOKENIZER
from limelight_models.tasks.reconstruct import Reconstruct

_ROUNDS = 20  # of grouping words
_COMMON = 0.1  # of texts have words that say nothing
_SHARP = 10.0  # how many times as long as 1 rows of W are


class AbaeConfig(Sizes):
    """Sizes. apart: how much it costs that aspects are alike."""

    vocabulary: int
    aspects: int = 14
    d: int = 200
    apart: float = 1.0
    max_tokens: int = 256
    max_characters: int = 20_000


class Abae(Network):
    """Text -> aspects, found without being told, with the weights of its words.

    y = 1/n Σ_i e_i (eq. 4);  d_i = e_iᵀ M y (eq. 3), a = softmax(d) (eq. 2), z = Σ_i a_i e_i (eq. 1)
    p = softmax(W z + b) (eq. 6), r = Tᵀ p (eq. 5);  L = Σ_s J_s + λ ‖T_n T_nᵀ - I‖, rows of T_n of length 1 (eq. 7–9)

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, aspect], map `pool` [batch, 1,
        1, token].
    """

    def __init__(self, config: AbaeConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.words = nn.Embedding(config.vocabulary, d, padding_idx=0).requires_grad_(False)
        self.attention = Attention(score=General(d_q=d, d_k=d))
        self.share = nn.Linear(d, config.aspects)
        self.aspects = nn.Parameter(torch.randn(config.aspects, d) * d**-0.5)

    def forward(self, **tensors: Tensor) -> Answer:
        mask, words = tensors["token_mask"], self.words(tensors["token_ids"])
        whole = average(words, mask)
        found, weights = attend(self.attention, whole, words, None, over_keys(mask))
        logits = self.share(found.squeeze(1))
        rebuilt = logits.softmax(-1) @ self.aspects
        signals = {"rebuilt": rebuilt, "found": found.squeeze(1), "average": whole.squeeze(1)}
        return Answer({"logits": logits}, {"pool": weights}, signals)

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Reconstruction, and for each text λ ‖T_n T_nᵀ - I‖."""
        unit = nn.functional.normalize(self.aspects, dim=-1)
        alike = (unit @ unit.T - torch.eye(len(unit), device=unit.device)).square().sum().sqrt()
        return losses.sum() + len(losses) * self.config.apart * alike


def start(network: Abae, dataset: Dataset, blueprint: Blueprint[AbaeConfig]) -> None:
    """Count the words of the training part, each of length 1 or 0, and group them."""
    tokenizer = Loaded.from_str(blueprint.files[TOKENIZER])
    texts = tokenizers.texts_of([value for example in dataset.train for value in example.instance.values()])
    ids = [encoded.ids for encoded in tokenizer.encode_batch(texts)]
    counted = embeddings.of_neighbours(ids, vocabulary=network.config.vocabulary, d=network.config.d)
    with torch.no_grad():
        texts_with = torch.bincount(torch.tensor([each for text in ids for each in set(text)]), minlength=len(counted))
        rare = (texts_with < _COMMON * len(ids)).unsqueeze(-1)
        network.words.weight.copy_(nn.functional.normalize(counted, dim=-1) * rare)
        known = network.words.weight[network.words.weight.any(-1)]
        if len(known):
            network.aspects.copy_(centres(known, len(network.aspects)))
            network.share.weight.copy_(_SHARP * nn.functional.normalize(network.aspects, dim=-1))


def centres(words: Tensor, count: int) -> Tensor:
    """Centres of groups of words (Lloyd 1982), which begin as words drawn. Shapes: [word, d] -> [count, d]."""
    found = words[torch.randint(len(words), (count,))]
    for _ in range(_ROUNDS):
        nearest = torch.cdist(words, found).argmin(-1)
        groups = [words[nearest == number] for number in range(count)]
        found = torch.stack([each.mean(0) if len(each) else old for each, old in zip(groups, found, strict=True)])
    return found


def card(network: Abae, blueprint: Blueprint[AbaeConfig]) -> Card:
    """Describe the network."""
    text = blueprint.text("A text, such as a sentence or a review.")
    counts = Attends(one("text"), text.tokens(), "How much each word tells of the text's aspect.")
    return blueprint.card(
        network,
        title="Attention-based aspect extraction",
        summary="Sorts texts by what they are about, without having been told what there is.",
        inputs=[text],
        results=[Classes(labels=blueprint.labels, name="aspect")],
        maps=maps_of(network.attention, {"pool": counts}),
        taxonomy="general, specialised",
        citation="He, Lee, Ng, Dahlmeier (2017): An Unsupervised Neural Attention Model for Aspect Extraction. ACL",
    )


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[AbaeConfig]:
    """The words of the training part; its classes are not read."""
    texts = tokenizers.texts_of([value for example in dataset.train for value in example.instance.values()])
    tokenizer = tokenizers.words(texts, vocabulary=preset.vocabulary)
    config = AbaeConfig(vocabulary=tokenizers.size(tokenizer), **preset.sizes)
    names = tuple(f"aspect {number + 1}" for number in range(config.aspects))
    return Blueprint(config, names, {TOKENIZER: tokenizer})


PRESETS = {
    "tiny": tiny(vocabulary=50, d=8, aspects=4),
    "demo": preset(10, 50, 1e-3, weight_decay=0.0, vocabulary=2000, d=48, aspects=8),
    "full": preset(15, 50, 2e-3, weight_decay=0.0, vocabulary=9000),
    # §4.3, with the other texts of a batch as what is wrong, in the place of 20.
    "paper": preset(15, 50, 1e-3, weight_decay=0.0, patience=15, vocabulary=9000).sized(d=200, aspects=14),
}

ABAE = Recipe(
    AbaeConfig,
    Abae,
    card,
    prepare,
    PRESETS,
    task=Reconstruct(),
    data=rows.TEXTS,
    builtin=docstrings.texts,
    start=start,
)
# Aspects that may be alike.
ABAE_ALIKE = ABAE.changed(apart=0.0)
