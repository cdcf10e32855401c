"""Word-by-word attention, R7 (Rocktäschel, Grefenstette, Hermann, Kočiský & Blunsom 2016): a premise read again.

Fig. 1 of the paper: an LSTM reads the premise (A), a second one goes on from its memory and reads a delimiter and the
hypothesis; its last state attends to the premise once (B), or each of its states does, knowing what those before have
found (C). The delimiter, which is no word of the hypothesis, attends to nothing. Ours: words are learned.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.score import Additive
from limelight_models.blocks.recurrent import pick
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.data import inference, rows
from limelight_models.in_turn import Tensors, in_turn
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny


class WordByWordConfig(TextSizes):
    """Sizes. The paper has d_embedding 300 (word2vec, fixed), d 100.

    each: whether each word of the hypothesis attends, or its last state alone (§2.3).
    """

    each: bool = True
    d_embedding: int = 64
    d: int = 64
    dropout: float = 0.2
    max_tokens: int = 64


class Premise(nn.Module):
    """An LSTM that reads padding before the words, where it changes nothing, and so ends with the last word.

    Its biases are the weights of a feature that is 1 at words and 0 at padding: states of zeros stay zeros till then.

    Shapes: words [batch, position, d_in], zeros at padding, mask [batch, position] -> states [batch, position, d], the
        last cell [1, batch, d].
    """

    def __init__(self, *, d_in: int, d: int) -> None:
        super().__init__()
        self.cell = nn.LSTM(d_in + 1, d, batch_first=True, bias=False)

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        padding = (~mask).sum(1, keepdim=True)
        place = torch.arange(mask.shape[1], device=mask.device).unsqueeze(0)
        behind = torch.where(place < padding, place + mask.shape[1], place) - padding
        known = torch.cat([words, mask.unsqueeze(-1).to(words.dtype)], -1)
        states, (_, last) = self.cell(pick(known, behind))
        return pick(states, torch.where(mask, place + padding, 0)), last


class WordByWord(Network):
    """A premise and a hypothesis -> classes, with the weights of the premise for each word of the hypothesis.

    x = W E w, a word's vector in the size of the states;  Y = LSTM(premise) (§2.2)
    h = LSTM'(delimiter, hypothesis), of which the first cell is the last of the premise
    M_t = tanh(W^y Y + (W^h h_t + W^r r_{t-1}) ⊗ e_L) (eq. 11);  α_t = softmax(wᵀ M_t) (eq. 12)
    r_t = Y α_tᵀ + tanh(W^t r_{t-1}) (eq. 13);  h* = tanh(W^p r_N + W^x h_N) (eq. 14)
    Once: α = softmax(wᵀ tanh(W^y Y + W^h h_N ⊗ e_L)), r = Y αᵀ (eq. 7–9), h* = tanh(W^p r + W^x h_N) (eq. 10)

    Shapes: first_ids int64 [batch, first], the premise, second_ids [batch, second], masks bool of the same -> logits
        [batch, class], map `second.cross` [batch, 1, second, first], or once `first` [batch, 1, 1, first].
    """

    def __init__(self, config: WordByWordConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.delimiter = nn.Parameter(torch.randn(1, 1, config.d_embedding) * 0.3)
        self.project = nn.Linear(config.d_embedding, d, bias=False)  # the LSTMs have biases
        self.premise = Premise(d_in=d, d=d)
        self.hypothesis = nn.LSTM(d, d, batch_first=True)
        self.attention = Attention(score=Additive(d_q=2 * d if config.each else d, d_k=d, d_w=d, bias=False))
        self.keep = nn.Linear(d, d, bias=False) if config.each else None
        self.found, self.read = (nn.Linear(d, d, bias=False) for _ in range(2))
        self.dropout = nn.Dropout(config.dropout)
        self.classify = nn.Linear(d, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        mask, heard = tensors["first_mask"], tensors["second_mask"]
        premise, hypothesis = (self.embedding(tensors[f"{side}_ids"]) for side in ("first", "second"))
        known, cell = self.premise(self.project(self.dropout(premise)) * mask.unsqueeze(-1), mask)
        read = torch.cat([self.delimiter.expand(heard.shape[0], -1, -1), hypothesis], 1)
        states, _ = self.hypothesis(self.project(self.dropout(read)), (torch.zeros_like(cell), cell))
        last = heard.sum(1, keepdim=True)  # behind the delimiter
        state = pick(states, last)
        if self.keep is None:
            found, weights = attend(self.attention, state, known, None, over_keys(mask))
            maps = {"first": weights}
        else:
            keep, words = self.keep, mask.sum(1, keepdim=True)

            def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
                (before,) = left
                asked = torch.cat([now, before], -1).unsqueeze(1)
                # The mask is made here: of one from outside, an exported loop asks for its strides.
                real = torch.arange(known.shape[1], device=known.device) < words
                context, row = attend(self.attention, asked, known, None, over_keys(real))
                found = context.squeeze(1) + torch.tanh(keep(before))
                return (found,), (found, row[:, :, 0])

            every, rows_ = in_turn(step, (torch.zeros_like(cell[0]),), states[:, 1:])
            found = pick(pad(every.transpose(0, 1), (0, 0, 1, 0)), last)  # r_0 = 0 in front
            maps = {"second.cross": rows_.movedim(0, 2) * heard[:, None, :, None]}
        read = torch.tanh(self.found(found) + self.read(state)).squeeze(1)
        return Answer({"logits": self.classify(self.dropout(read))}, maps)


def card(network: WordByWord, blueprint: Blueprint[WordByWordConfig]) -> Card:
    """Describe the network."""
    config = network.config
    summary = "Two sentences: what is given (the premise), and what is asked about it (the hypothesis)."
    pair = blueprint.pair(summary)
    cross = Attends(pair.second, pair.first, "What each word of the second sentence looks at in the first.")
    once = Attends(one("pair"), pair.first, "How much each word of the first sentence counts.")
    return blueprint.card(
        network,
        title="Word-by-word attention" if config.each else "Conditional encoding with attention",
        summary="Tells how two sentences are related: the second is read with the first in mind, and looks back at it.",
        inputs=[pair],
        maps=maps_of(network.attention, {"second.cross": cross} if config.each else {"first": once}),
        taxonomy="additive",
        citation="Rocktäschel, Grefenstette, Hermann, Kočiský, Blunsom (2016): Reasoning about Entailment with "
        "Neural Attention. ICLR",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d=6, dropout=0.0),
    "demo": preset(6, 32, 4e-3, patience=2, vocabulary=500, d_embedding=32, d=32, dropout=0.1),
    "full": preset(6, 32, 2e-3, patience=2, vocabulary=8000),
    "paper": preset(20, 32, 1e-3, patience=5, vocabulary=40_000, d_embedding=300, d=100),
}

WORD_BY_WORD = classifying_texts(
    WordByWordConfig, WordByWord, card, PRESETS, builtin=inference.dataset, data=rows.TEXT_PAIRS
)
# What the paper compares it with: the last state attends, once.
WORD_BY_WORD_ONCE = WORD_BY_WORD.changed(each=False)
