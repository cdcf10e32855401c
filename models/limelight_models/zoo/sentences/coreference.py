"""Coreference by deep biaffine attention, P15 (Zhang, Nogueira dos Santos, Yasunaga, Xiang & Radev 2018).

Fig. 1 of the paper: a bidirectional LSTM reads the words, every span of a few words is a candidate, of which attention
finds the head word, and a biaffine form says to which earlier candidate each goes back; whether a candidate is a
mention at all is taught beside it (§2.2). Ours: what the paper says of spans is said here of the words that they end
with, by sums over the spans, and of antecedents the last is taught, where the paper takes any of them.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from limelight_models.attention import Attention
from limelight_models.attention.alignment import fill
from limelight_models.attention.flat import of_pieces
from limelight_models.attention.score import SelfAttentive
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, Classes, WordsInput, maps_of
from limelight_models.data import antecedents, rows, tokenizers
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Recipe, TextSizes, of_texts, preset, tiny
from limelight_models.tasks.parse import Parse
from limelight_models.weights import Weights


class CoreferenceConfig(TextSizes):
    """Sizes. longest: words of a candidate."""

    d_embedding: int = 64
    d_hidden: int = 64
    d_span: int = 64
    longest: int = 3
    dropout: float = 0.1
    max_words: int = 64
    max_pieces: int = 16


class Candidates(nn.Module):
    """s = [h_first; h_last; Σ_t α_t x_t; φ(length)],  α = softmax_t(vᵀ FFNN(h_t)) over the words of the span (§2.1).

    Shapes: words x [batch, word, d_x], states h [batch, word, d_h] -> of the spans that end at each word, from one word
        to `longest`: s [batch, word, length, d_s], and α from the last word back [batch, word, length, longest].
    """

    def __init__(self, config: CoreferenceConfig) -> None:
        super().__init__()
        self.longest, d = config.longest, 2 * config.d_hidden
        self.attention = Attention(score=SelfAttentive(d_k=d, d_w=config.d_span, act=torch.relu))
        self.length = nn.Embedding(config.longest, config.d_span)
        self.d_out = 2 * d + config.d_embedding + config.d_span

    @property
    def makes(self) -> tuple[Weights, ...]:
        return self.attention.makes

    def forward(self, words: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        before = self.back(states)
        within = torch.ones(self.longest, self.longest, dtype=torch.bool, device=words.device).tril()
        keys, values = (each.flatten(0, 1).unsqueeze(1) for each in (before, self.back(words)))
        heads, alpha = (each[:, 0].unflatten(0, words.shape[:2]) for each in self.attention(keys, keys, values, within))
        last = states.unsqueeze(2).expand_as(before)
        lengths = self.length.weight.expand(*words.shape[:2], -1, -1)
        return torch.cat([before, last, heads, lengths], -1), alpha

    def back(self, features: Tensor) -> Tensor:
        """Features of each word, and of those before it. Shapes: [batch, word, d] -> [batch, word, longest, d]."""
        count = features.shape[1]
        return torch.stack([pad(features, (0, 0, far, 0))[:, :count] for far in range(self.longest)], 2)


class Antecedents(nn.Module):
    """s(i, j) = s_m(i) + s_m(j) + ŝ_jᵀ U ŝ_i + vᵀ ŝ_i of an earlier span j, and 0 of none (§2.2).

    Shapes: spans [batch, word, length, d], exist bool [batch, word, length] -> s_m [batch, word, length], and the
        probability of an antecedent that ends at each word, of none at its own, [batch, word, word].
    """

    makes = (Weights(),)

    def __init__(self, config: CoreferenceConfig, *, d_in: int) -> None:
        super().__init__()
        self.mention, self.anaphora, self.antecedent = (
            nn.Sequential(nn.Linear(d_in, config.d_span), nn.ReLU(), nn.Dropout(config.dropout)) for _ in range(3)
        )
        self.mentioned = nn.Linear(config.d_span, 1)
        self.form = nn.Linear(config.d_span, config.d_span, bias=False)
        self.either = nn.Linear(config.d_span, 1, bias=False)

    def forward(self, spans: Tensor, exist: Tensor) -> tuple[Tensor, Tensor]:
        mentions = self.mentioned(self.mention(spans)).squeeze(-1)
        later, earlier = self.anaphora(spans).flatten(1, 2), self.antecedent(spans).flatten(1, 2)
        pairs = self.form(later) @ earlier.transpose(1, 2) + self.either(later)
        scores = pairs + mentions.flatten(1).unsqueeze(2) + mentions.flatten(1).unsqueeze(1)
        count, longest = spans.shape[1:3]
        places = torch.arange(count, device=spans.device)
        begins = places.unsqueeze(1) - torch.arange(longest, device=spans.device)  # of the spans that end at each word
        ends = places.unsqueeze(1).expand_as(begins)
        # An antecedent ends before what goes back to it begins.
        allowed = (ends.flatten() < begins.flatten().unsqueeze(1)) & exist.flatten(1).unsqueeze(1)
        scores = fill(scores, allowed & exist.flatten(1).unsqueeze(2)).unflatten(2, (count, longest)).logsumexp(-1)
        scores = scores.unflatten(1, (count, longest)).logsumexp(2)
        return mentions, scores.masked_fill(places.unsqueeze(1) == places, 0.0).softmax(-1)


class Coreference(Network):
    """Words -> for each that ends a mention the probability of each earlier one as its antecedent, and whether it does.

    Shapes: token_ids int64 [batch, word, piece], token_mask bool of the same -> antecedents [batch, word, word], logits
        [batch, word, class], maps `words.self` and `mention.self` [batch, 1, word, word], the words of the span that is
        likeliest a mention, weighed over its lengths.
    """

    parses = "words.self"
    deciding = ("antecedents",)

    def __init__(self, config: CoreferenceConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = BiLstm(d_in=config.d_embedding, d_hidden=config.d_hidden)
        self.candidates = Candidates(config)
        self.antecedents = Antecedents(config, d_in=self.candidates.d_out)
        self.classify = nn.Linear(1, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        mask, embedded = tensors["token_mask"], self.embedding(tensors["token_ids"])
        real, words = mask.any(-1), of_pieces(embedded, mask)
        words = self.dropout(words)
        spans, alpha = self.candidates(words, self.dropout(self.encoder(words, real)))
        places = torch.arange(real.shape[1], device=real.device)
        back = places.unsqueeze(1) - places  # how far a word stands before another
        exist = real.unsqueeze(-1) & (places.unsqueeze(1) >= torch.arange(self.config.longest, device=real.device))
        mentions, found = self.antecedents(spans, exist)
        mentions = fill(mentions, exist)
        heads = (mentions.softmax(-1).unsqueeze(2) @ alpha).squeeze(2)  # over lengths: [batch, word, back]
        inside = (back >= 0) & (back < self.config.longest)
        near = back.clamp(0, self.config.longest - 1).expand(real.shape[0], -1, -1)
        maps = {self.parses: found, "mention.self": heads.gather(2, near) * inside}
        asks = real[:, None, :, None]  # padding asks for nothing
        outputs = {"antecedents": found, "logits": self.classify(mentions.logsumexp(-1, keepdim=True))}
        return Answer(outputs, {name: weights.unsqueeze(1) * asks for name, weights in maps.items()})


def card(network: Coreference, blueprint: Blueprint[CoreferenceConfig]) -> Card:
    """Describe the network."""
    config = network.config
    text = WordsInput(tokenizer=blueprint.tokenizer(), max_sentences=config.max_words, max_words=config.max_pieces)
    words = text.sentences
    back = Attends(words, words, "To which word each mention goes back; a new one, and what is none, to itself.")
    head = Attends(words, words, "Which of its words counts in a mention, by the word that it ends with.")
    return blueprint.card(
        network,
        title="Coreference by biaffine attention",
        summary="Says of each mention in a text which one before it means the same; one that is new goes to itself.",
        inputs=[text],
        results=[
            Classes(name="earlier", scores="antecedents", activation="identity", over=words, entries=words),
            Classes(labels=blueprint.labels, name="tags", over=words),
        ],
        maps={
            **maps_of(network.antecedents, {network.parses: back}),
            **maps_of(network.candidates, {"mention.self": head}),
        },
        taxonomy="general, location-based, self-attentive",
        citation="Zhang, Nogueira dos Santos, Yasunaga, Xiang, Radev (2018): Neural Coreference Resolution with Deep "
        "Biaffine Attention by Joint Mention Detection and Mention Clustering. ACL",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, d_span=7),
    "demo": preset(16, 32, 4e-3, vocabulary=300, d_embedding=32, d_hidden=32, d_span=32),
    "full": preset(30, 32, 2e-3, vocabulary=4000, patience=6, max_words=256),
    "paper": preset(150, 1, 1e-3, patience=20, vocabulary=20_000, d_embedding=350, d_hidden=200).sized(
        d_span=150, longest=10, dropout=0.2, max_words=1000
    ),
}

COREFERENCE = Recipe(
    CoreferenceConfig,
    Coreference,
    card,
    of_texts(CoreferenceConfig, tokenizers.within_words),
    PRESETS,
    task=Parse(figure="antecedents found", beside=("itself", 0)),
    data=rows.TAGGED,
    builtin=antecedents.dataset,
)
