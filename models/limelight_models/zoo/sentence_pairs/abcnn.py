"""ABCNN, R9 (Yin, Schütze, Xiang & Zhou 2016): two sentences convolved side by side, each in view of the other.

Fig. 3 of the paper: a matrix says how near each unit of one sentence is to each of the other. It is a further channel
of a convolution's input (ABCNN-1), or its sums weigh the convolution's output in pooling (ABCNN-2), or both (ABCNN-3).
Weights are sums of similarities, and no distribution. Ours: a last layer that compares the two vectors, for classes of
a pair, where the paper has logistic regression on them and features of the task.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from limelight_models.attention.context import Context
from limelight_models.attention.score.similarity import NegativeDistance
from limelight_models.attention.weights import Weights
from limelight_models.blocks.comparison import both, comparison
from limelight_models.cards.language import Attends, maps_of
from limelight_models.data import inference, rows
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny

SIDES = ("first", "second")
_SPREAD = 0.1  # of what makes features of the matrix, to begin with


class AbcnnConfig(TextSizes):
    """Sizes. The paper has d_embedding 300 (word2vec, fixed), d 50, width 4 or 3, and one block or two.

    of_input, of_pooling: where attention is. width: words of a filter, and of a pooling window; odd, so that a window
    has a word in its middle.
    """

    of_input: bool = True
    of_pooling: bool = True
    blocks: int = 2
    width: int = 3
    d_embedding: int = 64
    d: int = 50
    d_compare: int = 96
    dropout: float = 0.2
    max_tokens: int = 64


class Nearness(NegativeDistance):
    """A_ij = 1 / (1 + |x_i - y_j|), of the Euclidean distance (§4.1).

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key] in (0, 1].
    """

    kernel = True

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return 1 / (1 - super().forward(query, key, context))


class Block(nn.Module):
    """A wide convolution and a pooling back to the sentence's length, both with attention or without.

    F_0,a = W_0 Aᵀ, F_1,a = W_1 A, of the input's columns x;  p_i = tanh(W [x_{i-w+1}; …; x_i] + b), F_a beside x
    a_0,j = Σ A[j, :], a_1,j = Σ A[:, j], of the columns p;  x'_j = Σ_{k=j}^{j+w-1} a_k p_k, or their mean

    Shapes: a pair of [batch, word, d_in], a pair of masks bool -> a pair of [batch, word, d], matrices A
        [batch, 1, first, second] of the input's words, and of the windows around them.
    """

    def __init__(self, config: AbcnnConfig, d_in: int) -> None:
        super().__init__()
        self.width, self.of_input, self.of_pooling = config.width, config.of_input, config.of_pooling
        self.nearness = Nearness() if config.of_input or config.of_pooling else None
        self.beside = nn.ParameterList(
            nn.init.normal_(torch.empty(config.max_tokens, d_in), std=_SPREAD) for _ in SIDES * config.of_input
        )
        self.convolution = nn.Conv1d(d_in * (1 + config.of_input), config.d, config.width, padding=config.width - 1)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its matrices."""
        return (Weights(normalised=False),) * (self.of_input + self.of_pooling)

    def forward(self, sides: list[Tensor], masks: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        maps = []
        if self.of_input:
            near = self.matrix(sides, masks)
            views = [near @ self.columns(1, near.shape[2]), near.transpose(1, 2) @ self.columns(0, near.shape[1])]
            sides = [torch.cat(both, -1) for both in zip(sides, views, strict=True)]
            maps.append(near.unsqueeze(1))
        more = self.width - 1
        sides = [torch.tanh(self.convolution(each.transpose(1, 2)).transpose(1, 2)) for each in sides]
        wide = [pad(mask, (more, 0), value=True) for mask in masks]
        if self.of_pooling:
            near = self.matrix(sides, wide)
            sides = [each * near.sum(axis).unsqueeze(-1) for each, axis in zip(sides, (2, 1), strict=True)]
            middle = slice(more // 2, -more // 2)
            maps.append((near[:, middle, middle] * masks[0].unsqueeze(2) * masks[1].unsqueeze(1)).unsqueeze(1))
        else:
            sides = [each / self.width for each in sides]
        summed = [each.unfold(1, self.width, 1).sum(-1) for each in sides]
        return [each * mask.unsqueeze(-1) for each, mask in zip(summed, masks, strict=True)], maps

    def matrix(self, sides: list[Tensor], masks: list[Tensor]) -> Tensor:
        """A, zero at padding. Shapes: -> [batch, first, second]."""
        assert self.nearness is not None
        query, key = (each.unsqueeze(1) for each in sides)
        near: Tensor = self.nearness(query, key, Context(query=query, key=key)).squeeze(1)
        return near * masks[0].unsqueeze(2) * masks[1].unsqueeze(1)

    def columns(self, side: int, length: int) -> Tensor:
        """W_iᵀ of so many places. Shapes: -> [place, d_in]."""
        return self.beside[side].index_select(0, torch.arange(length, device=self.beside[side].device))


class Abcnn(Network):
    """Two sentences -> classes of the pair, with how near their words, and the windows around them, are.

    r: the mean of a sentence's words, of the input and of every block (all-ap), side by side
    Ours: logits = W relu(W' [r_0; r_1; r_0 - r_1; r_0 ⊙ r_1])

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same -> logits [batch, class],
        maps `input.<block>.co` and `pooling.<block>.co` [batch, 1, first, second], as there is attention.
    """

    deciding = ("words", "blocks")

    def __init__(self, config: AbcnnConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        sizes = [config.d_embedding, *[config.d] * config.blocks]
        self.blocks = nn.ModuleList(Block(config, size) for size in sizes[:-1])
        self.dropout = nn.Dropout(config.dropout)
        self.compare = comparison(sum(sizes), hidden=config.d_compare, classes=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        masks = [tensors[f"{side}_mask"] for side in SIDES]
        sides = [self.words(tensors[f"{side}_ids"]) * tensors[f"{side}_mask"].unsqueeze(-1) for side in SIDES]
        levels, maps = [sides], dict[str, Tensor]()
        for number, block in enumerate(self.blocks):
            sides, made = block([self.dropout(each) for each in sides], masks)
            levels.append(sides)
            maps |= {name.format(number): each for name, each in zip(places(self.config), made, strict=True)}
        counts = [mask.sum(1, keepdim=True).clamp(min=1) for mask in masks]
        first, second = (
            torch.cat([level[side].sum(1) / count for level in levels], -1) for side, count in enumerate(counts)
        )
        return Answer({"logits": self.compare(self.dropout(both(first, second)))}, maps)


def places(config: AbcnnConfig) -> list[str]:
    """Names of a block's maps."""
    return ["input.{}.co"] * config.of_input + ["pooling.{}.co"] * config.of_pooling


def card(network: Abcnn, blueprint: Blueprint[AbcnnConfig]) -> Card:
    """Describe the network."""
    pair = blueprint.pair("Two sentences: what is given, and what is asked about it.")
    about = {"input.{}.co": "How near each word of one sentence is to each of the other, as layer {} sees it."}
    about["pooling.{}.co"] = "How near the windows of layer {} around words of the two sentences are."
    shown = {name: Attends(pair.first, pair.second, about[name]) for name in places(network.config)}
    return blueprint.card(
        network,
        title="ABCNN",
        summary="Tells how two sentences are related: each is convolved in view of how near the other's words are.",
        inputs=[pair],
        maps=maps_of(network.blocks, shown) if shown else {},
        taxonomy="scoring: similarity, parallel co-attention, alignment: sum, specialised",
        citation="Yin, Schütze, Xiang, Zhou (2016): ABCNN: Attention-Based Convolutional Neural Network for Modeling "
        "Sentence Pairs. TACL",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d=6, d_compare=8, dropout=0.0),
    "demo": preset(8, 32, 4e-3, patience=2, vocabulary=500, d_embedding=24, d=24, d_compare=32, dropout=0.1),
    "full": preset(8, 32, 2e-3, patience=2, vocabulary=8000),
    # The sizes of §5, with Adam in the place of Adagrad. Their words are word2vec's, and stay as they are.
    "paper": preset(25, 32, 1e-3, patience=5, vocabulary=40_000, d_embedding=300, d=50),
}

ABCNN = classifying_texts(AbcnnConfig, Abcnn, card, PRESETS, builtin=inference.dataset, data=rows.TEXT_PAIRS)
# ABCNN-1 and ABCNN-2, and what the paper compares all with: convolutions that see one sentence.
ABCNN_INPUT = ABCNN.changed(of_pooling=False)
ABCNN_POOLING = ABCNN.changed(of_input=False)
ABCNN_PLAIN = ABCNN.changed(of_input=False, of_pooling=False)
