"""QANet, J13 (A. W. Yu, Dohan, Luong, Zhao, Chen, Norouzi & Le 2018): where in a passage a question is answered.

Fig. 1 of the paper, from the bottom: words; an encoder block that passage and question share; context–query attention;
a stack of encoder blocks, passed three times; the first word of the answer from the first and second pass, the last
from the first and third. Ours: learned words in the place of GloVe and characters, no layer dropout (§4.1.2), and a
relu behind each convolution.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.alignment import fill
from limelight_models.attention.features import ConcatProduct
from limelight_models.attention.flat import over_keys
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.transformer import FeedForward, places
from limelight_models.blocks.two_way import TwoWay
from limelight_models.cards.language import Attends, LabelSet, Map, Spans, maps_of
from limelight_models.data import purchases, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.data.folder import PASSAGES
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, Sizes, preset, tiny
from limelight_models.tasks.spans import FindSpan

PASSES = 3


class QanetConfig(Sizes):
    """Sizes. The paper has d 128, 8 heads, 4 convolutions of width 7 in the encoder of words, 7 blocks with 2
    convolutions of width 5 in the model, passages of 400 words, and words of 300 + 200 features.

    own: whether passage and question attend to themselves; without, blocks are convolutions alone (§4.1.3).
    """

    vocabulary: int
    own: bool = True
    d: int = 64
    heads: int = 4
    convolutions: int = 2
    width: int = 7
    blocks: int = 2
    block_convolutions: int = 2
    block_width: int = 5
    dropout: float = 0.1
    max_tokens: int = 400
    max_characters: int = 20_000


class Convolution(nn.Module):
    """A depthwise separable convolution (§2.2; Chollet 2017). Shapes: x [batch, word, d], mask bool [batch, word]."""

    def __init__(self, d: int, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(d, d, width, padding=width // 2, groups=d, bias=False)
        self.pointwise = nn.Conv1d(d, d, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        over_words = (x * mask.unsqueeze(-1)).transpose(1, 2)
        return torch.relu(self.pointwise(self.depthwise(over_words))).transpose(1, 2)


class EncoderBlock(nn.Module):
    """Convolutions, self-attention and a feed-forward layer, each as x + f(layernorm(x)) (§2.2, Fig. 1 right).

    Shapes: x [batch, word, d], mask bool [batch, word] -> the same, weights [batch, head, word, word], None without
        self-attention.
    """

    def __init__(self, config: QanetConfig, *, convolutions: int, width: int) -> None:
        super().__init__()
        d = config.d
        self.convolutions = nn.ModuleList(Convolution(d, width) for _ in range(convolutions))
        self.before = nn.ModuleList(nn.LayerNorm(d) for _ in range(convolutions))
        own = MultiHead(attention=Attention(score=ScaledDot()), d_model=d, heads=config.heads)
        self.own: MultiHead | None = own if config.own else None
        self.before_attention, self.before_hidden = nn.LayerNorm(d), nn.LayerNorm(d)
        self.hidden = FeedForward(d_model=d, d_hidden=d)
        self.dropout = nn.Dropout(config.dropout)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of its self-attention, where it has one."""
        return () if self.own is None else weights_of(self.own)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        x, weights = x + places(torch.arange(x.shape[1], device=x.device), x), None
        for norm, convolution in zip(self.before, self.convolutions, strict=True):
            x = x + self.dropout(convolution(norm(x), mask))
        if self.own is not None:
            normed = self.before_attention(x)
            attended, weights = self.own(normed, normed, mask=over_keys(mask))
            x, weights = x + self.dropout(attended), weights * mask[:, None, :, None]  # padding asks for nothing
        return x + self.dropout(self.hidden(self.before_hidden(x))), weights


class Qanet(Network):
    """A question and a passage -> scores of each word as the first and as the last of the answer.

    S = w₀ᵀ [q; c; q ⊙ c];  A = S̄ Q, B = S̄ S̿ᵀ C, S̄ and S̿ softmaxes of S over question and passage
    M₀, M₁, M₂ = blocks of [c; a; c ⊙ a; c ⊙ b], of M₀, of M₁, with the same parameters
    p¹ = softmax(W₁ [M₀; M₁]), p² = softmax(W₂ [M₀; M₂])  (§2.2)

    Shapes: first_ids int64 [batch, first], the question, second_ids [batch, second], the passage, masks bool of the
        same -> start_scores, end_scores [batch, second], maps `question.self` [batch, head, first, first],
        `passage.self` and `pass<number>.<block>.self` [batch, head, second, second], `passage.cross` [batch, 1, second,
        first], `question.cross` [batch, 1, first, second]; without self-attention the last two alone.
    """

    def __init__(self, config: QanetConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.words = nn.Embedding(config.vocabulary, d, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        self.encoder = EncoderBlock(config, convolutions=config.convolutions, width=config.width)
        self.between = TwoWay(ConcatProduct(d=d))
        self.resize = nn.Linear(4 * d, d)
        self.blocks = nn.ModuleList(
            EncoderBlock(config, convolutions=config.block_convolutions, width=config.block_width)
            for _ in range(config.blocks)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.start, self.end = (nn.Linear(2 * d, 1, bias=False) for _ in range(2))

    def forward(self, **tensors: Tensor) -> Answer:
        asked, told = tensors["first_mask"], tensors["second_mask"]
        maps: dict[str, Tensor | None] = {}
        question, maps["question.self"] = self.encoder(self.dropout(self.words(tensors["first_ids"])), asked)
        passage, maps["passage.self"] = self.encoder(self.dropout(self.words(tensors["second_ids"])), told)
        (a, b), (maps["passage.cross"], maps["question.cross"]) = self.between(passage, question, asked, told)
        state = self.resize(self.dropout(torch.cat([passage, a, passage * a, passage * b], -1)))
        made = []
        for number in range(PASSES):
            for place, block in enumerate(self.blocks):
                state, maps[f"pass{number}.{place}.self"] = block(state, told)
            made.append(state)
        start, end = (
            fill(layer(torch.cat([made[0], made[which]], -1)).squeeze(-1), told)
            for layer, which in ((self.start, 1), (self.end, 2))
        )
        shown = {name: each for name, each in maps.items() if each is not None}
        return Answer({"start_scores": start, "end_scores": end}, shown)


def card(network: Qanet, blueprint: Blueprint[QanetConfig]) -> Card:
    """Describe the network."""
    config = network.config
    about = "A question, and a passage that answers it in its own words."
    pair = blueprint.pair(about)
    question, passage = pair.first, pair.second
    between = {
        "passage.cross": Attends(
            passage, question, "Which words of the question each word of the passage looks at.", kind="co"
        ),
        "question.cross": Attends(
            question, passage, "Which words of the passage each word of the question looks at.", kind="co"
        ),
    }
    encoded, passed = (_encoded(network, question, passage), _passed(network, passage)) if config.own else ({}, {})
    return blueprint.card(
        network,
        title="QANet",
        summary="Finds the words of a passage that answer a question, by convolutions and self-attention.",
        inputs=[pair],
        results=[Spans(over=passage)],
        maps=encoded | maps_of(network.between, between) | passed,
        taxonomy="parallel co-attention, multiplicative, self-attentive, specialised, multi-head",
        citation="Yu, Dohan, Luong, Zhao, Chen, Norouzi, Le (2018): QANet: Combining Local Convolution with Global "
        "Self-Attention for Reading Comprehension. ICLR",
    )


def _encoded(network: Qanet, question: LabelSet, passage: LabelSet) -> dict[str, Map]:
    """The maps of what is looked at as both are read."""
    shown = {"question.self": question, "passage.self": passage}
    found: dict[str, Map] = {}
    for name, words in shown.items():
        found |= maps_of(network.encoder, {name: Attends(words, words, "What each word looks at, as it is read.")})
    return found


def _passed(network: Qanet, passage: LabelSet) -> dict[str, Map]:
    """The maps of the blocks in every pass."""
    found: dict[str, Map] = {}
    for number in range(PASSES):
        says = f"What each word looks at in block {{}} of pass {number}."
        found |= maps_of(network.blocks, {f"pass{number}.{{}}.self": Attends(passage, passage, says)})
    return found


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[QanetConfig]:
    """The words of the training part."""
    values = [value for example in dataset.train for value in example.instance.values()]
    tokenizer = tokenizers.words(tokenizers.texts_of(values), vocabulary=preset.vocabulary)
    config = QanetConfig(vocabulary=tokenizers.size(tokenizer), **preset.sizes)
    return Blueprint(config, (), {"tokenizer.json": tokenizer})


PRESETS = {
    "tiny": tiny(vocabulary=50, d=8, heads=2, convolutions=1, width=3, blocks=1, block_convolutions=1, block_width=3),
    "demo": preset(18, 32, 2e-3, vocabulary=10_000, d=32, heads=2, convolutions=1, width=5, blocks=1, max_tokens=160),
    "full": preset(12, 32, 1e-3, patience=3, vocabulary=10_000),
    # §4.1.2; without its layer dropout and averaged weights.
    "paper": preset(60, 32, 1e-3, weight_decay=3e-7, clip=5.0, vocabulary=90_000).sized(
        d=128, heads=8, convolutions=4, blocks=7
    ),
}

QANET = Recipe(
    QanetConfig, Qanet, card, prepare, PRESETS, task=FindSpan(over="second"), data=PASSAGES, builtin=purchases.dataset
)
# The paper's ablation (§4.1.3): without self-attention.
QANET_CONVOLVED = QANET.changed(own=False)
