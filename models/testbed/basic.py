"""Recipes of the general module, the scores and the alignments (catalogue A, B, C)."""

from models.attention import Attention
from models.attention.combine import FusionGate
from models.attention.general import NadarayaWatson
from models.attention.score import OuterProduct, RelationValues
from models.testbed.parts import ADDITIVE, ALIGNS, RADIUS, SCALED, SCORES, SOFT, attention
from models.testbed.recipe import Recipe, attended, table
from models.testbed.text import Texts

KERNEL_ALIGN = {"generalised kernel": "kernel ratio", "random features": "kernel ratio"}
KERNEL_SCORE = {"kernel ratio": "positive random features", "softmax-free kernel": "Gaussian kernel"}
COMBINED = ("relation-aware", "outer-product")  # scores with a combination of their own
VARIANTS = ("unweighted average", "positive random features", "tanh", "hard, straight-through")  # no rows themselves


def parts(name: str, score: str, align: str = SOFT) -> Recipe:
    """A score with an alignment, by name."""
    return attended(name, lambda texts: attention(score, align, texts), score=score, align=align)


def gated(texts: Texts) -> Attention:
    """Scaled dot, its result gated with the query."""
    return Attention(score=SCORES[SCALED](texts), combine=FusionGate(d=texts.d))


def relation(texts: Texts) -> Attention:
    """Relation-aware scores with relation-aware values."""
    return Attention(score=SCORES["relation-aware"](texts), combine=RelationValues(d_v=texts.d, reach=RADIUS))


def outer(texts: Texts) -> Attention:
    """Outer-product attention: its score, its alignment, its combination."""
    return Attention(score=SCORES["outer-product"](texts), align=ALIGNS["tanh"](texts), combine=OuterProduct())


BASIC = table(
    parts("task model", "self-attentive"),
    parts("general attention module", ADDITIVE),
    attended("gated combination", gated, score=SCALED),
    attended("Nadaraya-Watson regression", lambda texts: NadarayaWatson(bandwidth=1.0), score="Gaussian kernel"),
    *(parts(name, name, KERNEL_ALIGN.get(name, SOFT)) for name in SCORES if name not in (*COMBINED, *VARIANTS)),
    attended("relation-aware", relation, score="relation-aware"),
    attended("outer-product", outer, score="outer-product", align="tanh"),
    *(parts(name, KERNEL_SCORE.get(name, SCALED), name) for name in ALIGNS if name not in VARIANTS),
)
