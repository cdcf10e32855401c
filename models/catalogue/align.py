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
from models.attention.score import GaussianKernel, RandomFeatures, ScaledDot, Score
from models.catalogue.mechanism import FEATURES as D
from models.catalogue.mechanism import HEADS, Mechanism


def entry(
    row: str, name: str, module: type[Align], align: Callable[[], Align], score: Callable[[], Score] = ScaledDot
) -> Mechanism:
    """A row whose mechanism is an alignment."""
    return Mechanism(
        row=row,
        name=name,
        column="align",
        module=module,
        build=lambda: Attention(score=score(), align=align()),
        context_fields=tuple(f for f in module.context_fields if not f.endswith("positions")),
    )


ALIGNS: tuple[Mechanism, ...] = (
    entry("C1", "soft (global)", Softmax, Softmax),
    entry("C2", "sigmoid", Sigmoid, Sigmoid),
    entry("C3", "hard", Hard, Hard),
    entry("C4", "local, monotonic", LocalMonotonic, lambda: LocalMonotonic(radius=2)),
    entry("C5", "local, predictive", LocalPredictive, lambda: LocalPredictive(d_q=D, d_p=4, radius=2)),
    entry("C6", "reinforced", Reinforced, lambda: Reinforced(d_k=D, d_hidden=4)),
    entry("C7", "sparsemax", Sparsemax, Sparsemax),
    entry("C8", "1.5-entmax", Entmax15, Entmax15),
    entry("C8", "α-entmax", Entmax, lambda: Entmax(alpha=1.3, learned=True, heads=HEADS)),
    entry("C9", "positional mask", PositionalMask, lambda: PositionalMask(mask=masks.forward | masks.block(3))),
    entry("C10", "selective grid of Gaussians", GaussianGrid, lambda: GaussianGrid(d_q=D, filters=3)),
    entry("C11", "self-adaptive temperature", SelfAdaptiveTemperature, lambda: SelfAdaptiveTemperature(d_q=D)),
    entry("C12", "compositional de-attention", DeAttention, DeAttention),
    entry("C13", "constrained softmax", ConstrainedSoftmax, ConstrainedSoftmax),
    entry("C13", "constrained sparsemax", ConstrainedSparsemax, ConstrainedSparsemax),
    entry("C14", "adaptive span", AdaptiveSpan, lambda: AdaptiveSpan(max_span=4, ramp=2, heads=HEADS)),
    entry("C15", "hard monotonic", HardMonotonic, HardMonotonic),
    entry("C15", "monotonic chunkwise", MonotonicChunkwise, lambda: MonotonicChunkwise(width=3)),
    entry("C16", "distance-aware", DistanceAware, lambda: DistanceAware(radius=3)),
    entry(
        "C17", "kernel ratio", KernelRatio, KernelRatio, score=lambda: RandomFeatures(d=D, features=16, positive=True)
    ),
    entry("C17", "softmax-free kernel", KernelWeights, KernelWeights, score=GaussianKernel),
)
