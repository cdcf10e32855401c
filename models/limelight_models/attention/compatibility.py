"""Which scores, alignments and combinations go together, and why the others do not."""

from limelight_models.attention.alignment import Align
from limelight_models.attention.combine import Combine
from limelight_models.attention.errors import CombinationError, ShapeError
from limelight_models.attention.scoring import Score


def check_combination(score: Score, align: Align, combine: Combine) -> None:
    """Raise CombinationError or ShapeError, with the reason, where the three cannot work together."""
    names = type(score).__name__, type(align).__name__, type(combine).__name__
    if align.needs_kernel and not score.kernel:
        raise CombinationError(
            f"{names[1]} needs scores that are a kernel's values, because it uses them as weights without exp();"
            f" {names[0]} gives scores of any size and sign. Use a kernel score, or Softmax."
        )
    if score.multidimensional and not align.uses_scores:
        raise CombinationError(
            f"{names[1]} makes its weights without the scores, so {names[0]}'s scores per feature would be lost."
        )
    if combine.needs_multidimensional is True and not score.multidimensional:
        raise CombinationError(f"{names[2]} needs one weight per feature; {names[0]} gives one per key.")
    if combine.needs_multidimensional is False and score.multidimensional:
        raise CombinationError(f"{names[2]} takes one weight per key; {names[0]} gives one per feature.")
    if score.d_q is not None and align.d_q is not None and score.d_q != align.d_q:
        raise ShapeError(f"{names[0]} was built for d_q = {score.d_q}, {names[1]} for d_q = {align.d_q}")
