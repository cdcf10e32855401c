"""Every mechanism of the registry in a small task model: `build` gives the model and its card.

    model, card = build("sparsemax", texts)
    model, card = combine("additive", "sparsemax", texts)
"""

from collections.abc import Callable
from dataclasses import dataclass

from limelight.v1 import model_pb2
from models.attention import Attention
from models.attention.combine import FusionGate
from models.attention.general import NadarayaWatson
from models.attention.score import OuterProduct, RelationValues
from models.card import Card, TaskModel
from models.zoo import describe, mechanism_sentence
from models.zoo.mechanism_parts import ALIGNS, RADIUS, SCORES
from models.zoo.mechanism_readers import Reader, reader
from models.zoo.mechanism_text import Texts

Built = tuple[TaskModel, Card]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A mechanism in a task model.

    task: sentence, pair, aspect or document; name: the mechanism's in the registry.
    """

    task: str
    name: str
    make: Callable[[Texts], Built]


def attention(score: str, align: str, texts: Texts) -> Attention:
    """Any score with any alignment, by name. Raises: CombinationError where they do not go together."""
    d = texts.d
    return Attention(score=SCORES[score](d, texts.max_tokens), align=ALIGNS[align](d))


def combine(score: str, align: str, texts: Texts) -> Built:
    """The sentence model with any score and any alignment. Raises: CombinationError, with the reason."""
    return sentence(f"{score} × {align}", lambda texts: attention(score, align, texts), texts, score=score, align=align)


def sentence(
    title: str, make: Callable[[Texts], Attention], texts: Texts, *, score: str = "", align: str = "soft (global)"
) -> Built:
    """The sentence model around one attention."""
    return sentence_reader(title, reader(make(texts), d=texts.d), texts, score=score or title, align=align)


def sentence_reader(title: str, module: Reader, texts: Texts, *, score: str, align: str) -> Built:
    """The sentence model around one reader."""
    row = taxonomy(score=score, align=align, multidimensional=bool(module.layout.features), query=module.query_kind)
    model = mechanism_sentence.SentenceModel(texts, module).eval()
    return model, mechanism_sentence.card(texts, module, title=title, taxonomy=row)


def taxonomy(
    *, score: str, align: str, multidimensional: bool = False, query: str = "specialised", multiplicity: str = "singular"
) -> model_pb2.Taxonomy:
    """The model's row of BF Table 3; what is not said is the plain case."""
    return describe.taxonomy(
        "singular",
        "single-level",
        "single-representational",
        score,
        "global" if align.startswith("soft") else align,
        "multi-dimensional" if multidimensional else "single-dimensional",
        query,
        multiplicity,
    )


def _parts(name: str, score: str, align: str) -> Recipe:
    return Recipe(
        task="sentence",
        name=name,
        make=lambda texts: sentence(
            name, lambda texts: attention(score, align, texts), texts, score=score, align=align
        ),
    )


def _whole(name: str, make: Callable[[Texts], Attention], *, score: str, align: str = "soft (global)") -> Recipe:
    return Recipe(task="sentence", name=name, make=lambda texts: sentence(name, make, texts, score=score, align=align))


SOFT = "soft (global)"
KERNELS = {"generalised kernel": "kernel ratio", "random features": "kernel ratio"}  # what scores do without exp
SPECIAL_SCORES = {"relation-aware", "outer-product"}  # with a combination of their own
SCORE_OF = {"kernel ratio": "positive random features", "softmax-free kernel": "Gaussian kernel"}

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        _whole("task model", lambda t: attention("self-attentive", SOFT, t), score="self-attentive"),
        _whole("general attention module", lambda t: attention("additive", SOFT, t), score="additive"),
        _whole(
            "gated combination",
            lambda t: Attention(score=SCORES["scaled multiplicative"](t.d, 0), combine=FusionGate(d=t.d)),
            score="scaled multiplicative",
        ),
        _whole("Nadaraya-Watson regression", lambda t: NadarayaWatson(bandwidth=1.0), score="Gaussian kernel"),
        *(_parts(name, name, KERNELS.get(name, SOFT)) for name in SCORES if name not in SPECIAL_SCORES),
        _whole(
            "relation-aware",
            lambda t: Attention(
                score=SCORES["relation-aware"](t.d, 0), combine=RelationValues(d_v=t.d, reach=RADIUS)
            ),
            score="relation-aware",
        ),
        _whole(
            "outer-product",
            lambda t: Attention(
                score=SCORES["outer-product"](t.d, 0), align=ALIGNS["tanh"](t.d), combine=OuterProduct()
            ),
            score="outer-product",
            align="tanh",
        ),
        *(_parts(name, SCORE_OF.get(name, "scaled multiplicative"), name) for name in ALIGNS if name != "tanh"),
    )
}


def build(name: str, texts: Texts) -> Built:
    """The small task model of a mechanism, by its name in the registry. Raises: KeyError for a name it does not know."""
    return RECIPES[name].make(texts)
