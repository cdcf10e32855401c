"""The score functions of the catalogue, rows B1 to B19."""

from collections.abc import Callable

from models.attention.align.base import Align
from models.attention.align.kernel import KernelRatio
from models.attention.align.signed import Tanh
from models.attention.align.soft import Softmax
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
from models.testbed.form import ServedForm, attended
from models.testbed.taxonomy import SOFT
from models.testbed.text import OUTPUTS, RADIUS, RANDOM_FEATURES, Texts

MAX_KEYS = 32


def entry(
    row: str,
    name: str,
    module: type[Score],
    small: Callable[[], Score],
    score: Callable[[Texts], Score],
    *,
    heads: int = HEADS,
    align: type[Align] = Softmax,
    align_name: str = SOFT,
) -> Mechanism:
    """A row whose mechanism is a score: small for the tests, and at the sizes of a task model."""
    return Mechanism(
        row=row,
        name=name,
        column="score",
        module=module,
        build=lambda: Attention(score=small(), align=align()),
        heads=heads,
        context_fields=own_fields(module),
        score=score,
        served=attended(lambda t: Attention(score=score(t), align=align()), score=name, align=align_name),
    )


def own_fields(module: type[Score]) -> tuple[str, ...]:
    """The context fields that a caller has to give; positions have defaults."""
    return tuple(f for f in module.context_fields if not f.endswith("positions"))


def relation() -> ServedForm:
    """Relation-aware scores with relation-aware values."""
    return attended(
        lambda t: Attention(score=RelationAware(d=t.d, reach=RADIUS), combine=RelationValues(d_v=t.d, reach=RADIUS)),
        score="relation-aware",
    )


def outer() -> ServedForm:
    """Outer-product attention: its score, its alignment, its combination."""
    return attended(
        lambda t: Attention(score=ElementwiseProduct(), align=Tanh(), combine=OuterProduct()),
        score="outer-product",
        align="tanh",
    )


SCORES: tuple[Mechanism, ...] = (
    entry(
        "B1",
        "additive",
        Additive,
        lambda: Additive(d_q=D, d_k=D, d_w=5, heads=HEADS),
        lambda t: Additive(d_q=t.d, d_k=t.d, d_w=t.d),
    ),
    entry(
        "B2",
        "concat",
        Concat,
        lambda: Concat(d_q=D, d_k=D, d_w=5, heads=HEADS),
        lambda t: Concat(d_q=t.d, d_k=t.d, d_w=t.d),
    ),
    entry("B3", "multiplicative (dot)", Dot, Dot, lambda t: Dot()),
    entry("B4", "scaled multiplicative", ScaledDot, ScaledDot, lambda t: ScaledDot()),
    entry(
        "B5",
        "general",
        General,
        lambda: General(d_q=D, d_k=D, heads=HEADS),
        lambda t: General(d_q=t.d, d_k=t.d),
    ),
    entry(
        "B6",
        "biased general",
        BiasedGeneral,
        lambda: BiasedGeneral(d_q=D, d_k=D, heads=HEADS),
        lambda t: BiasedGeneral(d_q=t.d, d_k=t.d),
    ),
    entry(
        "B7",
        "activated general",
        ActivatedGeneral,
        lambda: ActivatedGeneral(d_q=D, d_k=D, heads=HEADS),
        lambda t: ActivatedGeneral(d_q=t.d, d_k=t.d),
    ),
    entry("B8", "cosine similarity", Cosine, lambda: Cosine(sharpness=3.0), lambda t: Cosine(sharpness=5.0)),
    entry("B8", "negative Euclidean distance", NegativeDistance, NegativeDistance, lambda t: NegativeDistance()),
    entry("B8", "Gaussian kernel", GaussianKernel, GaussianKernel, lambda t: GaussianKernel()),
    entry(
        "B9",
        "deep",
        Deep,
        lambda: Deep(d_q=D, d_k=D, d_w=5, layers=4, heads=HEADS),
        lambda t: Deep(d_q=t.d, d_k=t.d, d_w=t.d, layers=3),
    ),
    entry(
        "B10",
        "location-based",
        LocationBased,
        lambda: LocationBased(d_q=D, max_keys=MAX_KEYS),
        lambda t: LocationBased(d_q=t.d, max_keys=t.max_tokens),
    ),
    entry(
        "B11",
        "feature-based",
        FeatureBased,
        lambda: FeatureBased(d_k=D, d_w=5),
        lambda t: FeatureBased(d_k=t.d, d_w=t.d),
    ),
    entry(
        "B12",
        "generalised kernel",
        GeneralisedKernel,
        GeneralisedKernel,
        lambda t: GeneralisedKernel(),
        align=KernelRatio,
        align_name="kernel ratio",
    ),
    entry(
        "B13",
        "self-attentive",
        SelfAttentive,
        lambda: SelfAttentive(d_k=D, d_w=5),
        lambda t: SelfAttentive(d_k=t.d, d_w=t.d),
    ),
    entry(
        "B14",
        "multi-dimensional",
        MultiDimensional,
        lambda: MultiDimensional(d_q=D, d_k=D, d_w=5, d_v=D),
        lambda t: MultiDimensional(d_q=t.d, d_k=t.d, d_w=t.d, d_v=t.d),
    ),
    entry(
        "B15",
        "importance matrix",
        ImportanceMatrix,
        lambda: ImportanceMatrix(d_q=D, d_k=D, d_w=5, outputs=3),
        lambda t: ImportanceMatrix(d_q=t.d, d_k=t.d, d_w=t.d, outputs=OUTPUTS),
        heads=1,
    ),
    entry(
        "B16",
        "location-aware",
        LocationAware,
        lambda: LocationAware(d_q=D, d_k=D, d_w=5, filters=3, width=3),
        lambda t: LocationAware(d_q=t.d, d_k=t.d, d_w=t.d),
    ),
    Mechanism(
        row="B17",
        name="relation-aware",
        column="score",
        module=RelationAware,
        build=lambda: Attention(score=RelationAware(d=D, reach=2), combine=RelationValues(d_v=D, reach=2)),
        context_fields=own_fields(RelationAware),
        score=lambda t: RelationAware(d=t.d, reach=RADIUS),
        served=relation(),
    ),
    Mechanism(
        row="B18",
        name="outer-product",
        column="score",
        module=ElementwiseProduct,
        build=lambda: Attention(score=ElementwiseProduct(), align=Tanh(), combine=OuterProduct()),
        score=lambda t: ElementwiseProduct(),
        served=outer(),
    ),
    entry(
        "B19",
        "coverage-aware",
        CoverageAware,
        lambda: CoverageAware(d_q=D, d_k=D, d_w=5),
        lambda t: CoverageAware(d_q=t.d, d_k=t.d, d_w=t.d),
    ),
    entry(
        "C17",
        "random features",
        RandomFeatures,
        lambda: RandomFeatures(d=D, features=32),
        lambda t: RandomFeatures(d=t.d, features=RANDOM_FEATURES),
        align=KernelRatio,
        align_name="kernel ratio",
    ),
)
