"""Score functions, row B of the catalogue (BF: score, G: compatibility, C: alignment function)."""

from limelight_models.attention.score.additive import Additive, Concat
from limelight_models.attention.score.deep import Deep
from limelight_models.attention.score.dot import Dot, ScaledDot
from limelight_models.attention.score.feature import FeatureBased
from limelight_models.attention.score.general import ActivatedGeneral, BiasedGeneral, General
from limelight_models.attention.score.hybrid import CoverageAware, LocationAware
from limelight_models.attention.score.importance import ImportanceMatrix, MultiDimensional
from limelight_models.attention.score.kernel import GeneralisedKernel, RandomFeatures
from limelight_models.attention.score.location import LocationBased
from limelight_models.attention.score.normalised import NormalisedAdditive
from limelight_models.attention.score.outer_product import ElementwiseProduct, OuterProduct
from limelight_models.attention.score.per_head import PerHead
from limelight_models.attention.score.relation import RelationAware, RelationValues
from limelight_models.attention.score.self_attentive import SelfAttentive
from limelight_models.attention.score.similarity import Cosine, GaussianKernel, NegativeDistance
from limelight_models.attention.scoring import Score

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
