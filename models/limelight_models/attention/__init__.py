"""Every attention mechanism of the surveys, freely combined: `Attention(score=…, align=…)`.

Words: BF's *score function* is G's *compatibility function* and C's *alignment function*; BF's *alignment function* is
G's and C's *distribution function*. Here they are `score` and `align`.
"""

from limelight_models.attention.core import Attention, CombinationError, Context, MissingContextError, ShapeError

__all__ = ["Attention", "CombinationError", "Context", "MissingContextError", "ShapeError"]
