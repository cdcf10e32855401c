"""A recipe: a mechanism put into a small task model. What the recipes of one task share is here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from models.attention import Attention
from models.cards.card import Card
from models.testbed import sentence as sentences
from models.testbed.classifier import SmallModel
from models.testbed.parts import SOFT
from models.testbed.readers import Reader, reader
from models.testbed.taxonomy import taxonomy
from models.testbed.text import Texts

Built = tuple[SmallModel, Card]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A mechanism in a task model. task: sentence, pair, aspect or document; name: the mechanism's in the registry."""

    task: str
    name: str
    make: Callable[[Texts], Built] = field(repr=False)


def table(*recipes: Recipe) -> Mapping[str, Recipe]:
    """Recipes by name. Raises: ValueError where two have the same."""
    found = {each.name: each for each in recipes}
    if len(found) != len(recipes):
        raise ValueError("two recipes have the same name")
    return found


def sentence(
    title: str, module: Reader, texts: Texts, *, score: str, align: str = SOFT, multiplicity: str = "singular"
) -> Built:
    """The sentence model around one reader."""
    row = taxonomy(
        score=score,
        align=align,
        multidimensional=any(layout.features for layout in module.layouts.values()),
        query=module.query,
        multiplicity=multiplicity,
    )
    model = sentences.SentenceModel(texts, module).eval()
    layouts, steps = module.layouts, module.noise_steps
    return model, sentences.card(texts, layouts, title=title, taxonomy=row, noise_steps=steps)


def read_by(
    name: str, make: Callable[[Texts], Reader], *, score: str, align: str = SOFT, multiplicity: str = "singular"
) -> Recipe:
    """A mechanism that is a reader of sentences."""

    def built(texts: Texts) -> Built:
        return sentence(name, make(texts), texts, score=score, align=align, multiplicity=multiplicity)

    return Recipe(task="sentence", name=name, make=built)


def attended(
    name: str,
    make: Callable[[Texts], Attention],
    *,
    score: str,
    align: str = SOFT,
    form: Callable[..., Reader] | None = None,
) -> Recipe:
    """A mechanism that is an `Attention`, read by the form that it needs, or by the one given."""
    return read_by(name, lambda texts: (form or reader)(attention=make(texts), d=texts.d), score=score, align=align)
