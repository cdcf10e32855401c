"""Alternating iterative reader, R15 (Sordoni, Bachman, Trischler & Bengio 2016): sentence and text by turns.

Fig. 1 of the paper: in each step of a search, a state looks at the sentence, then, with what it found, at the document;
two gates decide how much of either goes into the state. The weights of the last step over the document are the answer:
what the places of a word get is its probability.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.score import BiasedGeneral
from limelight_models.blocks.recurrent import BiGru
from limelight_models.cards.language import Attends, maps_of, numbered
from limelight_models.data import cloze, rows
from limelight_models.network import Answer
from limelight_models.recipes import Blueprint, Card, Recipe, preset, tiny
from limelight_models.tasks.classify import Classify
from limelight_models.zoo.reading.summed import ReaderConfig, SummedReader, of_answers


class IterativeReaderConfig(ReaderConfig):
    """Sizes. The paper has d_embedding 384, d_hidden 128 in each direction, d_state 512 and 8 steps for news.

    gated: whether gates decide what goes into the state; without, all does. d_gate: hidden size of a gate.
    """

    steps: int = 4
    gated: bool = True
    d_embedding: int = 64
    d_hidden: int = 64
    d_state: int = 96
    d_gate: int = 64
    dropout: float = 0.2


class Gate(nn.Sequential):
    """r = σ(W₂ relu(W₁ x + b₁) + b₂), in (0, 1). Shapes: [batch, d_in] -> [batch, d]."""

    def __init__(self, *, d_in: int, d: int, d_gate: int) -> None:
        super().__init__(nn.Linear(d_in, d_gate), nn.ReLU(), nn.Linear(d_gate, d), nn.Sigmoid())


class IterativeReader(SummedReader):
    """A sentence that lacks a word, and its document -> the word, one of the classes, where it stands in the document.

    In each step t = 1 … T, from s_0 = 0 on:
    q_it = softmax_i q̃_iᵀ (A_q s_{t-1} + a_q), q_t = Σ_i q_it q̃_i
    d_it = softmax_i d̃_iᵀ (A_d [s_{t-1}; q_t] + a_d), d_t = Σ_i d_it d̃_i
    r_q, r_d = g_q(x), g_d(x), x = [s_{t-1}; q_t; d_t; q_t ⊙ d_t];  s_t = GRU([r_q ⊙ q_t; r_d ⊙ d_t], s_{t-1})
    P(w) = Σ_{i: D_i = w} d_iT

    Shapes: first_ids int64 [batch, first], the sentence, second_ids [batch, second], the document, masks bool of the
        same -> logits [batch, class], maps `sentence` q [batch, 1, step, first], `document` d [batch, 1, step, second].
    """

    deciding = ("read_sentence", "read_document", "infer", "gate_sentence", "gate_document")

    def __init__(self, config: IterativeReaderConfig) -> None:
        super().__init__(config)
        self.config, d, d_state = config, 2 * config.d_hidden, config.d_state
        self.words = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        self.dropout = nn.Dropout(config.dropout)
        self.read_sentence, self.read_document = (
            BiGru(d_in=config.d_embedding, d_hidden=config.d_hidden) for _ in range(2)
        )
        self.over_sentence = Attention(score=BiasedGeneral(d_q=d_state, d_k=d))
        self.over_document = Attention(score=BiasedGeneral(d_q=d_state + d, d_k=d))
        if config.gated:
            self.gate_sentence, self.gate_document = (
                Gate(d_in=d_state + 3 * d, d=d, d_gate=config.d_gate) for _ in range(2)
            )
        self.infer = nn.GRUCell(2 * d, d_state)

    def forward(self, **tensors: Tensor) -> Answer:
        lacking, told, ids = tensors["first_mask"], tensors["second_mask"], tensors["second_ids"]
        sentence = self.read_sentence(self.dropout(self.words(tensors["first_ids"])), lacking)
        document = self.read_document(self.dropout(self.words(ids)), told)
        state, asked, answered = sentence.new_zeros(sentence.shape[0], self.config.d_state), [], []
        for _ in range(self.config.steps):
            query, over_sentence = attend(self.over_sentence, state.unsqueeze(1), sentence, None, over_keys(lacking))
            both = torch.cat([state.unsqueeze(1), query], -1)
            found, over_document = attend(self.over_document, both, document, None, over_keys(told))
            state = self.search(state, query.squeeze(1), found.squeeze(1))
            asked.append(over_sentence)
            answered.append(over_document)
        maps = {"sentence": torch.cat(asked, 2), "document": torch.cat(answered, 2)}
        return Answer({"logits": self.logits(answered[-1], ids)}, maps)

    def search(self, state: Tensor, query: Tensor, found: Tensor) -> Tensor:
        """s_t. Shapes: state [batch, d_state], query and found [batch, d] -> [batch, d_state]."""
        if self.config.gated:
            known = torch.cat([state, query, found, query * found], -1)
            query, found = self.gate_sentence(known) * query, self.gate_document(known) * found
        following: Tensor = self.infer(self.dropout(torch.cat([query, found], -1)), state)
        return following


def card(network: IterativeReader, blueprint: Blueprint[IterativeReaderConfig]) -> Card:
    """Describe the reader."""
    pair = blueprint.pair(f"A sentence with `{cloze.BLANK}` for one of its words, and a document that has the word.")
    steps = numbered("steps", "hops", "step", network.config.steps)
    asked = Attends(steps, pair.first, "What of the sentence each step of the search looks at.", kind="cross")
    about = "The weight of each word of the document in each step; those of a word are summed in the last."
    found = Attends(steps, pair.second, about, kind="cross")
    return blueprint.card(
        network,
        title="Alternating iterative reader",
        summary="Finds the word that a sentence lacks in a document, looking at sentence and document by turns.",
        inputs=[pair],
        maps=maps_of(network.over_sentence, {"sentence": asked}) | maps_of(network.over_document, {"document": found}),
        taxonomy="scoring: biased general, features: alternating co-attention, specialised, multi-hop",
        citation="Sordoni, Bachman, Trischler, Bengio (2016): Iterative Alternating Neural Attention for Machine "
        "Reading. arXiv:1606.02245",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, steps=2, d_embedding=8, d_hidden=6, d_state=7, d_gate=5, dropout=0.0),
    "demo": preset(4, 32, 4e-3, patience=2, clip=5.0, vocabulary=3000).sized(
        steps=3, d_embedding=32, d_hidden=32, d_state=48, d_gate=32
    ),
    "full": preset(8, 32, 2e-3, patience=2, clip=5.0, vocabulary=20_000),
    # The sizes for CNN's articles.
    "paper": preset(10, 32, 1e-3, weight_decay=1e-4, patience=2, clip=5.0, vocabulary=120_000).sized(
        steps=8, d_embedding=384, d_hidden=128, d_state=512, d_gate=512
    ),
}

ITERATIVE_READER = Recipe(
    IterativeReaderConfig,
    IterativeReader,
    card,
    of_answers(IterativeReaderConfig),
    PRESETS,
    task=Classify(),
    data=rows.TEXT_PAIRS,
    builtin=cloze.dataset,
)
# A single look at sentence and document, and a search without gates.
ITERATIVE_READER_ONE = ITERATIVE_READER.changed(steps=1)
ITERATIVE_READER_UNGATED = ITERATIVE_READER.changed(gated=False)
