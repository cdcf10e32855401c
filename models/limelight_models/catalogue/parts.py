"""Any score with any alignment at the sizes of the small task models: the registry's, and variants that are no rows."""

from collections.abc import Callable, Mapping

from limelight_models.attention import Attention
from limelight_models.attention import align as alignments
from limelight_models.attention import score as scores
from limelight_models.attention.align import Align
from limelight_models.attention.score import Score
from limelight_models.blocks.fixed import Average
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.testbed.form import Built, sentence
from limelight_models.catalogue.testbed.readers import Reader, reader
from limelight_models.catalogue.testbed.text import Texts

UNIFORM = "unweighted average"

SCORES: Mapping[str, Callable[[Texts], Score]] = {
    UNIFORM: lambda t: Average(),
    # Positive features: with the trigonometric ones a sum near 0 would be divided by.
    "positive random features": lambda s: scores.RandomFeatures(d=s.d, features=s.random_features, positive=True),
    **{each.name: each.score for each in MECHANISMS if each.score is not None},
}
ALIGNS: Mapping[str, Callable[[Texts], Align]] = {
    **{each.name: each.align for each in MECHANISMS if each.align is not None},
    "hard, straight-through": lambda t: alignments.Hard(straight_through=True),
    "tanh": lambda t: alignments.Tanh(),
}


def attention(score: str, align: str, texts: Texts) -> Attention:
    """Any score with any alignment, by name. Raises: CombinationError where they do not go together."""
    return Attention(score=SCORES[score](texts), align=ALIGNS[align](texts))


def combine(score: str, align: str, texts: Texts, *, form: Callable[..., Reader] | None = None) -> Built:
    """The sentence model with any score and any alignment, in the form that they need or in the one given.

    Raises: CombinationError, with the reason, where they do not go together.
    """
    module = (form or reader)(attention=attention(score, align, texts), d=texts.d)
    return sentence(f"{score} × {align}", module, texts, score=score, align=align)
