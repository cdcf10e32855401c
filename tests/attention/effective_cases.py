"""Every attention without a matrix, small, for `test_effective`: a line each."""

from collections.abc import Callable, Mapping
from typing import Any

from limelight_models.attention.controls import EqualSums
from limelight_models.attention.effective.core import Effective
from limelight_models.zoo.long.efficient import EfficientAttention
from limelight_models.zoo.long.linear_transformer import LinearAttention
from limelight_models.zoo.long.performer import Favor
from limelight_models.zoo.long.random_features import GatedRandomFeatureAttention, RandomFeatureAttention

D = 6  # features of a head
HEADS = 2

# Makes one; a chunk of 4 lets short sequences have several.
CASES: Mapping[str, Callable[[], Effective[Any]]] = {
    "equal": lambda: EqualSums(LinearAttention()),
    "linear": LinearAttention,
    "linear, causal": lambda: LinearAttention(causal=True, chunk=4),
    "efficient": EfficientAttention,
    "efficient, scaling": lambda: EfficientAttention(scaling=True),
    "random features": lambda: RandomFeatureAttention(d=D, heads=HEADS, features=40),
    "random features, causal": lambda: RandomFeatureAttention(d=D, heads=HEADS, features=40, causal=True, chunk=4),
    "random features, gated": lambda: GatedRandomFeatureAttention(d=D - 1, heads=HEADS, features=40, chunk=4),
    "performer": lambda: Favor(d=D, features=20),
    "performer, causal": lambda: Favor(d=D, features=20, causal=True),
    "performer, trigonometric": lambda: Favor(d=D, features=20, trigonometric=True),
}
