"""The score functions of the catalogue, rows B1 to B19."""

from collections.abc import Callable

from models.attention.align.kernel import KernelRatio
from models.attention.align.signed import Tanh
from models.attention.core import Attention
from models.attention.score import (
    ActivatedGeneral,
    Additive,
    BiasedGeneral,
    Concat,
    Cosine,
    CoverageAware,
    Deep,
    Dot,
    ElementwiseProduct,
    FeatureBased,
    GaussianKernel,
    General,
    GeneralisedKernel,
    ImportanceMatrix,
    LocationAware,
    LocationBased,
    MultiDimensional,
    NegativeDistance,
    OuterProduct,
    RandomFeatures,
    RelationAware,
    RelationValues,
    ScaledDot,
    Score,
    SelfAttentive,
)
from models.catalogue.mechanism import FEATURES as D
from models.catalogue.mechanism import HEADS, Mechanism

MAX_KEYS = 32


def entry(row: str, name: str, module: type[Score], build: Callable[[], Attention], heads: int = HEADS) -> Mechanism:
    """A row whose mechanism is a score."""
    return Mechanism(
        row=row,
        name=name,
        column="score",
        module=module,
        build=build,
        heads=heads,
        context_fields=tuple(f for f in module.context_fields if not f.endswith("positions")),
    )


def soft(score: Callable[[], Score]) -> Callable[[], Attention]:
    """An attention with that score and softmax."""
    return lambda: Attention(score=score())


SCORES: tuple[Mechanism, ...] = (
    entry("B1", "additive", Additive, soft(lambda: Additive(d_q=D, d_k=D, d_w=5, heads=HEADS))),
    entry("B2", "concat", Concat, soft(lambda: Concat(d_q=D, d_k=D, d_w=5, heads=HEADS))),
    entry("B3", "multiplicative (dot)", Dot, soft(Dot)),
    entry("B4", "scaled multiplicative", ScaledDot, soft(ScaledDot)),
    entry("B5", "general", General, soft(lambda: General(d_q=D, d_k=D, heads=HEADS))),
    entry("B6", "biased general", BiasedGeneral, soft(lambda: BiasedGeneral(d_q=D, d_k=D, heads=HEADS))),
    entry("B7", "activated general", ActivatedGeneral, soft(lambda: ActivatedGeneral(d_q=D, d_k=D, heads=HEADS))),
    entry("B8", "cosine similarity", Cosine, soft(lambda: Cosine(sharpness=3.0))),
    entry("B8", "negative Euclidean distance", NegativeDistance, soft(NegativeDistance)),
    entry("B8", "Gaussian kernel", GaussianKernel, soft(GaussianKernel)),
    entry("B9", "deep", Deep, soft(lambda: Deep(d_q=D, d_k=D, d_w=5, layers=4, heads=HEADS))),
    entry("B10", "location-based", LocationBased, soft(lambda: LocationBased(d_q=D, max_keys=MAX_KEYS))),
    entry("B11", "feature-based", FeatureBased, soft(lambda: FeatureBased(d_k=D, d_w=5))),
    entry(
        "B12",
        "generalised kernel",
        GeneralisedKernel,
        lambda: Attention(score=GeneralisedKernel(), align=KernelRatio()),
    ),
    entry("B13", "self-attentive", SelfAttentive, soft(lambda: SelfAttentive(d_k=D, d_w=5))),
    entry("B14", "multi-dimensional", MultiDimensional, soft(lambda: MultiDimensional(d_q=D, d_k=D, d_w=5, d_v=D))),
    entry(
        "B15",
        "importance matrix",
        ImportanceMatrix,
        soft(lambda: ImportanceMatrix(d_q=D, d_k=D, d_w=5, outputs=3)),
        heads=1,
    ),
    entry("B16", "location-aware", LocationAware, soft(lambda: LocationAware(d_q=D, d_k=D, d_w=5, filters=3, width=3))),
    entry(
        "B17",
        "relation-aware",
        RelationAware,
        lambda: Attention(score=RelationAware(d=D, reach=2), combine=RelationValues(d_v=D, reach=2)),
    ),
    entry(
        "B18",
        "outer-product",
        ElementwiseProduct,
        lambda: Attention(score=ElementwiseProduct(), align=Tanh(), combine=OuterProduct()),
    ),
    entry("B19", "coverage-aware", CoverageAware, soft(lambda: CoverageAware(d_q=D, d_k=D, d_w=5))),
    entry(
        "C17",
        "random features",
        RandomFeatures,
        lambda: Attention(score=RandomFeatures(d=D, features=32), align=KernelRatio()),
    ),
)
