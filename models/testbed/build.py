"""Every mechanism of the registry in a small task model: `build` gives the model and its card.

    model, card = build("sparsemax", texts)
    model, card = combine("additive", "sparsemax", texts)

The task follows from the mechanism: a sentence; a pair of sentences for co-attention; a target between its left and
its right for rotatory attention; a document for levels. What only trains (signals, catalogue I and H8) has no model of
its own: `Hard` and `Reinforced` learn by REINFORCE here, capsules by their joint loss, and `EXTRA` holds multi-head
attention with each disagreement; the others need what these data sets have not (gold weights, a teacher, a parser).
"""

from collections.abc import Callable, Mapping

from models.testbed.basic import BASIC
from models.testbed.inputs import INPUTS
from models.testbed.levels import LEVELS
from models.testbed.multiple import EXTRA, MULTIPLE
from models.testbed.parts import attention
from models.testbed.readers import Reader, reader
from models.testbed.recipe import Built, Recipe, sentence
from models.testbed.text import Texts

__all__ = ["EXTRA", "RECIPES", "Built", "Recipe", "build", "combine"]

RECIPES: Mapping[str, Recipe] = {**BASIC, **MULTIPLE, **LEVELS, **INPUTS}


def build(name: str, texts: Texts) -> Built:
    """The small task model of a mechanism, by its name in the registry. Raises: KeyError for a name without one."""
    return RECIPES[name].make(texts)


def combine(score: str, align: str, texts: Texts, *, form: Callable[..., Reader] | None = None) -> Built:
    """The sentence model with any score and any alignment, in the form that they need or in the one given.

    Raises: CombinationError, with the reason, where they do not go together.
    """
    module = (form or reader)(attention=attention(score, align, texts), d=texts.d)
    return sentence(f"{score} × {align}", module, texts, score=score, align=align)
