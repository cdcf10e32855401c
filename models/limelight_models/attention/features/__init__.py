"""Several inputs (BF §3.1.1, G §3.4.2): co-attention in its forms, and rotatory attention.

Singular features are `Attention` itself. Co-attention is coarse (`Alternating`, `Interactive`: a compact
representation of one input is the query for the other), fine (`Parallel`: every element of one meets every element of
the other) or both (`MultiGrained`).
"""

from limelight_models.attention.features.affinity import ConcatProduct, Decomposable, Hermitian, TanhBilinear
from limelight_models.attention.features.aggregate import Aggregate, LinearTransformation, Pooling
from limelight_models.attention.features.alternating import Alternating, AlternatingWeights
from limelight_models.attention.features.attention_over_attention import AttentionOverAttention
from limelight_models.attention.features.interactive import Interactive
from limelight_models.attention.features.multi_grained import MultiGrained, MultiGrainedWeights
from limelight_models.attention.features.pair import FineWeights, Pair
from limelight_models.attention.features.parallel import Parallel
from limelight_models.attention.features.perceptron import NestedPerceptron, Perceptron
from limelight_models.attention.features.rotatory import Rotation, Rotatory, RotatoryWeights

__all__ = [
    "Aggregate",
    "Alternating",
    "AlternatingWeights",
    "AttentionOverAttention",
    "ConcatProduct",
    "Decomposable",
    "FineWeights",
    "Hermitian",
    "Interactive",
    "LinearTransformation",
    "MultiGrained",
    "MultiGrainedWeights",
    "NestedPerceptron",
    "Pair",
    "Parallel",
    "Perceptron",
    "Pooling",
    "Rotation",
    "Rotatory",
    "RotatoryWeights",
    "TanhBilinear",
]
