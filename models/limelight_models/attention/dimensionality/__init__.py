"""Dimensionality of weights: one a key (D1, every score of `score/`) or one a feature (D2, BF §3.2.3)."""

from limelight_models.attention.dimensionality.directional import DirectionalSelfAttention
from limelight_models.attention.dimensionality.feature_wise import FeatureWise
from limelight_models.attention.dimensionality.token import SourceToToken, TokenToToken

__all__ = ["DirectionalSelfAttention", "FeatureWise", "SourceToToken", "TokenToToken"]
