"""The form in which a mechanism is compared and served: a task, and a small model made for it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from limelight_models.attention import Attention
from limelight_models.cards.card import Card
from limelight_models.catalogue.testbed import sentence as sentences
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.readers import Reader, reader
from limelight_models.catalogue.testbed.taxonomy import SOFT, taxonomy
from limelight_models.catalogue.testbed.text import Texts

Built = tuple[SmallModel, Card]


@dataclass(frozen=True, kw_only=True)
class ServedForm:
    """A mechanism in a small task model.

    task: sentence, pair, aspect or document. make: from a title and what is read to model and card. attention: the
    `Attention` inside by itself, where the mechanism is one.
    """

    task: str
    make: Callable[[str, Texts], Built] = field(repr=False)
    attention: Callable[[Texts], Attention] | None = field(default=None, repr=False)


def sentence(
    title: str, module: Reader, texts: Texts, *, score: str, align: str = SOFT, multiplicity: str = "singular"
) -> Built:
    """The sentence model around one reader."""
    row = taxonomy(
        score=score,
        align=align,
        multidimensional=any(each.feature_axis for each in module.maps.values()),
        query=module.query,
        multiplicity=multiplicity,
    )
    model = sentences.SentenceModel(texts, module).eval()
    return model, sentences.card(texts, module.maps, title=title, taxonomy=row, noise_steps=module.noise_steps)


def read_by(
    make: Callable[[Texts], Reader], *, score: str, align: str = SOFT, multiplicity: str = "singular"
) -> ServedForm:
    """A mechanism that is a reader of sentences."""

    def built(title: str, texts: Texts) -> Built:
        return sentence(title, make(texts), texts, score=score, align=align, multiplicity=multiplicity)

    return ServedForm(task="sentence", make=built)


def attended(
    make: Callable[[Texts], Attention], *, score: str, align: str = SOFT, form: Callable[..., Reader] | None = None
) -> ServedForm:
    """A mechanism that is an `Attention`, read by the form that it needs, or by the one given."""

    def built(title: str, texts: Texts) -> Built:
        module = (form or reader)(attention=make(texts), d=texts.d)
        return sentence(title, module, texts, score=score, align=align)

    return ServedForm(task="sentence", make=built, attention=make)
