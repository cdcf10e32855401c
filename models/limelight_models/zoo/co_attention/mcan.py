"""MCAN, deep modular co-attention network, K26 (Yu, Yu, Cui, Tao & Tian 2019): layers of words and regions.

Fig. 4 of the paper, from the left: regions, and words read by an LSTM; a cascade of modular co-attention layers, in
which words attend to words, regions to regions and to words; attentional reduction of both; fusion; the answer.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import over_keys
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.score import ScaledDot, SelfAttentive
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.cells import Cells
from limelight_models.blocks.transformer import AddAndNorm, FeedForward, PostNormLayer
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.answering import VqaConfig, answering, of_picture
from limelight_models.zoo.co_attention.vqa import Lstm, Words


class McanConfig(VqaConfig):
    """Sizes. The paper has d 512, 6 layers, 8 heads, d_hidden 2048, d_fused 1024, and 10 to 100 detected regions.

    stacked: whether regions are guided, in each layer, by the words of that layer, not by those of the last (Fig. 5).
    around: how many cells further each region sees.
    """

    layers: int = 2
    heads: int = 4
    d_hidden: int = 128
    d_fused: int = 128
    stacked: bool = False
    around: int = 2


class GuidedLayer(nn.Module):
    """SGA(X, Y): self-attention over X, attention of X to Y, then the position-wise network (§3, Fig. 2 and 3).

    Shapes: features x [batch, region, d], guide y [batch, word, d], mask bool [batch, word] -> the same as x, weights
        [batch, head, region, region] and [batch, head, region, word].
    """

    def __init__(self, config: McanConfig) -> None:
        super().__init__()
        self.itself, self.guided = (
            MultiHead(attention=Attention(score=ScaledDot()), d_model=config.d, heads=config.heads) for _ in range(2)
        )
        self.hidden = FeedForward(d_model=config.d, d_hidden=config.d_hidden)
        self.after_itself, self.after_guided, self.after_hidden = (
            AddAndNorm(d_model=config.d, dropout=config.dropout) for _ in range(3)
        )

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of the regions among themselves; then those over words."""
        return weights_of(self.itself, self.guided)

    def forward(self, features: Tensor, guide: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        attended, own = self.itself(features, features)
        features = self.after_itself(features, attended)
        attended, cross = self.guided(features, guide, mask=over_keys(mask))
        features = self.after_guided(features, attended)
        return self.after_hidden(features, self.hidden(features)), own, cross


class Mcan(Network):
    """A picture and a question -> an answer, with the weights of every layer, head and reduction.

    z = norm(W_x x̃ + W_y ỹ), x̃ and ỹ the regions and words of the last layer, reduced by attention (§4.3)

    Shapes: pixels [batch, 1, row, column], question_ids int64 [batch, word], question_mask bool -> logits [batch,
        class]; maps `words.<layer>.self` [batch, head, word, word], `regions.<layer>.self` [batch, head, region,
        region], `regions.<layer>.cross` [batch, head, region, word], `words.pool` and `regions.pool` [batch, 1, 1, …].
    """

    def __init__(self, config: McanConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.regions, self.words, self.reader = config.regions(config.around), Words(config), Lstm(d)
        self.asking = nn.ModuleList(
            PostNormLayer(d_model=d, heads=config.heads, d_hidden=config.d_hidden, dropout=config.dropout)
            for _ in range(config.layers)
        )
        self.looking = nn.ModuleList(GuidedLayer(config) for _ in range(config.layers))
        self.reduce_words, self.reduce_regions = (
            SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=d, d_w=d, act=torch.relu))) for _ in range(2)
        )
        self.fuse_words, self.fuse_regions = (nn.Linear(d, config.d_fused, bias=False) for _ in range(2))
        self.norm, self.dropout = nn.LayerNorm(config.d_fused), nn.Dropout(config.dropout)
        self.classify = nn.Linear(config.d_fused, config.classes)

    @property
    def cells(self) -> Cells:
        """The eye."""
        return self.regions.cells

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["question_mask"]
        regions = self.dropout(self.regions(tensors["pixels"]))
        words = self.reader(self.words(tensors["question_ids"], mask), mask)
        maps: dict[str, Tensor] = {}
        guides: list[Tensor] = []
        for number, layer in enumerate(self.asking):
            words, weights = layer(words, mask)
            guides.append(words)
            maps[f"words.{number}.self"] = weights * mask[:, None, :, None]  # padding asks for nothing
        for number, layer in enumerate(self.looking):
            guide = guides[number] if self.config.stacked else words
            regions, own, cross = layer(regions, guide, mask)
            maps |= {f"regions.{number}.self": own, f"regions.{number}.cross": cross}
        said, maps["words.pool"] = self.reduce_words(words, mask=mask)
        seen, maps["regions.pool"] = self.reduce_regions(regions)
        fused = self.norm(self.fuse_words(said) + self.fuse_regions(seen))
        return Answer({"logits": self.classify(self.dropout(fused))}, maps)


def card(network: Mcan, blueprint: Blueprint[McanConfig]) -> Card:
    """Describe the network."""
    config = network.config
    picture, question = config.picture(), config.question(blueprint.tokenizer())
    words, cells, whole = question.tokens("words"), of_picture(picture, network.regions), one("answer")
    asking = {"words.{}.self": Attends(words, words, "What each word looks at among the words in layer {}.")}
    looking = {
        "regions.{}.self": Attends(cells, cells, "What each region looks at among the regions in layer {}."),
        "regions.{}.cross": Attends(cells, words, "Which words each region is guided by in layer {}.", kind="co"),
    }
    said, seen = (
        {f"{name}s.pool": Attends(whole, keys, f"How much each {name} counts for the answer.", features=config.d)}
        for name, keys in (("word", words), ("region", cells))
    )
    return blueprint.card(
        network,
        title="Deep modular co-attention network",
        summary="Answers questions about pictures by layers of attention within and between words and regions.",
        inputs=[picture, question],
        maps=maps_of(network.asking, asking)
        | maps_of(network.looking, looking)
        | maps_of(network.reduce_words, said)
        | maps_of(network.reduce_regions, seen),
        taxonomy="scaled multiplicative, additive, parallel co-attention, self-attentive, specialised, multi-head",
        citation="Yu, Yu, Cui, Tao, Tian (2019): Deep Modular Co-Attention Networks for Visual Question Answering. "
        "CVPR",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, channels=(4, 6, 8), d=8, heads=2, d_hidden=8, d_fused=8),
    "demo": preset(20, 32, 5e-4, vocabulary=500, taught=True),
    "full": preset(20, 32, 1e-3, patience=5, vocabulary=8000, d=96, d_hidden=384, d_fused=192, layers=3, dropout=0.2),
    "paper": preset(13, 64, 1e-4, weight_decay=0.0, vocabulary=20_000).sized(
        d=512, d_hidden=2048, d_fused=1024, layers=6, heads=8
    ),
}

MCAN = answering(McanConfig, Mcan, card, PRESETS)


MCAN_STACKED = MCAN.changed(stacked=True)
# The paper's question: how deep?
MCAN_ONE, MCAN_FOUR = MCAN.changed(layers=1), MCAN.changed(layers=4)
