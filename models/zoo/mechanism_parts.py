"""Every score and alignment of the catalogue at one size, by its name in the registry.

The registry builds small instances to test; these are what a task model is made of. What the survey leaves open
(widths, radii, numbers of filters) is chosen here once, so that mechanisms are compared on equal terms.
"""

from collections.abc import Callable

from torch import Tensor

from models.attention import align as alignments
from models.attention import masks
from models.attention import score as scores
from models.attention.align import Align
from models.attention.context import Context
from models.attention.score import Score
from models.attention.score.self_attentive import every_query

RADIUS = 3  # of local windows, in words
FILTERS = 3  # of a Gaussian grid
OUTPUTS = 3  # rows of an importance matrix
RANDOM_FEATURES = 64


class Uniform(Score):
    """The same score for every key: with softmax, the unweighted average (catalogue N2; survey BF §4).

    e_l = 0

    Shapes: query None or [batch, head, query, any], key [batch, head, key, any] -> scores [batch, head, query or 1, key].
    """

    query_free = True
    key_free = True

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return every_query(key.new_zeros(()) * key[..., :1].transpose(-2, -1), query)


UNIFORM = "unweighted average"

SCORES: dict[str, Callable[[int, int], Score]] = {  # sizes: d of queries and keys, most keys
    UNIFORM: lambda d, most: Uniform(),
    "additive": lambda d, most: scores.Additive(d_q=d, d_k=d, d_w=d),
    "concat": lambda d, most: scores.Concat(d_q=d, d_k=d, d_w=d),
    "multiplicative (dot)": lambda d, most: scores.Dot(),
    "scaled multiplicative": lambda d, most: scores.ScaledDot(),
    "general": lambda d, most: scores.General(d_q=d, d_k=d),
    "biased general": lambda d, most: scores.BiasedGeneral(d_q=d, d_k=d),
    "activated general": lambda d, most: scores.ActivatedGeneral(d_q=d, d_k=d),
    "cosine similarity": lambda d, most: scores.Cosine(sharpness=5.0),
    "negative Euclidean distance": lambda d, most: scores.NegativeDistance(),
    "Gaussian kernel": lambda d, most: scores.GaussianKernel(),
    "deep": lambda d, most: scores.Deep(d_q=d, d_k=d, d_w=d, layers=3),
    "location-based": lambda d, most: scores.LocationBased(d_q=d, max_keys=most),
    "feature-based": lambda d, most: scores.FeatureBased(d_k=d, d_w=d),
    "generalised kernel": lambda d, most: scores.GeneralisedKernel(),
    "self-attentive": lambda d, most: scores.SelfAttentive(d_k=d, d_w=d),
    "multi-dimensional": lambda d, most: scores.MultiDimensional(d_q=d, d_k=d, d_w=d, d_v=d),
    "importance matrix": lambda d, most: scores.ImportanceMatrix(d_q=d, d_k=d, d_w=d, outputs=OUTPUTS),
    "location-aware": lambda d, most: scores.LocationAware(d_q=d, d_k=d, d_w=d),
    "relation-aware": lambda d, most: scores.RelationAware(d=d, reach=RADIUS),
    "outer-product": lambda d, most: scores.ElementwiseProduct(),
    "coverage-aware": lambda d, most: scores.CoverageAware(d_q=d, d_k=d, d_w=d),
    "random features": lambda d, most: scores.RandomFeatures(d=d, features=RANDOM_FEATURES),
    # Positive features: with the trigonometric ones a sum near 0 would be divided by.
    "positive random features": lambda d, most: scores.RandomFeatures(d=d, features=RANDOM_FEATURES, positive=True),
}

ALIGNS: dict[str, Callable[[int], Align]] = {  # size: d of queries and keys
    "soft (global)": lambda d: alignments.Softmax(),
    "sigmoid": lambda d: alignments.Sigmoid(),
    "hard": lambda d: alignments.Hard(),
    "hard, straight-through": lambda d: alignments.Hard(straight_through=True),
    "local, monotonic": lambda d: alignments.LocalMonotonic(radius=RADIUS),
    "local, predictive": lambda d: alignments.LocalPredictive(d_q=d, d_p=d, radius=RADIUS),
    "reinforced": lambda d: alignments.Reinforced(d_k=d, d_hidden=d),
    "sparsemax": lambda d: alignments.Sparsemax(),
    "1.5-entmax": lambda d: alignments.Entmax15(),
    "α-entmax": lambda d: alignments.Entmax(alpha=1.5, learned=True),
    "positional mask": lambda d: alignments.PositionalMask(mask=masks.diagonal_disabled),
    "selective grid of Gaussians": lambda d: alignments.GaussianGrid(d_q=d, filters=FILTERS),
    "self-adaptive temperature": lambda d: alignments.SelfAdaptiveTemperature(d_q=d),
    "compositional de-attention": lambda d: alignments.DeAttention(),
    "constrained softmax": lambda d: alignments.ConstrainedSoftmax(),
    "constrained sparsemax": lambda d: alignments.ConstrainedSparsemax(),
    "adaptive span": lambda d: alignments.AdaptiveSpan(max_span=2 * RADIUS, ramp=RADIUS),
    "hard monotonic": lambda d: alignments.HardMonotonic(),
    "monotonic chunkwise": lambda d: alignments.MonotonicChunkwise(width=RADIUS),
    "distance-aware": lambda d: alignments.DistanceAware(radius=2 * RADIUS),
    "kernel ratio": lambda d: alignments.KernelRatio(),
    "softmax-free kernel": lambda d: alignments.KernelWeights(),
    "tanh": lambda d: alignments.Tanh(),
}
