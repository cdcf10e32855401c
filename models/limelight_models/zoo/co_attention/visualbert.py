"""VisualBERT, K22 (Li, Yatskar, Yin, Hsieh & Chang 2019): one encoder reads words and regions as one sequence.

Fig. 2 of the paper, from the bottom: words and regions as embeddings, each told to which of the two it belongs; one
Transformer over both; the answer. The paper's begins as BERT and learns from captions first; here it begins at random,
with an eye that knows digits. Its answer is the state of a masked token at the question's end, here of the last word.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.cells import Cells
from limelight_models.blocks.transformer import BERT_EPSILON, PostNormLayer
from limelight_models.cards.maps import Attends, maps_of
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.answering import BertVqaConfig, answering, of_picture
from limelight_models.zoo.co_attention.vqa import PlacedWords, last_word


class VisualBertConfig(BertVqaConfig):
    """Sizes. The paper has those of BERT: d 768, 12 layers, 12 heads, d_hidden 3072.

    early: whether regions are there from the first layer on, or in the last alone.
    """

    early: bool = True


class Embeddings(nn.Module):
    """Words and regions as one sequence: norm of [E x_i + P_i + s_words; W f_j + s_regions] (§3.1 and 3.2).

    Shapes: ids int64 [batch, word], regions [batch, region, d] -> [batch, word + region, d].
    """

    def __init__(self, config: VisualBertConfig) -> None:
        super().__init__()
        self.words, self.project = PlacedWords(config), nn.Linear(config.d, config.d)
        self.segments = nn.Parameter(torch.randn(2, config.d) * 0.1)
        self.norm, self.dropout = nn.LayerNorm(config.d, BERT_EPSILON), nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, regions: Tensor) -> Tensor:
        words, seen = self.words(ids) + self.segments[0], self.project(regions) + self.segments[1]
        embedded: Tensor = self.dropout(self.norm(torch.cat([words, seen], 1)))
        return embedded


class JointLayer(nn.Module):
    """A layer over words and regions, whose weights are shown by who looks at what.

    A row of weights is a distribution over words and regions together: its two parts sum to 1.

    Shapes: features [batch, word + region, d], mask bool [batch, word] -> the same as features, weights [batch, head,
        word, word], [batch, head, word, region], [batch, head, region, word] and [batch, head, region, region].
    """

    def __init__(self, layer: PostNormLayer) -> None:
        super().__init__()
        self.layer = layer

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of words over words, and over regions; those of regions over words, and over regions."""
        return tuple(replace(each, normalised=False) for each in 4 * weights_of(self.layer))

    def forward(self, features: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        words = mask.shape[1]
        there = mask.new_ones(mask.shape[0], features.shape[1] - words)
        features, weights = self.layer(features, torch.cat([mask, there], 1))
        of_words, of_regions = weights[:, :, :words] * mask[:, None, :, None], weights[:, :, words:]
        parts = (part for rows_ in (of_words, of_regions) for part in (rows_[..., :words], rows_[..., words:]))
        return features, tuple(parts)


class VisualBert(Network):
    """A picture and a question -> an answer, with what words and regions look at in every layer and head.

    h = layers(embeddings);  logits = W h_last + b, h_last the state of the question's last word

    Shapes: pixels [batch, 1, row, column], question_ids int64 [batch, word], question_mask bool -> logits [batch,
        class]; maps `words.<layer>.self` [batch, head, word, word], `words.<layer>.cross` [batch, head, word, region],
        `regions.<layer>.cross` [batch, head, region, word], `regions.<layer>.self` [batch, head, region, region]; of
        layers over words alone `words.<layer>.self`.
    """

    def __init__(self, config: VisualBertConfig) -> None:
        super().__init__()
        self.config = config
        self.regions, self.embeddings = config.regions(config.around), Embeddings(config)
        before = 0 if config.early else config.layers - 1
        self.alone = nn.ModuleDict({str(number): config.layer() for number in range(before)})
        layers = range(before, config.layers)
        self.joint = nn.ModuleDict({str(number): JointLayer(config.layer()) for number in layers})
        self.dropout, self.classify = nn.Dropout(config.dropout), nn.Linear(config.d, config.classes)

    @property
    def cells(self) -> Cells:
        """The eye."""
        return self.regions.cells

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["question_ids"], tensors["question_mask"]
        features = self.embeddings(ids, self.regions(tensors["pixels"]))
        words, regions = features[:, : ids.shape[1]], features[:, ids.shape[1] :]
        maps: dict[str, Tensor] = {}
        for number, layer in self.alone.items():
            words, weights = layer(words, mask)
            maps[f"words.{number}.self"] = weights * mask[:, None, :, None]  # padding asks for nothing
        features = torch.cat([words, regions], 1)
        for number, layer in self.joint.items():
            features, parts = layer(features, mask)
            names = (f"words.{number}.self", f"words.{number}.cross", f"regions.{number}.cross")
            maps |= dict(zip((*names, f"regions.{number}.self"), parts, strict=True))
        answering = last_word(features, mask).squeeze(1)
        return Answer({"logits": self.classify(self.dropout(answering))}, maps)


def card(network: VisualBert, blueprint: Blueprint[VisualBertConfig]) -> Card:
    """Describe the network."""
    config = network.config
    picture, question = config.picture(), config.question(blueprint.tokenizer())
    words, cells = question.tokens("words"), of_picture(picture, network.regions)
    part = "; its weights on words and on regions sum to 1"
    joint = {
        "words.{}.self": Attends(words, words, f"Which words each word looks at in layer {{}}{part}."),
        "words.{}.cross": Attends(words, cells, f"Which regions each word looks at in layer {{}}{part}."),
        "regions.{}.cross": Attends(cells, words, f"Which words each region looks at in layer {{}}{part}."),
        "regions.{}.self": Attends(cells, cells, f"Which regions each region looks at in layer {{}}{part}."),
    }
    alone = {"words.{}.self": Attends(words, words, "What each word looks at among the words in layer {}.")}
    return blueprint.card(
        network,
        title="VisualBERT",
        summary="Answers questions about pictures by one encoder, in which words and regions all look at each other.",
        inputs=[picture, question],
        maps=maps_of(network.alone, alone) | maps_of(network.joint, joint),
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Li, Yatskar, Yin, Hsieh, Chang (2019): VisualBERT: A Simple and Performant Baseline for Vision "
        "and Language. arXiv:1908.03557",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, channels=(4, 6, 8), d=8, heads=2, d_hidden=8, around=1),
    "demo": preset(20, 32, 5e-4, vocabulary=500, taught=True),
    "full": preset(20, 32, 5e-4, patience=5, vocabulary=8000, d=96, d_hidden=384, layers=3, dropout=0.2),
    "paper": preset(10, 64, 2e-5, patience=10, vocabulary=30_000, d=768, layers=12, heads=12, d_hidden=3072),
}

VISUALBERT = answering(VisualBertConfig, VisualBert, card, PRESETS)
# The paper's ablation of early fusion: regions join the words in the last layer alone.
VISUALBERT_LATE = VISUALBERT.changed(early=False)
