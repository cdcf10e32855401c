"""Every score and alignment of the catalogue at one size, by its name in the registry.

The registry builds small instances to test; these are what a task model is made of. What the survey leaves open
(widths, radii, numbers of filters) is chosen here once, so that mechanisms are compared on equal terms.
"""

from collections.abc import Callable

from models.attention import Attention, masks
from models.attention import align as alignments
from models.attention import score as scores
from models.attention.align import Align
from models.attention.score import Score
from models.blocks.fixed import Average
from models.testbed.text import Texts

RADIUS = 3  # of local windows, in words
FILTERS = 3  # of a Gaussian grid
OUTPUTS = 3  # rows of an importance matrix
RANDOM_FEATURES = 64


UNIFORM = "unweighted average"
SCALED, ADDITIVE, SOFT = "scaled multiplicative", "additive", "soft (global)"

SCORES: dict[str, Callable[[Texts], Score]] = {
    UNIFORM: lambda t: Average(),
    "additive": lambda t: scores.Additive(d_q=t.d, d_k=t.d, d_w=t.d),
    "concat": lambda t: scores.Concat(d_q=t.d, d_k=t.d, d_w=t.d),
    "multiplicative (dot)": lambda t: scores.Dot(),
    "scaled multiplicative": lambda t: scores.ScaledDot(),
    "general": lambda t: scores.General(d_q=t.d, d_k=t.d),
    "biased general": lambda t: scores.BiasedGeneral(d_q=t.d, d_k=t.d),
    "activated general": lambda t: scores.ActivatedGeneral(d_q=t.d, d_k=t.d),
    "cosine similarity": lambda t: scores.Cosine(sharpness=5.0),
    "negative Euclidean distance": lambda t: scores.NegativeDistance(),
    "Gaussian kernel": lambda t: scores.GaussianKernel(),
    "deep": lambda t: scores.Deep(d_q=t.d, d_k=t.d, d_w=t.d, layers=3),
    "location-based": lambda t: scores.LocationBased(d_q=t.d, max_keys=t.max_tokens),
    "feature-based": lambda t: scores.FeatureBased(d_k=t.d, d_w=t.d),
    "generalised kernel": lambda t: scores.GeneralisedKernel(),
    "self-attentive": lambda t: scores.SelfAttentive(d_k=t.d, d_w=t.d),
    "multi-dimensional": lambda t: scores.MultiDimensional(d_q=t.d, d_k=t.d, d_w=t.d, d_v=t.d),
    "importance matrix": lambda t: scores.ImportanceMatrix(d_q=t.d, d_k=t.d, d_w=t.d, outputs=OUTPUTS),
    "location-aware": lambda t: scores.LocationAware(d_q=t.d, d_k=t.d, d_w=t.d),
    "relation-aware": lambda t: scores.RelationAware(d=t.d, reach=RADIUS),
    "outer-product": lambda t: scores.ElementwiseProduct(),
    "coverage-aware": lambda t: scores.CoverageAware(d_q=t.d, d_k=t.d, d_w=t.d),
    "random features": lambda t: scores.RandomFeatures(d=t.d, features=RANDOM_FEATURES),
    # Positive features: with the trigonometric ones a sum near 0 would be divided by.
    "positive random features": lambda t: scores.RandomFeatures(d=t.d, features=RANDOM_FEATURES, positive=True),
}

ALIGNS: dict[str, Callable[[Texts], Align]] = {
    "soft (global)": lambda t: alignments.Softmax(),
    "sigmoid": lambda t: alignments.Sigmoid(),
    "hard": lambda t: alignments.Hard(),
    "hard, straight-through": lambda t: alignments.Hard(straight_through=True),
    "local, monotonic": lambda t: alignments.LocalMonotonic(radius=RADIUS),
    "local, predictive": lambda t: alignments.LocalPredictive(d_q=t.d, d_p=t.d, radius=RADIUS),
    "reinforced": lambda t: alignments.Reinforced(d_k=t.d, d_hidden=t.d),
    "sparsemax": lambda t: alignments.Sparsemax(),
    "1.5-entmax": lambda t: alignments.Entmax15(),
    "α-entmax": lambda t: alignments.Entmax(alpha=1.5, learned=True),
    "positional mask": lambda t: alignments.PositionalMask(mask=masks.diagonal_disabled),
    "selective grid of Gaussians": lambda t: alignments.GaussianGrid(d_q=t.d, filters=FILTERS),
    "self-adaptive temperature": lambda t: alignments.SelfAdaptiveTemperature(d_q=t.d),
    # The gate closes with the sum of all features' differences: β brings that to their mean.
    "compositional de-attention": lambda t: alignments.DeAttention(beta=1 / t.d),
    "constrained softmax": lambda t: alignments.ConstrainedSoftmax(),
    "constrained sparsemax": lambda t: alignments.ConstrainedSparsemax(),
    "adaptive span": lambda t: alignments.AdaptiveSpan(max_span=2 * RADIUS, ramp=RADIUS),
    "hard monotonic": lambda t: alignments.HardMonotonic(),
    "monotonic chunkwise": lambda t: alignments.MonotonicChunkwise(width=RADIUS),
    "distance-aware": lambda t: alignments.DistanceAware(radius=2 * RADIUS),
    "kernel ratio": lambda t: alignments.KernelRatio(),
    "softmax-free kernel": lambda t: alignments.KernelWeights(),
    "tanh": lambda t: alignments.Tanh(),
}


def attention(score: str, align: str, texts: Texts) -> Attention:
    """Any score with any alignment, by name. Raises: CombinationError where they do not go together."""
    return Attention(score=SCORES[score](texts), align=ALIGNS[align](texts))
