"""Score functions, row B of the catalogue (BF: score, G: compatibility, C: alignment function)."""

from models.attention.score.additive import Additive, Concat
from models.attention.score.base import Score
from models.attention.score.dot import Dot, ScaledDot
from models.attention.score.general import ActivatedGeneral, BiasedGeneral, General
from models.attention.score.location import LocationBased
from models.attention.score.self_attentive import SelfAttentive

__all__ = [
    "ActivatedGeneral",
    "Additive",
    "BiasedGeneral",
    "Concat",
    "Dot",
    "General",
    "LocationBased",
    "ScaledDot",
    "Score",
    "SelfAttentive",
]
