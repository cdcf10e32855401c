"""QANet, J13 (A. W. Yu, Dohan, Luong, Zhao, Chen, Norouzi & Le 2018): where in a passage a question is answered.

Fig. 1 of the paper, from the bottom: words, through two highway layers; an encoder block that passage and question
share; context–query attention; a stack of encoder blocks, passed three times; the first word of the answer from the
first and second pass, the last from the first and third. Ours: learned words in the place of GloVe and characters, a
relu behind each convolution, and no average of the weights of past steps (§4.1.2).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

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

    own: whether passage and question attend to themselves; without, blocks are convolutions alone (§4.1.3). survival:
    how likely the last sublayer of a stack of blocks is not left out of a step of training, p_L of §4.1.2.
    """

    vocabulary: int
    own: bool = True
    survival: float = 1.0
    d_words: int = 64
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


class Highway(nn.Module):
    """T ⊙ relu(W x + b) + (1 - T) ⊙ x, T = sigmoid(W_T x + b_T) (Srivastava et al. 2015, eq. 3).

    Shapes: [..., d] -> the same.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.change, self.gate = nn.Linear(d, d), nn.Linear(d, d)
        nn.init.constant_(self.gate.bias, -2.0)  # below 0, as there: x goes through at first

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = torch.lerp(x, self.change(x).relu(), self.gate(x).sigmoid())
        return mixed


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

    In training, sublayer l of L is left out with probability l / L (1 - p_L), for each text by itself (§4.1.2); when it
    is not, it is as much larger, where Huang et al. (2016) make it smaller afterwards. number: of so many blocks.

    Shapes: x [batch, word, d], mask bool [batch, word] -> the same, weights [batch, head, word, word], None without
        self-attention.
    """

    def __init__(self, config: QanetConfig, *, convolutions: int, width: int, number: int = 0, blocks: int = 1) -> None:
        super().__init__()
        d, self.sublayers = config.d, convolutions + 1 + config.own
        self.below, self.left_out = number * self.sublayers, (1 - config.survival) / (blocks * self.sublayers)
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
        for number, (norm, convolution) in enumerate(zip(self.before, self.convolutions, strict=True), 1):
            x = self.add(x, convolution(norm(x), mask), number)
        if self.own is not None:
            normed = self.before_attention(x)
            attended, weights = self.own(normed, normed, mask=over_keys(mask))
            x = self.add(x, attended, self.sublayers - 1)
            weights = weights * mask[:, None, :, None]  # padding asks for nothing
        return self.add(x, self.hidden(self.before_hidden(x)), self.sublayers), weights

    def add(self, x: Tensor, made: Tensor, number: int) -> Tensor:
        """x + made by a sublayer, and in training for some texts x alone."""
        made = self.dropout(made)
        if self.training:
            made = made * dropout(made.new_ones(made.shape[0], 1, 1), (self.below + number) * self.left_out)
        return x + made


class Qanet(Network):
    """A question and a passage -> scores of each word as the first and as the last of the answer.

    c, q = block(W x + b), x of words behind two highway layers
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
        self.words = nn.Embedding(config.vocabulary, config.d_words, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        resize = nn.Linear(config.d_words, d)
        nn.init.xavier_uniform_(resize.weight)  # words count beside their places, whose numbers are near 1
        self.read = nn.Sequential(*(Highway(config.d_words) for _ in range(2)), resize)
        self.encoder = EncoderBlock(config, convolutions=config.convolutions, width=config.width)
        self.between = TwoWay(ConcatProduct(d=d))
        self.resize = nn.Linear(4 * d, d)
        self.blocks = nn.ModuleList(
            EncoderBlock(
                config,
                convolutions=config.block_convolutions,
                width=config.block_width,
                number=number,
                blocks=config.blocks,
            )
            for number in range(config.blocks)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.start, self.end = (nn.Linear(2 * d, 1, bias=False) for _ in range(2))

    def forward(self, **tensors: Tensor) -> Answer:
        asked, told = tensors["first_mask"], tensors["second_mask"]
        maps: dict[str, Tensor | None] = {}
        first, second = (self.read(self.dropout(self.words(tensors[f"{side}_ids"]))) for side in ("first", "second"))
        question, maps["question.self"] = self.encoder(first, asked)
        passage, maps["passage.self"] = self.encoder(second, told)
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
    "tiny": tiny(vocabulary=50, d_words=6, d=8, heads=2).sized(
        convolutions=1, width=3, blocks=1, block_convolutions=1, block_width=3
    ),
    "demo": preset(18, 32, 2e-3, vocabulary=10_000, d_words=32, d=32, heads=2).sized(
        convolutions=1, width=5, blocks=1, max_tokens=160
    ),
    "full": preset(12, 32, 1e-3, patience=3, vocabulary=10_000),
    # §4.1.2; without its averaged weights.
    "paper": preset(60, 32, 1e-3, weight_decay=3e-7, clip=5.0, vocabulary=90_000).sized(
        survival=0.9, d_words=500, d=128, heads=8, convolutions=4, blocks=7
    ),
}

QANET = Recipe(
    QanetConfig, Qanet, card, prepare, PRESETS, task=FindSpan(over="second"), data=PASSAGES, builtin=purchases.dataset
)
# The paper's ablation (§4.1.3): without self-attention.
QANET_CONVOLVED = QANET.changed(own=False)
