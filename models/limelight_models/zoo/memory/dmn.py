"""Dynamic memory network, K4 (Kumar et al. 2016): a story is gone through again and again, each time for what it lacks.

Figure 3 of the paper: a GRU reads the story, and what it has read at the end of each sentence is a fact; another reads
the question. In each pass a gate says how much of each fact comes into an episode, by the question and by what is
remembered; the episode goes into the memory, which tells the answer at last. Here the answer is a class, so that the
answer module takes one step; words are learned with the rest.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.align import Sigmoid
from limelight_models.attention.context import Context
from limelight_models.attention.flat import over_keys
from limelight_models.attention.score import Score
from limelight_models.attention.weights import AroundAttention
from limelight_models.blocks.recurrent import pick
from limelight_models.cards.language import Attends, maps_of, numbered
from limelight_models.in_turn import Tensors, in_turn
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.zoo.memory.stories import StoryConfig, answering


class DmnConfig(StoryConfig):
    """Sizes. passes: through the story."""

    d: int = 64
    passes: int = 3
    dropout: float = 0.1


class Likeness(Score):
    """e = W₂ tanh(W₁ z(c, m, q) + b₁) + b₂, of a fact c, the memory m and the question q (§2.3)

    z = [c; m; q; c ⊙ q; c ⊙ m; |c - q|; |c - m|; cᵀ W_b q; cᵀ W_b m]

    Shapes: query [m; q] [batch, head, query, 2 d], key c [batch, head, key, d] -> scores [batch, head, query, key].
    """

    def __init__(self, *, d: int) -> None:
        super().__init__()
        self.d_q, self.d_k = 2 * d, d
        self.bilinear = nn.Linear(d, d, bias=False)
        self.hidden, self.output = nn.Linear(7 * d + 2, d), nn.Linear(d, 1)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        (m, q), c = query.unsqueeze(-2).chunk(2, -1), key.unsqueeze(-3)
        bilinear = [(c * self.bilinear(each)).sum(-1, keepdim=True) for each in (q, m)]
        wide = torch.broadcast_tensors(c, m, q, c * q, c * m, (c - q).abs(), (c - m).abs())
        score: Tensor = self.output(torch.tanh(self.hidden(torch.cat([*wide, *bilinear], -1))))
        return score.squeeze(-1)


class Episodes(AroundAttention, nn.Module):
    """g_t = sigmoid(e_t);  h_t = g_t GRU(c_t, h_{t-1}) + (1 - g_t) h_{t-1}, e = h_T;  m ← GRU(e, m) (§2.3)

    Shapes: facts [batch, fact, d], mask bool [batch, fact], memory and question [batch, d] -> memory, gates [batch, 1,
        1, fact].
    """

    def __init__(self, *, d: int) -> None:
        super().__init__()
        self.attention = Attention(score=Likeness(d=d), align=Sigmoid())
        self.episode, self.update = nn.GRUCell(d, d), nn.GRUCell(d, d)

    def forward(self, facts: Tensor, mask: Tensor, memory: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        asked = torch.cat([memory, question], -1)[:, None, None]
        _, gates = self.attention(asked, facts.unsqueeze(1), None, over_keys(mask))

        def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
            gate = now[:, -1:]
            state = gate * self.episode(now[:, :-1], left[0]) + (1 - gate) * left[0]
            return (state,), (state,)

        (states,) = in_turn(step, (torch.zeros_like(memory),), torch.cat([facts, gates[:, 0, 0].unsqueeze(-1)], -1))
        return self.update(states[-1], memory), gates


class Dmn(Network):
    """A story and a question -> classes, the answers, with the gate of every fact in every pass.

    c = GRU(words of the story), at the end of each sentence;  q = the end of GRU(words of the question);  m⁰ = q;
    mⁱ by an episode;  logits = W_a GRU(q, m)

    Shapes: token_ids int64 [batch, sentence, word], question_ids int64 [batch, question], masks bool of the same
        -> logits [batch, class], map `passes` [batch, 1, pass, sentence].
    """

    def __init__(self, config: DmnConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.words = nn.Embedding(config.vocabulary, d, padding_idx=0)
        nn.init.normal_(self.words.weight, std=d**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.story, self.question = nn.GRU(d, d, batch_first=True), nn.GRU(d, d, batch_first=True)
        self.episodes = Episodes(d=d)
        self.tell = nn.GRUCell(d, d)
        self.answer = nn.Linear(d, config.classes, bias=False)

    def facts(self, ids: Tensor, mask: Tensor) -> Tensor:
        """States at the ends of sentences, read on from one to the next without what is between them."""
        real, place = mask.flatten(1), torch.arange(mask[0].numel(), device=ids.device)
        order = torch.where(real, place, place[-1] + 1 + place).argsort(1)
        states, _ = self.story(self.dropout(self.words(ids.flatten(1).gather(1, order))))
        return pick(states, (mask.sum(-1).cumsum(-1) - 1).clamp(min=0))

    def forward(self, **tensors: Tensor) -> Answer:
        mask, asked = tensors["token_mask"], tensors["question_mask"]
        facts, told = self.facts(tensors["token_ids"], mask), mask.any(-1)
        states, _ = self.question(self.dropout(self.words(tensors["question_ids"])))
        memory = question = pick(states, (asked.sum(1, keepdim=True) - 1).clamp(min=0)).squeeze(1)
        maps = []
        for _ in range(self.config.passes):
            memory, gates = self.episodes(facts, told, memory, question)
            maps.append(gates)
        logits = self.answer(self.dropout(self.tell(question, memory)))
        return Answer({"logits": logits}, {"passes": torch.cat(maps, 2)})


def card(network: Dmn, blueprint: Blueprint[DmnConfig]) -> Card:
    """Describe the network."""
    story, question = network.config.inputs(blueprint.tokenizer())
    passes = numbered("passes", "hops", "pass", network.config.passes)
    about = "How much of each fact comes into the episode of each pass."
    return blueprint.card(
        network,
        title="Dynamic memory network",
        summary="Answers a question about a story by going through its facts several times, in order.",
        inputs=[story, question],
        maps=maps_of(network.episodes, {"passes": Attends(passes, story.sentences, about, kind="memory")}),
        taxonomy="scoring: deep, sigmoid, multi-hop",
        citation="Kumar, Irsoy, Ondruska, Iyyer, Bradbury, Gulrajani, Zhong, Paulus, Socher (2016): Ask Me Anything: "
        "Dynamic Memory Networks for Natural Language Processing. ICML",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d=8, passes=2, dropout=0.0),
    "demo": preset(20, 32, 1e-2, patience=8, vocabulary=200, d=32),
    "full": preset(30, 32, 1e-2, patience=8, vocabulary=2000),
    # The most passes of the paper, which leaves out its sizes; those of Xiong et al. (2016).
    "paper": preset(256, 128, 1e-3, patience=20, vocabulary=2000).sized(d=80, passes=5),
}

# Gates are taught which facts answer, pass by pass, as the paper does it for bAbI.
DMN = answering(DmnConfig, Dmn, card, PRESETS).supervised(0.5)
# What the paper compares it with, a single pass; and gates that learn from answers alone.
DMN_ONE, DMN_FREE = DMN.changed(passes=1), DMN.supervised(0.0)
