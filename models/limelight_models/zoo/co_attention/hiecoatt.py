"""Hierarchical question-image co-attention, J4 (Lu, Yang, Batra & Parikh 2016): words, phrases, and the question.

Fig. 3 of the paper, from the left: the words of the question, the phrases that they make, the question as it is read;
at each of these levels co-attention with the picture's regions; and the answer, encoded level by level.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.controls import UniformAggregate
from limelight_models.attention.features import Alternating, Parallel, Perceptron, TanhBilinear
from limelight_models.attention.score import Additive
from limelight_models.blocks.cells import Cells
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.answering import VqaConfig, answering, of_picture
from limelight_models.zoo.co_attention.vqa import Lstm, Words

LEVELS = ("word", "phrase", "question")
GRAMS = (1, 2, 3)


class HieCoAttConfig(VqaConfig):
    """Sizes. The paper has d 512 everywhere, 196 regions of VGG-19 or ResNet, and dropout 0.5.

    around: how many cells further each region sees.
    """

    d_attention: int = 64
    d_answer: int = 128
    around: int = 2


CoAttention = Callable[[HieCoAttConfig], Parallel | Alternating]


def parallel(config: HieCoAttConfig) -> Parallel:
    """Question and picture at once (§3.3, eq. 3–5)."""
    aggregate = Perceptron(d_first=config.d, d_second=config.d, d_w=config.d_attention)
    return Parallel(attention=Attention(score=TanhBilinear(d_q=config.d, d_k=config.d)), aggregate=aggregate)


def alternating(config: HieCoAttConfig) -> Alternating:
    """The question, then the picture, then the question again (§3.3, eq. 6)."""
    over_words, over_regions = (
        Attention(score=Additive(d_q=config.d, d_k=config.d, d_w=config.d_attention)) for _ in range(2)
    )
    return Alternating(over_first=over_words, over_second=over_regions, d_query=config.d)


def over_words(config: HieCoAttConfig) -> Parallel:
    """Question attention alone: of the picture there is an average (§4.4)."""
    made = parallel(config)
    made.aggregate = UniformAggregate(made.aggregate, first=False)
    return made


def over_regions(config: HieCoAttConfig) -> Parallel:
    """Image attention alone: of the question there is an average (§4.4)."""
    made = parallel(config)
    made.aggregate = UniformAggregate(made.aggregate, second=False)
    return made


class Phrases(nn.Module):
    """Each word with its neighbours: the strongest of one, two and three words (§3.2, eq. 1–2).

    q̂_s,t = tanh(W_s q_t:t+s-1) for s = 1, 2, 3;  q_t = max over s of q̂_s,t

    Shapes: words [batch, word, d], zeros at padding, mask [batch, word] -> [batch, word, d].
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.grams = nn.ModuleList(nn.Conv1d(d, d, size) for size in GRAMS)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        across = words.transpose(1, 2)
        # So many words before the first and behind the last that each length stays as it is.
        padded = (nn.functional.pad(across, (size // 2, (size - 1) // 2)) for size in GRAMS)
        found = [torch.tanh(gram(each)) for gram, each in zip(self.grams, padded, strict=True)]
        return torch.stack(found).amax(0).transpose(1, 2) * mask.unsqueeze(-1)


class HieCoAtt(Network):
    """A picture and a question -> an answer, with what each level looks at in both.

    h_w = tanh(W_w (q̂_w + v̂_w));  h_p = tanh(W_p [q̂_p + v̂_p; h_w]);  h_q = tanh(W_q [q̂_q + v̂_q; h_p])  (eq. 7)

    Shapes: pixels [batch, 1, row, column], question_ids int64 [batch, word], question_mask bool -> logits [batch,
        class]; for each level the maps `<level>.words` [batch, 1, 1, word], `<level>.regions` [batch, 1, 1, region] and
        `<level>.affinity` [batch, 1, word, region]; alternating, `<level>.start` [batch, 1, 1, word] in its place.
    """

    def __init__(self, config: HieCoAttConfig, *, co_attention: CoAttention = parallel) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.regions = config.regions(config.around)
        self.words, self.phrases, self.reader = Words(config), Phrases(d), Lstm(d)
        self.levels = nn.ModuleDict({level: co_attention(config) for level in LEVELS})
        sizes = (d, d + config.d_attention, d + config.d_attention)
        made = (config.d_attention, config.d_attention, config.d_answer)
        self.encode = nn.ModuleList(map(nn.Linear, sizes, made))
        self.dropout = nn.Dropout(config.dropout)
        self.classify = nn.Linear(config.d_answer, config.classes)

    @property
    def cells(self) -> Cells:
        """The eye."""
        return self.regions.cells

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["question_mask"]
        regions = self.dropout(self.regions(tensors["pixels"]))
        words = self.words(tensors["question_ids"], mask)
        phrases = self.phrases(words, mask)
        maps: dict[str, Tensor] = {}
        encoded: list[Tensor] = []
        levels = zip(LEVELS, (words, phrases, self.reader(phrases, mask)), self.encode, strict=True)
        for level, question, encode in levels:
            seen, weights = self.levels[level](question, regions, mask)
            parts = torch.cat([seen.first + seen.second, *encoded], -1)
            encoded = [torch.tanh(encode(self.dropout(parts)))]
            maps |= {f"{level}.{NAMES.get(name, name)}": each for name, each in weights._asdict().items()}
        return Answer({"logits": self.classify(self.dropout(encoded[0]))}, maps)


# What weights of the two inputs are over.
NAMES = {"first": "words", "second": "regions"}


def card(network: HieCoAtt, blueprint: Blueprint[HieCoAttConfig]) -> Card:
    """Describe the network."""
    config = network.config
    picture, question = config.picture(), config.question(blueprint.tokenizer())
    words, cells = question.tokens("words"), of_picture(picture, network.regions)
    whole = one("answer")
    about = {
        "start": (whole, words, "How much each word counts before the picture is looked at, by {}s."),
        "words": (whole, words, "How much each word counts for the answer, by {}s."),
        "regions": (whole, cells, "How much each region counts for the answer, by {}s."),
        "affinity": (words, cells, "How each word and each region go together: below zero where they do not, by {}s."),
    }
    parallel_ = isinstance(network.levels[LEVELS[0]], Parallel)
    order = ("words", "regions", "affinity") if parallel_ else ("start", "regions", "words")
    maps = {f"{{}}.{name}": Attends(*about[name], kind="co") for name in order}
    return blueprint.card(
        network,
        title="Hierarchical question-image co-attention",
        summary="Answers questions about pictures: words, phrases and the question each look at regions, and are looked"
        " at.",
        inputs=[picture, question],
        maps=maps_of(network.levels, maps),
        taxonomy="additive, parallel co-attention, hierarchical, specialised",
        citation="Lu, Yang, Batra, Parikh (2016): Hierarchical Question-Image Co-Attention for Visual Question "
        "Answering. NeurIPS",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, channels=(4, 6, 8), d=8, d_attention=6, d_answer=8, around=1),
    "demo": preset(12, 32, 1e-3, vocabulary=500, taught=True),
    "full": preset(20, 32, 1e-3, patience=5, vocabulary=8000, d=96, d_attention=96, d_answer=192, dropout=0.3),
    "paper": preset(256, 300, 4e-4, weight_decay=0.0, patience=5, vocabulary=15_000).sized(
        d=512, d_attention=512, d_answer=1024, dropout=0.5
    ),
}

HIECOATT = answering(HieCoAttConfig, HieCoAtt, card, PRESETS)


HIECOATT_ALTERNATING = HIECOATT.with_parts(co_attention=alternating)
# The paper's ablations: attention over one of the two inputs alone.
HIECOATT_QUESTION, HIECOATT_IMAGE = (HIECOATT.with_parts(co_attention=each) for each in (over_words, over_regions))
# Smaller, for the demo, and taught where the answer is to be seen (Liu et al. 2017).
_SMALL = preset(14, 32, 2e-3, vocabulary=500, channels=(16, 32, 40), d=40, d_attention=40, d_answer=80, taught=True)
HIECOATT_SUPERVISED = HIECOATT.but(presets={**PRESETS, "demo": _SMALL}).supervised(0.3)
