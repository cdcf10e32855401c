"""The score functions of the catalogue, rows B1 to B19."""

from collections.abc import Callable

from limelight_models.attention.align.kernel import KernelRatio
from limelight_models.attention.align.signed import Tanh
from limelight_models.attention.align.soft import Softmax
from limelight_models.attention.alignment import Align
from limelight_models.attention.combine import Combine
from limelight_models.attention.core import Attention
from limelight_models.attention.score import (
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
from limelight_models.catalogue.mechanism import HEADS, Mechanism
from limelight_models.catalogue.testbed.form import attended
from limelight_models.catalogue.testbed.taxonomy import SOFT
from limelight_models.catalogue.testbed.text import Scale


def entry(
    row: str,
    name: str,
    module: type[Score],
    score: Callable[[Scale], Score],
    *,
    heads: int = HEADS,
    align: type[Align] = Softmax,
    align_name: str = SOFT,
    combine: Callable[[Scale], Combine] | None = None,
) -> Mechanism:
    """A row whose mechanism is a score."""

    def make(s: Scale) -> Attention:
        return Attention(score=score(s), align=align(), combine=combine(s) if combine else None)

    return Mechanism(
        row=row,
        name=name,
        column="score",
        module=module,
        make=make,
        heads=heads,
        # Those that a caller has to give; positions have defaults.
        context_fields=tuple(f for f in module.context_fields if not f.endswith("positions")),
        score=score,
        served=attended(make, score=name, align=align_name),
    )


SCORES: tuple[Mechanism, ...] = (
    entry("B1", "additive", Additive, lambda s: Additive(d_q=s.d, d_k=s.d, d_w=s.d_w, heads=s.heads)),
    entry("B2", "concat", Concat, lambda s: Concat(d_q=s.d, d_k=s.d, d_w=s.d_w, heads=s.heads)),
    entry("B3", "multiplicative (dot)", Dot, lambda s: Dot()),
    entry("B4", "scaled multiplicative", ScaledDot, lambda s: ScaledDot()),
    entry("B5", "general", General, lambda s: General(d_q=s.d, d_k=s.d, heads=s.heads)),
    entry("B6", "biased general", BiasedGeneral, lambda s: BiasedGeneral(d_q=s.d, d_k=s.d, heads=s.heads)),
    entry("B7", "activated general", ActivatedGeneral, lambda s: ActivatedGeneral(d_q=s.d, d_k=s.d, heads=s.heads)),
    entry("B8", "cosine similarity", Cosine, lambda s: Cosine(sharpness=5.0)),
    entry("B8", "negative Euclidean distance", NegativeDistance, lambda s: NegativeDistance()),
    entry("B8", "Gaussian kernel", GaussianKernel, lambda s: GaussianKernel()),
    entry("B9", "deep", Deep, lambda s: Deep(d_q=s.d, d_k=s.d, d_w=s.d_w, layers=3, heads=s.heads)),
    entry("B10", "location-based", LocationBased, lambda s: LocationBased(d_q=s.d, max_keys=s.max_tokens)),
    entry("B11", "feature-based", FeatureBased, lambda s: FeatureBased(d_k=s.d, d_w=s.d_w)),
    entry(
        "B12",
        "generalised kernel",
        GeneralisedKernel,
        lambda s: GeneralisedKernel(),
        align=KernelRatio,
        align_name="kernel ratio",
    ),
    entry("B13", "self-attentive", SelfAttentive, lambda s: SelfAttentive(d_k=s.d, d_w=s.d_w)),
    entry(
        "B14", "multi-dimensional", MultiDimensional, lambda s: MultiDimensional(d_q=s.d, d_k=s.d, d_w=s.d_w, d_v=s.d)
    ),
    entry(
        "B15",
        "importance matrix",
        ImportanceMatrix,
        lambda s: ImportanceMatrix(d_q=s.d, d_k=s.d, d_w=s.d_w, outputs=s.outputs),
        heads=1,
    ),
    entry("B16", "location-aware", LocationAware, lambda s: LocationAware(d_q=s.d, d_k=s.d, d_w=s.d_w)),
    entry(
        "B17",
        "relation-aware",
        RelationAware,
        lambda s: RelationAware(d=s.d, reach=s.radius),
        combine=lambda s: RelationValues(d_v=s.d, reach=s.radius),
    ),
    entry(
        "B18",
        "outer-product",
        ElementwiseProduct,
        lambda s: ElementwiseProduct(),
        align=Tanh,
        align_name="tanh",
        combine=lambda s: OuterProduct(),
    ),
    entry("B19", "coverage-aware", CoverageAware, lambda s: CoverageAware(d_q=s.d, d_k=s.d, d_w=s.d_w)),
    entry(
        "C17",
        "random features",
        RandomFeatures,
        lambda s: RandomFeatures(d=s.d, features=s.random_features),
        align=KernelRatio,
        align_name="kernel ratio",
    ),
)
