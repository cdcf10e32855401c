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
from models.attention.score import Additive, GaussianKernel, RandomFeatures, ScaledDot, Score
from models.catalogue.mechanism import SMALL, Mechanism
from models.testbed.form import attended
from models.testbed.taxonomy import SCALED
from models.testbed.text import Scale

KEEPING = 2.0  # log-odds at which samplers begin: the softmax learns on nearly all words before they choose


def entry(
    row: str,
    name: str,
    module: type[Align],
    align: Callable[[Scale], Align],
    *,
    score: Callable[[Scale], Score] = lambda s: ScaledDot(),
    score_name: str = SCALED,
    note: str = "",
) -> Mechanism:
    """A row whose mechanism is an alignment."""

    def make(s: Scale) -> Attention:
        return Attention(score=score(s), align=align(s))

    return Mechanism(
        row=row,
        name=name,
        column="align",
        module=module,
        make=make,
        context_fields=tuple(f for f in align(SMALL).context_fields if not f.endswith("positions")),
        align=align,
        note=note,
        served=attended(make, score=score_name, align=name),
    )


def chunk(s: Scale) -> Score:
    """What weighs the words of a chunk."""
    return Additive(d_q=s.d, d_k=s.d, d_w=s.d_w, heads=s.heads)


ALIGNS: tuple[Mechanism, ...] = (
    entry("C1", "soft (global)", Softmax, lambda s: Softmax()),
    entry("C2", "sigmoid", Sigmoid, lambda s: Sigmoid()),
    entry("C3", "hard", Hard, lambda s: Hard()),
    entry("C4", "local, monotonic", LocalMonotonic, lambda s: LocalMonotonic(radius=s.radius)),
    entry("C5", "local, predictive", LocalPredictive, lambda s: LocalPredictive(d_q=s.d, d_p=s.d_w, radius=s.radius)),
    entry("C6", "reinforced", Reinforced, lambda s: Reinforced(d_k=s.d, d_hidden=s.d_w, start=KEEPING)),
    entry(
        "C6",
        "reinforced, queries and keys",
        Reinforced,
        lambda s: Reinforced(d_k=s.d, d_hidden=s.d_w, d_q=s.d, start=KEEPING),
    ),
    entry("C7", "sparsemax", Sparsemax, lambda s: Sparsemax()),
    entry("C8", "1.5-entmax", Entmax15, lambda s: Entmax15()),
    entry("C8", "α-entmax", Entmax, lambda s: Entmax(alpha=1.5, learned=True, heads=s.heads)),
    entry("C9", "positional mask", PositionalMask, lambda s: PositionalMask(mask=masks.diagonal_disabled)),
    entry("C10", "selective grid of Gaussians", GaussianGrid, lambda s: GaussianGrid(d_q=s.d, filters=s.filters)),
    entry(
        "C11",
        "self-adaptive temperature",
        SelfAdaptiveTemperature,
        lambda s: SelfAdaptiveTemperature(d_q=s.d, d_c=s.d),
    ),
    # The gate closes with the sum of all features' differences: β brings that to their mean.
    entry("C12", "compositional de-attention", DeAttention, lambda s: DeAttention(beta=1 / s.d)),
    entry("C13", "constrained softmax", ConstrainedSoftmax, lambda s: ConstrainedSoftmax()),
    entry("C13", "constrained sparsemax", ConstrainedSparsemax, lambda s: ConstrainedSparsemax()),
    entry(
        "C14",
        "adaptive span",
        AdaptiveSpan,
        lambda s: AdaptiveSpan(max_span=2 * s.radius, ramp=s.radius, heads=s.heads),
    ),
    entry("C15", "hard monotonic", HardMonotonic, lambda s: HardMonotonic(heads=s.heads)),
    entry(
        "C15",
        "monotonic chunkwise",
        MonotonicChunkwise,
        lambda s: MonotonicChunkwise(width=s.radius, chunk=chunk(s), heads=s.heads),
    ),
    entry(
        "C16",
        "distance-aware",
        DistanceAware,
        lambda s: DistanceAware(radius=2 * s.radius),
        note="distances are words apart in the text; trees and graphs are for callers of the module to give",
    ),
    entry(
        "C17",
        "kernel ratio",
        KernelRatio,
        lambda s: KernelRatio(),
        # Positive features: with the trigonometric ones a sum near 0 would be divided by.
        score=lambda s: RandomFeatures(d=s.d, features=s.random_features, positive=True),
        score_name="positive random features",
    ),
    entry(
        "C17",
        "softmax-free kernel",
        KernelWeights,
        lambda s: KernelWeights(),
        score=lambda s: GaussianKernel(),
        score_name="Gaussian kernel",
    ),
)
