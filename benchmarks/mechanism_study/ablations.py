"""What the attention of pairs, aspects and documents is compared with: unweighted averages (N2) and plainer forms."""

from collections.abc import Mapping

from torch import Tensor, nn

from models.attention.align import Entmax15, Hard, Sigmoid, Sparsemax
from models.attention.features import Pair
from models.attention.queries.pool import SelfAttentivePool
from models.attention.score import Dot, ScaledDot
from models.attention.weights import Weights, weights_of
from models.blocks.fixed import Average
from models.testbed.aspect_forms import general, rotatory, target_object
from models.testbed.document_forms import document, flat, hierarchical, pool
from models.testbed.form import ServedForm
from models.testbed.pair_forms import COARSE, co, interactive
from models.testbed.text import Texts


class Apart(nn.Module):
    """Each sentence pooled by itself: attention, but none between them."""

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self.first, self.second = pool(texts), pool(texts)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of the first sentence, then those of the second."""
        return weights_of(self.first, self.second)

    def forward(self, first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor) -> tuple[Pair, Pair]:
        (one, weights), (other, other_weights) = (
            self.first(first, None, first_mask),
            self.second(second, None, second_mask),
        )
        return Pair(one, other), Pair(weights, other_weights)


def average(texts: Texts) -> SelfAttentivePool:
    """The unweighted average."""
    return pool(texts, score=Average())


PAIRS: Mapping[str, ServedForm] = {
    "unweighted averages": co(interactive(lambda t: Average()), COARSE, score="none"),
    "each sentence by itself": co(Apart, COARSE, score="self-attentive"),
}
ASPECTS: Mapping[str, ServedForm] = {
    "unweighted averages": rotatory(1, lambda t: Average()),
    "unweighted averages, target-object": target_object(lambda t: Average()),
    "rotatory attention, bilinear score": rotatory(1, general),
}
DOCUMENTS: Mapping[str, ServedForm] = {
    "unweighted averages, two levels": hierarchical(average, average, score="none"),
    "unweighted average, one level": document(lambda t: flat(t, score=Average()), levels="single-level", score="none"),
    "words weighted, sentences averaged": hierarchical(pool, average),
    "words averaged, sentences weighted": hierarchical(average, pool),
    "one level": document(flat, levels="single-level"),
    **{
        f"hierarchical, {name}": hierarchical(make, make, score=name)
        for name, make in {
            "trained query, dot": lambda t: pool(t, score=Dot()),
            "trained query, scaled dot": lambda t: pool(t, score=ScaledDot()),
            "sparsemax": lambda t: pool(t, align=Sparsemax()),
            "1.5-entmax": lambda t: pool(t, align=Entmax15()),
            "sigmoid": lambda t: pool(t, align=Sigmoid()),
            "hard, straight-through": lambda t: pool(t, align=Hard(straight_through=True)),
        }.items()
    },
}

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
