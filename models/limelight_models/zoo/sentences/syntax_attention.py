"""Attention by distance in the syntax tree, P13 (He, Lee, Ng & Dahlmeier 2018; Chen et al. 2018).

§3.2 of He et al.: words near in the dependency tree count more than words near in the text, by half for each step of
the path, up to a bound; Chen et al. have a Gaussian in its place. Both take the tree from a parser. Here a biaffine
form parses in the same network, taught by a treebank, and each word asks for words that are near in the tree that was
found, to tell its role; a parse that is given (an intervention on its map) changes what is near.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, Context
from limelight_models.attention.align import DistanceAware
from limelight_models.attention.flat import attend, of_pieces, over_keys
from limelight_models.attention.score import BiasedGeneral, General
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, Classes, WordsInput, maps_of
from limelight_models.data import roles, rows, tokenizers
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Recipe, TextSizes, of_texts, preset, tiny
from limelight_models.tasks.parse import Parse


class SyntaxAttentionConfig(TextSizes):
    """Sizes. window: the most steps of a path. decay: of weights along it. tree: whether steps are those of the tree;
    without, from word to word of the text.
    """

    d_embedding: int = 64
    d_hidden: int = 64
    window: int = 3
    decay: Literal["halving", "gaussian"] = "halving"
    tree: bool = True
    dropout: float = 0.1
    max_words: int = 64
    max_pieces: int = 16


class SyntaxAttention(Network):
    """Words -> a role a word, from what it finds near to it in the tree.

    h = BiLSTM(x);  p_i = softmax_j(h_jᵀ (U h_i + u)), whose largest is the word that i depends on
    a_ij ∝ exp(h_jᵀ W h_i) f(l_ij) for l_ij ≤ window, else 0;  f(l) = 2^{-l}, or exp(-l² / 2σ²) with σ = window / 2
    logits_i = V [h_i; Σ_j a_ij h_j];  l_ij the steps of the path from i to j

    Shapes: token_ids int64 [batch, word, piece], token_mask bool of the same -> logits [batch, word, class], maps
        `parse.self` and `words.self` [batch, 1, word, word].
    """

    parses = "parse.self"

    def __init__(self, config: SyntaxAttentionConfig) -> None:
        super().__init__()
        self.config, d = config, 2 * config.d_hidden
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = BiLstm(d_in=config.d_embedding, d_hidden=config.d_hidden)
        self.parser = Attention(score=BiasedGeneral(d_q=d, d_k=d))
        near = DistanceAware(radius=config.window, decay=config.decay)
        self.attention = Attention(score=General(d_q=d, d_k=d), align=near)
        self.classify = nn.Linear(2 * d, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        mask, embedded = tensors["token_mask"], self.embedding(tensors["token_ids"])
        real, words = mask.any(-1), of_pieces(embedded, mask)
        states = self.dropout(self.encoder(self.dropout(words), real))
        _, parse = attend(self.parser, states, states, states, over_keys(real))
        if self.config.tree:
            distances = steps(parse[:, 0].argmax(-1), self.config.window).to(states.dtype)
        else:
            places = torch.arange(real.shape[1], device=real.device, dtype=states.dtype)
            distances = (places.unsqueeze(1) - places).abs().expand(real.shape[0], -1, -1)
        context = Context(distances=distances.unsqueeze(1))
        found, weights = attend(self.attention, states, states, states, over_keys(real), context)
        asks = real[:, None, :, None]  # padding asks for nothing
        logits = self.classify(torch.cat([states, found], -1))
        return Answer({"logits": logits}, {self.parses: parse * asks, "words.self": weights * asks})


def steps(parents: Tensor, most: int) -> Tensor:
    """Steps from word to word in the tree, `most` + 1 where there are more.

    Shapes: parents int64 [batch, word] -> int64 [batch, word, word].
    """
    places = torch.arange(parents.shape[1], device=parents.device)
    depends = parents.unsqueeze(-1) == places
    near = (depends | depends.transpose(1, 2) | (places.unsqueeze(1) == places)).float()
    reached = (places.unsqueeze(1) == places).float().expand_as(near)
    far = (reached == 0).long()
    for _ in range(most):
        reached = (reached @ near > 0).float()
        far = far + (reached == 0).long()
    return far


def card(network: SyntaxAttention, blueprint: Blueprint[SyntaxAttentionConfig]) -> Card:
    """Describe the network."""
    config = network.config
    text = WordsInput(tokenizer=blueprint.tokenizer(), max_sentences=config.max_words, max_words=config.max_pieces)
    words = text.sentences
    near = "the tree" if config.tree else "the text"
    parse = Attends(words, words, "On which word each word depends; it is taught.")
    looks = Attends(words, words, f"Which words each word looks at; those near in {near} count more.")
    return blueprint.card(
        network,
        title="Attention by distance in the syntax tree",
        summary="Says who does what to whom in a sentence, from words that are near in its parse.",
        inputs=[text],
        results=[Classes(labels=blueprint.labels, name="tags", over=words)],
        maps={
            **maps_of(network.parser, {network.parses: parse}),
            **maps_of(network.attention, {"words.self": looks}),
        },
        taxonomy="general, local, self-attentive",
        citation="He, Lee, Ng, Dahlmeier (2018): Effective Attention Modeling for Aspect-Level Sentiment "
        "Classification. COLING",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, window=2),
    "demo": preset(12, 32, 4e-3, vocabulary=300, d_embedding=32, d_hidden=32),
    "full": preset(30, 32, 2e-3, vocabulary=4000, patience=6),
    # §4 of He et al., with a rate of Adam's.
    "paper": preset(50, 32, 1e-3, patience=10, vocabulary=10_000, d_embedding=300, d_hidden=150, dropout=0.5),
}

SYNTAX_ATTENTION = Recipe(
    SyntaxAttentionConfig,
    SyntaxAttention,
    card,
    of_texts(SyntaxAttentionConfig, tokenizers.within_words),
    PRESETS,
    task=Parse(),
    data=rows.TAGGED,
    builtin=roles.dataset,
)
# Words near in the text count more, and the Gaussian of Chen et al.
SYNTAX_ATTENTION_TEXT = SYNTAX_ATTENTION.changed(tree=False)
SYNTAX_ATTENTION_GAUSSIAN = SYNTAX_ATTENTION.changed(decay="gaussian")
