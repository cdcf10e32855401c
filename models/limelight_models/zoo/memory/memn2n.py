"""End-to-end memory network, K3 (Sukhbaatar, Szlam, Weston & Fergus 2015): a question put to a story, several times.

Fig. 1 of the paper: facts become a memory twice, as what is asked and as what is answered; each hop weighs the facts by
the question, and adds what it finds to it. Embeddings are tied from hop to hop as §2.2 has it first (adjacent).
"""

from itertools import pairwise

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.score import Dot
from limelight_models.cards.language import Attends, maps_of, numbered
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Settings, tiny
from limelight_models.zoo.memory.stories import StoryConfig, answering

_SPREAD = 0.1  # of embeddings to begin with, as the paper's


class MemoryConfig(StoryConfig):
    """Sizes. The paper has d 20, or 50 for all tasks together, 3 hops, and the last 50 facts."""

    d: int = 32
    hops: int = 3


class Memory(nn.Module):
    """Sentences as vectors: words by their place in it, and the sentence by how long ago it was (§4.1).

    m_i = Σ_j l_j ⊙ A x_ij + T(i),  l_kj = (1 - j/J) - (k/d)(1 - 2j/J),  j = 1 … J words, k = 1 … d

    T is a table, 0 being the last fact told; a question has none.

    Shapes: ids int64 [batch, sentence, word], mask bool of the same -> [batch, sentence, d].
    """

    def __init__(self, config: MemoryConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.d, padding_idx=0)
        self.ages = nn.Embedding(config.max_sentences, config.d)
        for table in (self.words, self.ages):
            nn.init.normal_(table.weight, std=_SPREAD)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        told = mask.any(-1).long()
        ages = told.sum(1, keepdim=True) - told.cumsum(1)
        return self.read(ids, mask) + self.ages(ages) * told.unsqueeze(-1)

    def read(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Σ_j l_j ⊙ A x_ij. Shapes: ids, mask [..., word] -> [..., d]."""
        words = self.words(ids)
        place = mask.cumsum(-1).to(words.dtype) / mask.sum(-1, keepdim=True).clamp(min=1)  # j/J
        feature = torch.arange(1, words.shape[-1] + 1, dtype=words.dtype, device=ids.device) / words.shape[-1]  # k/d
        weight = (1 - place.unsqueeze(-1)) - feature * (1 - 2 * place.unsqueeze(-1))
        return (words * weight * mask.unsqueeze(-1)).sum(-2)


class MemoryNetwork(Network):
    """A story and a question -> classes, the answers, with the weights of the facts in every hop.

    u¹ = Σ_j l_j ⊙ B x_j;  p^k = softmax_i(u^kᵀ m_i^k) (eq. 1);  o^k = Σ_i p_i^k c_i^k (eq. 2)
    u^{k+1} = u^k + o^k (eq. 4);  logits = W u^{K+1} (eq. 3)
    m^k by A^k, c^k by C^k; adjacent hops share: A^{k+1} = C^k, T_A^{k+1} = T_C^k, B = A¹ (§2.2); W is free, as answers
    are classes and not words

    Shapes: token_ids int64 [batch, sentence, word], question_ids int64 [batch, question], masks bool of the same
        -> logits [batch, class], map `hops` [batch, 1, hop, sentence].
    """

    deciding = ("asking",)  # all embeddings but the last C, which is no later hop's A

    def __init__(self, config: MemoryConfig) -> None:
        super().__init__()
        self.config = config
        self.asking = nn.ModuleList(Memory(config) for _ in range(config.hops))
        self.last = Memory(config)
        self.attention = Attention(score=Dot())
        self.answer = nn.Linear(config.d, config.classes, bias=False)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        memories = [memory(ids, mask) for memory in (*self.asking, self.last)]
        first = self.asking[0]
        assert isinstance(first, Memory)
        question = first.read(tensors["question_ids"], tensors["question_mask"]).unsqueeze(1)
        facts, maps = over_keys(mask.any(-1)), []
        for key, value in pairwise(memories):
            found, weights = attend(self.attention, question, key, value, facts)
            question = question + found
            maps.append(weights)
        return Answer({"logits": self.answer(question.squeeze(1))}, {"hops": torch.cat(maps, 2)})


def card(network: MemoryNetwork, blueprint: Blueprint[MemoryConfig]) -> Card:
    """Describe the network."""
    config = network.config
    story, question = config.inputs(blueprint.tokenizer())
    hops = numbered("hops", "hops", "hop", config.hops)
    about = "How much each fact counts in each hop."
    return blueprint.card(
        network,
        title="End-to-end memory network",
        summary="Answers a question about a story by looking up its facts, several times one after the other.",
        inputs=[story, question],
        maps=maps_of(network.attention, {"hops": Attends(hops, story.sentences, about, kind="memory")}),
        taxonomy="multiplicative, multi-hop",
        citation="Sukhbaatar, Szlam, Weston, Fergus (2015): End-To-End Memory Networks. NeurIPS",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d=8, hops=2),
    "demo": Preset(settings=Settings(epochs=15, learning_rate=1e-2, patience=5), vocabulary=200),
    "full": Preset(settings=Settings(epochs=20, learning_rate=1e-2, patience=8, weight_decay=0.0), vocabulary=2000),
    # §4.2, with Adam in the place of plain descent; without its linear start and random noise.
    "paper": Preset(
        settings=Settings(epochs=100, learning_rate=1e-2, patience=20, weight_decay=0.0, clip=40.0),
        sizes={"d": 20, "max_sentences": 50},
        vocabulary=2000,
    ),
}

MEMN2N = answering(MemoryConfig, MemoryNetwork, card, PRESETS)
# What the paper compares it with: a single hop.
MEMN2N_ONE = MEMN2N.changed(hops=1)
