"""LXMERT, K22 (Tan & Bansal 2019): a stream of words and one of regions, which look at each other layer by layer.

Fig. 1 of the paper, from the left: regions with their places, and words with theirs; an encoder of each; the
cross-modality encoder; the answer. The paper's learns from captions and questions first; here it begins at random, with
an eye that knows digits. What it answers by is a token in front of the words, here the last word.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import over_keys
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.cells import Cells
from limelight_models.blocks.regions import PlacedRegions
from limelight_models.blocks.transformer import BERT_EPSILON, AddAndNorm
from limelight_models.cards.maps import Attends, maps_of
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.answering import BertVqaConfig, answering, of_picture
from limelight_models.zoo.co_attention.vqa import PlacedWords, last_word


class LxmertConfig(BertVqaConfig):
    """Sizes. The paper has d 768, 12 heads, d_hidden 3072; 9 layers of words, 5 of regions, 5 crossing; 36 regions.

    layers: those in which the streams meet.
    """

    word_layers: int = 1
    region_layers: int = 1


class CrossLayer(nn.Module):
    """Each stream attends to the other, then to itself; then a position-wise network each (§2.2, "Cross-Modality").

    ĥ = norm(h + attention of h to v);  v̂ = norm(v + attention of v to h);  then a layer over ĥ, and one over v̂

    The authors' code has one set of weights for both ways; here, as in the paper's equations, each way has its own.

    Shapes: words h [batch, word, d], regions v [batch, region, d], mask bool [batch, word] -> the same as h and v,
        weights [batch, head, word, region], [batch, head, region, word], [batch, head, word, word] and [batch, head,
        region, region].
    """

    def __init__(self, config: LxmertConfig) -> None:
        super().__init__()
        self.to_regions, self.to_words = (
            MultiHead(attention=Attention(score=ScaledDot()), d_model=config.d, heads=config.heads) for _ in range(2)
        )
        self.after_regions, self.after_words = (
            AddAndNorm(d_model=config.d, dropout=config.dropout, epsilon=BERT_EPSILON) for _ in range(2)
        )
        self.over_words, self.over_regions = config.layer(), config.layer()

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of words over regions, and of regions over words; those of each over itself."""
        return weights_of(self.to_regions, self.to_words, self.over_words, self.over_regions)

    def forward(self, words: Tensor, regions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        found, looks = self.to_regions(words, regions)
        told, listens = self.to_words(regions, words, mask=over_keys(mask))
        words, own = self.over_words(self.after_regions(words, found), mask)
        regions, around = self.over_regions(self.after_words(regions, told))
        return words, regions, (looks, listens, own, around)


class Lxmert(Network):
    """A picture and a question -> an answer, with what words and regions look at, among themselves and in each other.

    h_0 = norm(E x_i + P_i) (§2.1);  logits = W₂ norm(gelu(W₁ tanh(W_h h_last))), h_last the state of the last word

    Shapes: pixels [batch, 1, row, column], question_ids int64 [batch, word], question_mask bool -> logits [batch,
        class]; maps of the encoders `text.<layer>.self` [batch, head, word, word] and `picture.<layer>.self` [batch,
        head, region, region]; of the cross-modality encoder `words.<layer>.cross` [batch, head, word, region],
        `regions.<layer>.cross` [batch, head, region, word], `words.<layer>.self` and `regions.<layer>.self`.
    """

    def __init__(self, config: LxmertConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.regions, self.words = config.regions(config.around), PlacedWords(config)
        self.placed, self.norm = PlacedRegions(d, self.regions.cells.grid), nn.LayerNorm(d, BERT_EPSILON)
        self.dropout = nn.Dropout(config.dropout)
        self.text = nn.ModuleList(config.layer() for _ in range(config.word_layers))
        self.picture = nn.ModuleList(config.layer() for _ in range(config.region_layers))
        self.crossing = nn.ModuleList(CrossLayer(config) for _ in range(config.layers))
        self.pool = nn.Linear(d, d)
        self.hidden = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.LayerNorm(2 * d, BERT_EPSILON))
        self.classify = nn.Linear(2 * d, config.classes)

    @property
    def cells(self) -> Cells:
        """The eye."""
        return self.regions.cells

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["question_mask"]
        asks = mask[:, None, :, None]  # padding asks for nothing
        words = self.dropout(self.norm(self.words(tensors["question_ids"])))
        regions = self.dropout(self.placed(self.regions(tensors["pixels"])))
        maps: dict[str, Tensor] = {}
        for number, layer in enumerate(self.text):
            words, weights = layer(words, mask)
            maps[f"text.{number}.self"] = weights * asks
        for number, layer in enumerate(self.picture):
            regions, maps[f"picture.{number}.self"] = layer(regions)
        for number, layer in enumerate(self.crossing):
            words, regions, (looks, listens, own, around) = layer(words, regions, mask)
            maps |= {f"words.{number}.cross": looks * asks, f"regions.{number}.cross": listens}
            maps |= {f"words.{number}.self": own * asks, f"regions.{number}.self": around}
        pooled = torch.tanh(self.pool(last_word(words, mask).squeeze(1)))
        return Answer({"logits": self.classify(self.hidden(self.dropout(pooled)))}, maps)


def card(network: Lxmert, blueprint: Blueprint[LxmertConfig]) -> Card:
    """Describe the network."""
    config = network.config
    picture, question = config.picture(), config.question(blueprint.tokenizer())
    words, cells = question.tokens("words"), of_picture(picture, network.regions)
    text = {"text.{}.self": Attends(words, words, "Which words each word looks at in layer {} of their encoder.")}
    seen = {"picture.{}.self": Attends(cells, cells, "Which regions each looks at in layer {} of their encoder.")}
    crossing = {
        "words.{}.cross": Attends(words, cells, "Which regions each word looks at in crossing layer {}.", kind="co"),
        "regions.{}.cross": Attends(cells, words, "Which words each region looks at in crossing layer {}.", kind="co"),
        "words.{}.self": Attends(words, words, "Which words each word looks at in crossing layer {}."),
        "regions.{}.self": Attends(cells, cells, "Which regions each region looks at in crossing layer {}."),
    }
    return blueprint.card(
        network,
        title="LXMERT",
        summary="Answers questions about pictures by words and regions that look at each other, layer by layer.",
        inputs=[picture, question],
        maps=maps_of(network.text, text) | maps_of(network.picture, seen) | maps_of(network.crossing, crossing),
        taxonomy="scaled multiplicative, parallel co-attention, self-attentive, specialised, multi-head",
        citation="Tan, Bansal (2019): LXMERT: Learning Cross-Modality Encoder Representations from Transformers. EMNLP",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, channels=(4, 6, 8), d=8, heads=2, d_hidden=8, around=1),
    "demo": preset(20, 32, 5e-4, vocabulary=500, taught=True),
    "full": preset(20, 32, 5e-4, patience=5, vocabulary=8000, d=96, d_hidden=384, dropout=0.2),
    "paper": preset(4, 32, 5e-5, vocabulary=30_000).sized(
        d=768, word_layers=9, region_layers=5, layers=5, heads=12, d_hidden=3072
    ),
}

LXMERT = answering(LxmertConfig, Lxmert, card, PRESETS)
# The paper's question: how many layers in which the streams meet?
LXMERT_ONE = LXMERT.changed(layers=1)
