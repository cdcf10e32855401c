"""Attention-based summarisation (ABS), P9 (Rush, Chopra & Weston 2015).

Fig. 3 of the paper: a feed-forward language model writes the summary, and the last words written ask for the words of
the source. Nothing is recurrent. The tuning by features of extraction (ABS+, §5) is left out.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d

from limelight_models.attention import Attention
from limelight_models.attention.score import General
from limelight_models.cards.language import Attends, carried_states, maps_of
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import Seq2SeqConfig, sharing


class AttentionSummaryConfig(Seq2SeqConfig):
    """Sizes. The paper has D 200, H 400, C 5 and Q 2.

    d: D, of an embedded word. hidden: H. context: C, the last words that are read again. smoothing: Q, how many
    neighbours on either side come with a word.
    """

    d: int = 48
    hidden: int = 96
    context: int = 5
    smoothing: int = 2


class AttentionSummary(GeneratingNetwork):
    """Text -> text, each token from the last C and what they ask for.

    p(y_{i+1} | x, y_c) ∝ exp(V h + W enc(x, y_c));  ỹ_c = [E y_{i-C+1}, …, E y_i];  h = tanh(U ỹ_c)
    x̃ = [F x_1, …, F x_M];  ỹ'_c = [G y_{i-C+1}, …, G y_i];  a ∝ exp(x̃ P ỹ'_c)
    x̄_i = Σ_{q = i-Q}^{i+Q} x̃_q / Q;  enc(x, y_c) = aᵀ x̄

    Before the first word stand C begin tokens.

    Shapes: source_ids int64 [batch, source], source_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], map `decoder.cross` [batch, head = 1, output, source].
    """

    def __init__(self, config: AttentionSummaryConfig) -> None:
        super().__init__()
        self.config = config
        target, d, h = config.target_vocabulary, config.d, config.hidden
        self.e, self.g = nn.Embedding(target, d), nn.Embedding(target, d)
        self.f = nn.Embedding(config.source_vocabulary, h, padding_idx=0)
        self.u = nn.Linear(config.context * d, h)
        self.v, self.w = nn.Linear(h, target), nn.Linear(h, target)
        self.attention = Attention(score=General(d_q=config.context * d, d_k=h))  # P
        for embedding in (self.e, self.g, self.f):
            nn.init.normal_(embedding.weight, std=0.1)  # torch's 1.0 makes loud noise of every rare token

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Shapes: words x̃ and around x̄ [batch, source, H], initial_written [batch, C, 2 D], begin tokens."""
        words = self.f(tensors["source_ids"]) * tensors["source_mask"].unsqueeze(-1)
        smoothing = self.config.smoothing
        width = 2 * smoothing + 1
        around = avg_pool1d(words.transpose(1, 2), width, 1, smoothing) * (width / smoothing)
        begin = torch.full_like(tensors["source_ids"][:, :1], self.config.begin).expand(-1, self.config.context)
        return {"words": words, "around": around.transpose(1, 2), "initial_written": self.embedded(begin)}

    def embedded(self, tokens: Tensor) -> Tensor:
        """[E y; G y]. Shapes: [...] -> [..., 2 D]."""
        return torch.cat([self.e(tokens), self.g(tokens)], -1)

    def look(self, written: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Scores [batch, step, token], weights [batch, 1, step, source], of the last words [batch, step, C, 2 D]."""
        last, asking = (each.flatten(-2) for each in written.chunk(2, -1))
        found, weights = self.attention(
            asking.unsqueeze(1),
            tensors["words"].unsqueeze(1),
            tensors["around"].unsqueeze(1),
            tensors["source_mask"][:, None, None],
        )
        return self.v(torch.tanh(self.u(last))) + self.w(found[:, 0]), weights

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """Shapes: token [batch], what `encode` gave, source_mask, written [batch, C, 2 D] -> scores [batch, token],
        next_written, map [batch, head, source].
        """
        written = torch.cat([tensors["written"][:, 1:], self.embedded(token).unsqueeze(1)], 1)
        scores, weights = self.look(written.unsqueeze(1), tensors)
        return StepAnswer(scores[:, 0], {"next_written": written}, {"decoder.cross": weights[:, :, 0]})

    def forward(self, **tensors: Tensor) -> Answer:
        known = {**tensors, **self.encode(**tensors)}
        words = torch.cat([known["initial_written"], self.embedded(tensors["target_ids"][:, :-1])], 1)
        written = words.unfold(1, self.config.context, 1).transpose(-2, -1)  # of each step the last C
        scores, weights = self.look(written, known)
        return Answer({"scores": scores}, {"decoder.cross": weights})


def card(network: AttentionSummary, blueprint: Blueprint[AttentionSummaryConfig]) -> Card:
    """Describe the model."""
    config = network.config
    text, target = config.source(blueprint.files), config.target(blueprint.files)
    written = config.written(blueprint.files, states=carried_states("written"))
    about = "Where the last words written asked for the next one; its neighbours come with a word."
    cross = Attends(written.steps, text.tokens("source"), about, features=config.hidden)
    return blueprint.card(
        network,
        title="Attention-based summarisation",
        summary="Writes what a text says in brief, each token from the last few and the words that they ask for.",
        inputs=[text, target],
        results=[written],
        maps=maps_of(network.attention, {"decoder.cross": cross}),
        taxonomy="general",
        citation="Rush, Chopra, Weston (2015): A Neural Attention Model for Abstractive Sentence Summarization. EMNLP",
    )


PRESETS = {
    "tiny": tiny(d=8, hidden=12, context=3),
    "demo": preset(10, 32, 4e-3, vocabulary=400),
    "full": preset(12, 32, 2e-3, patience=3, vocabulary=4000, d=96, hidden=192),
    # §7, with pieces in the place of words, and Adam in that of plain descent.
    "paper": preset(15, 64, 5e-4, patience=15, vocabulary=68_000, d=200, hidden=400),
}

ATTENTION_SUMMARY = sharing(AttentionSummaryConfig, AttentionSummary, card, PRESETS)
