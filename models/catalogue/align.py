"""The alignments of the catalogue, rows C1 to C17."""

from collections.abc import Callable

from models.attention import masks
from models.attention.align import (
    AdaptiveSpan,
    Align,
    ConstrainedSoftmax,
    ConstrainedSparsemax,
    DeAttention,
    DistanceAware,
    Entmax,
    Entmax15,
    GaussianGrid,
    Hard,
    HardMonotonic,
    KernelRatio,
    KernelWeights,
    LocalMonotonic,
    LocalPredictive,
    MonotonicChunkwise,
    PositionalMask,
    Reinforced,
    SelfAdaptiveTemperature,
    Sigmoid,
    Softmax,
    Sparsemax,
)
from models.attention.core import Attention
from models.attention.score import Additive, GaussianKernel, General, RandomFeatures, ScaledDot, Score
from models.catalogue.mechanism import FEATURES as D
from models.catalogue.mechanism import HEADS, Mechanism
from models.testbed.form import attended
from models.testbed.taxonomy import SCALED
from models.testbed.text import FILTERS, RADIUS, RANDOM_FEATURES, Texts

KEEPING = 2.0  # log-odds at which samplers begin: the softmax learns on nearly all words before they choose


def entry(
    row: str,
    name: str,
    module: type[Align],
    small: Callable[[], Align],
    align: Callable[[Texts], Align],
    *,
    small_score: Callable[[], Score] = ScaledDot,
    score: Callable[[Texts], Score] = lambda t: ScaledDot(),
    score_name: str = SCALED,
    note: str = "",
) -> Mechanism:
    """A row whose mechanism is an alignment: small for the tests, and at the sizes of a task model."""
    return Mechanism(
        row=row,
        name=name,
        column="align",
        module=module,
        build=lambda: Attention(score=small_score(), align=small()),
        context_fields=tuple(f for f in small().context_fields if not f.endswith("positions")),
        align=align,
        note=note,
        served=attended(lambda t: Attention(score=score(t), align=align(t)), score=score_name, align=name),
    )


ALIGNS: tuple[Mechanism, ...] = (
    entry("C1", "soft (global)", Softmax, Softmax, lambda t: Softmax()),
    entry("C2", "sigmoid", Sigmoid, Sigmoid, lambda t: Sigmoid()),
    entry("C3", "hard", Hard, Hard, lambda t: Hard()),
    entry(
        "C4",
        "local, monotonic",
        LocalMonotonic,
        lambda: LocalMonotonic(radius=2),
        lambda t: LocalMonotonic(radius=RADIUS),
    ),
    entry(
        "C5",
        "local, predictive",
        LocalPredictive,
        lambda: LocalPredictive(d_q=D, d_p=4, radius=2),
        lambda t: LocalPredictive(d_q=t.d, d_p=t.d, radius=RADIUS),
    ),
    entry(
        "C6",
        "reinforced",
        Reinforced,
        lambda: Reinforced(d_k=D, d_hidden=4),
        lambda t: Reinforced(d_k=t.d, d_hidden=t.d, start=KEEPING),
    ),
    entry(
        "C6",
        "reinforced, queries and keys",
        Reinforced,
        lambda: Reinforced(d_k=D, d_hidden=4, d_q=D),
        lambda t: Reinforced(d_k=t.d, d_hidden=t.d, d_q=t.d, start=KEEPING),
    ),
    entry("C7", "sparsemax", Sparsemax, Sparsemax, lambda t: Sparsemax()),
    entry("C8", "1.5-entmax", Entmax15, Entmax15, lambda t: Entmax15()),
    entry(
        "C8",
        "α-entmax",
        Entmax,
        lambda: Entmax(alpha=1.3, learned=True, heads=HEADS),
        lambda t: Entmax(alpha=1.5, learned=True),
    ),
    entry(
        "C9",
        "positional mask",
        PositionalMask,
        lambda: PositionalMask(mask=masks.forward | masks.block(3)),
        lambda t: PositionalMask(mask=masks.diagonal_disabled),
    ),
    entry(
        "C10",
        "selective grid of Gaussians",
        GaussianGrid,
        lambda: GaussianGrid(d_q=D, filters=3),
        lambda t: GaussianGrid(d_q=t.d, filters=FILTERS),
    ),
    entry(
        "C11",
        "self-adaptive temperature",
        SelfAdaptiveTemperature,
        lambda: SelfAdaptiveTemperature(d_q=D, d_c=D),
        lambda t: SelfAdaptiveTemperature(d_q=t.d, d_c=t.d),
    ),
    # The gate closes with the sum of all features' differences: β brings that to their mean.
    entry("C12", "compositional de-attention", DeAttention, DeAttention, lambda t: DeAttention(beta=1 / t.d)),
    entry("C13", "constrained softmax", ConstrainedSoftmax, ConstrainedSoftmax, lambda t: ConstrainedSoftmax()),
    entry("C13", "constrained sparsemax", ConstrainedSparsemax, ConstrainedSparsemax, lambda t: ConstrainedSparsemax()),
    entry(
        "C14",
        "adaptive span",
        AdaptiveSpan,
        lambda: AdaptiveSpan(max_span=4, ramp=2, heads=HEADS),
        lambda t: AdaptiveSpan(max_span=2 * RADIUS, ramp=RADIUS),
    ),
    entry("C15", "hard monotonic", HardMonotonic, lambda: HardMonotonic(heads=HEADS), lambda t: HardMonotonic()),
    entry(
        "C15",
        "monotonic chunkwise",
        MonotonicChunkwise,
        lambda: MonotonicChunkwise(width=3, chunk=General(d_q=D, d_k=D, heads=HEADS), heads=HEADS),
        lambda t: MonotonicChunkwise(width=RADIUS, chunk=Additive(d_q=t.d, d_k=t.d, d_w=t.d)),
    ),
    entry(
        "C16",
        "distance-aware",
        DistanceAware,
        lambda: DistanceAware(radius=3),
        lambda t: DistanceAware(radius=2 * RADIUS),
        note="distances are words apart in the text; trees and graphs are for callers of the module to give",
    ),
    entry(
        "C17",
        "kernel ratio",
        KernelRatio,
        KernelRatio,
        lambda t: KernelRatio(),
        small_score=lambda: RandomFeatures(d=D, features=16, positive=True),
        # Positive features: with the trigonometric ones a sum near 0 would be divided by.
        score=lambda t: RandomFeatures(d=t.d, features=RANDOM_FEATURES, positive=True),
        score_name="positive random features",
    ),
    entry(
        "C17",
        "softmax-free kernel",
        KernelWeights,
        KernelWeights,
        lambda t: KernelWeights(),
        small_score=GaussianKernel,
        score=lambda t: GaussianKernel(),
        score_name="Gaussian kernel",
    ),
)
