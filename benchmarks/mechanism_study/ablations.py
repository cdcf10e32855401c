"""What the attention of pairs, aspects and documents is compared with: unweighted averages (N2) and plainer forms."""

from collections.abc import Mapping

from torch import Tensor, nn

from models.attention.align import Entmax15, Hard, Sigmoid, Sparsemax
from models.attention.features import Pair
from models.attention.queries.pool import SelfAttentivePool
from models.attention.score import Dot, General, ScaledDot
from models.blocks.fixed import Average
from models.testbed.inputs import COARSE, co, interactive, rotatory
from models.testbed.levels import document, flat, hierarchical, pool, target_object
from models.testbed.recipe import Recipe, table
from models.testbed.text import Texts


class Apart(nn.Module):
    """Each sentence pooled by itself: attention, but none between them."""

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self.first, self.second = pool(texts), pool(texts)

    def forward(self, first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor) -> tuple[Pair, Pair]:
        (one, weights), (other, other_weights) = (
            self.first(first, None, first_mask),
            self.second(second, None, second_mask),
        )
        return Pair(one, other), Pair(weights, other_weights)


def average(texts: Texts) -> SelfAttentivePool:
    """The unweighted average."""
    return pool(texts, score=Average())


PAIRS: Mapping[str, Recipe] = table(
    co("unweighted averages", interactive(lambda t: Average()), COARSE, score="none"),
    co("each sentence by itself", Apart, COARSE, score="self-attentive"),
)
ASPECTS: Mapping[str, Recipe] = table(
    rotatory("unweighted averages", 1, lambda t: Average()),
    Recipe(task="aspect", name="unweighted averages, target-object", make=lambda t: target_object(t, score=Average())),
    rotatory("rotatory attention, bilinear score", 1, lambda t: General(d_q=t.d, d_k=t.d)),
)
DOCUMENTS: Mapping[str, Recipe] = table(
    hierarchical("unweighted averages, two levels", average, average, score="none"),
    document("unweighted average, one level", lambda t: flat(t, score=Average()), levels="single-level", score="none"),
    hierarchical("words weighted, sentences averaged", pool, average),
    hierarchical("words averaged, sentences weighted", average, pool),
    document("one level", flat, levels="single-level"),
    *(
        hierarchical(f"hierarchical, {name}", make, make, score=name)
        for name, make in {
            "trained query, dot": lambda t: pool(t, score=Dot()),
            "trained query, scaled dot": lambda t: pool(t, score=ScaledDot()),
            "sparsemax": lambda t: pool(t, align=Sparsemax()),
            "1.5-entmax": lambda t: pool(t, align=Entmax15()),
            "sigmoid": lambda t: pool(t, align=Sigmoid()),
            "hard, straight-through": lambda t: pool(t, align=Hard(straight_through=True)),
        }.items()
    ),
)

GROUPS = {  # of what is more than an ablation, the column that it belongs to
    "rotatory attention, bilinear score": "score",
    "one level": "levels",
    "words weighted, sentences averaged": "levels",
    "words averaged, sentences weighted": "levels",
    "hierarchical, trained query, dot": "score",
    "hierarchical, trained query, scaled dot": "score",
    "hierarchical, sparsemax": "alignment",
    "hierarchical, 1.5-entmax": "alignment",
    "hierarchical, sigmoid": "alignment",
    "hierarchical, hard, straight-through": "alignment",
}
