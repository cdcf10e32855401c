"""Score functions, row B of the catalogue (BF: score, G: compatibility, C: alignment function)."""

from models.attention.score.additive import Additive, Concat
from models.attention.score.base import Score
from models.attention.score.deep import Deep
from models.attention.score.dot import Dot, ScaledDot
from models.attention.score.feature import FeatureBased
from models.attention.score.general import ActivatedGeneral, BiasedGeneral, General
from models.attention.score.hybrid import CoverageAware, LocationAware
from models.attention.score.importance import ImportanceMatrix, MultiDimensional
from models.attention.score.kernel import GeneralisedKernel, RandomFeatures
from models.attention.score.location import LocationBased
from models.attention.score.normalised import NormalisedAdditive
from models.attention.score.outer_product import ElementwiseProduct, OuterProduct
from models.attention.score.per_head import PerHead
from models.attention.score.relation import RelationAware, RelationValues
from models.attention.score.self_attentive import SelfAttentive
from models.attention.score.similarity import Cosine, GaussianKernel, NegativeDistance

__all__ = [
    "ActivatedGeneral",
    "Additive",
    "BiasedGeneral",
    "Concat",
    "Cosine",
    "CoverageAware",
    "Deep",
    "Dot",
    "ElementwiseProduct",
    "FeatureBased",
    "GaussianKernel",
    "General",
    "GeneralisedKernel",
    "ImportanceMatrix",
    "LocationAware",
    "LocationBased",
    "MultiDimensional",
    "NegativeDistance",
    "NormalisedAdditive",
    "OuterProduct",
    "PerHead",
    "RandomFeatures",
    "RelationAware",
    "RelationValues",
    "ScaledDot",
    "Score",
    "SelfAttentive",
]
