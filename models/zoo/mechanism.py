"""Every mechanism of the registry in a small task model: `build` gives the model and its card.

    model, card = build("sparsemax", texts)
    model, card = combine("additive", "sparsemax", texts)

The task follows from the mechanism: a sentence; a pair of sentences for co-attention; a target between its left and
its right for rotatory attention; a document for hierarchies.
"""

from collections.abc import Callable
from dataclasses import dataclass

from models.attention import Attention
from models.attention.combine import FusionGate
from models.attention.general import NadarayaWatson
from models.attention.score import OuterProduct, RelationValues
from models.card import Card
from models.zoo import mechanism_sentence
from models.zoo.mechanism_parts import ADDITIVE, ALIGNS, RADIUS, SCALED, SCORES, SOFT, attention
from models.zoo.mechanism_readers import Reader, reader
from models.zoo.mechanism_small import SmallModel
from models.zoo.mechanism_taxonomy import taxonomy
from models.zoo.mechanism_text import Texts

Built = tuple[SmallModel, Card]

KERNEL_ALIGN = {"generalised kernel": "kernel ratio", "random features": "kernel ratio"}
KERNEL_SCORE = {"kernel ratio": "positive random features", "softmax-free kernel": "Gaussian kernel"}
COMBINED = ("relation-aware", "outer-product")  # scores with a combination of their own
VARIANTS = ("unweighted average", "positive random features", "tanh", "hard, straight-through")  # no rows themselves


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A mechanism in a task model. task: sentence, pair, aspect or document."""

    task: str
    name: str
    make: Callable[[Texts], Built]


def combine(score: str, align: str, texts: Texts, *, form: type[Reader] | None = None) -> Built:
    """The sentence model with any score and any alignment. Raises: CombinationError, with the reason."""
    inner = attention(score, align, texts)
    module = reader(inner, d=texts.d) if form is None else form(attention=inner, d=texts.d)
    return sentence(f"{score} × {align}", module, texts, score=score, align=align)


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
    return (
        mechanism_sentence.SentenceModel(texts, module).eval(),
        mechanism_sentence.card(texts, module, title=title, taxonomy=row),
    )


def build(name: str, texts: Texts) -> Built:
    """The small task model of a mechanism, by its name in the registry. Raises: KeyError for a name without one."""
    return RECIPES[name].make(texts)


def _whole(name: str, make: Callable[[Texts], Attention], *, score: str, align: str = SOFT) -> Recipe:
    def built(texts: Texts) -> Built:
        return sentence(name, reader(make(texts), d=texts.d), texts, score=score, align=align)

    return Recipe(task="sentence", name=name, make=built)


def _parts(name: str, score: str, align: str) -> Recipe:
    return _whole(name, lambda texts: attention(score, align, texts), score=score, align=align)


def _general() -> list[Recipe]:
    def gated(texts: Texts) -> Attention:
        return Attention(score=SCORES[SCALED](texts), combine=FusionGate(d=texts.d))

    return [
        _parts("task model", "self-attentive", SOFT),
        _parts("general attention module", ADDITIVE, SOFT),
        _whole("gated combination", gated, score=SCALED),
        _whole("Nadaraya-Watson regression", lambda texts: NadarayaWatson(bandwidth=1.0), score="Gaussian kernel"),
    ]


def _scores() -> list[Recipe]:
    def relation(texts: Texts) -> Attention:
        return Attention(score=SCORES["relation-aware"](texts), combine=RelationValues(d_v=texts.d, reach=RADIUS))

    def outer(texts: Texts) -> Attention:
        return Attention(score=SCORES["outer-product"](texts), align=ALIGNS["tanh"](texts), combine=OuterProduct())

    return [
        *(_parts(name, name, KERNEL_ALIGN.get(name, SOFT)) for name in SCORES if name not in (*COMBINED, *VARIANTS)),
        _whole("relation-aware", relation, score="relation-aware"),
        _whole("outer-product", outer, score="outer-product", align="tanh"),
    ]


def _alignments() -> list[Recipe]:
    return [_parts(name, KERNEL_SCORE.get(name, SCALED), name) for name in ALIGNS if name not in VARIANTS]


RECIPES: dict[str, Recipe] = {each.name: each for each in (*_general(), *_scores(), *_alignments())}
