"""Forms of the aspect model: rotatory attention (G6) and the target-object hierarchy (E4)."""

from collections.abc import Callable

from limelight_models.attention import Attention
from limelight_models.attention.features import Rotation, Rotatory
from limelight_models.attention.levels import TargetObject
from limelight_models.attention.score import ActivatedGeneral, General, Score
from limelight_models.catalogue.testbed import aspect
from limelight_models.catalogue.testbed.aspect import RotatoryModel, TargetObjectModel
from limelight_models.catalogue.testbed.document_forms import pool
from limelight_models.catalogue.testbed.form import Built, ServedForm
from limelight_models.catalogue.testbed.taxonomy import taxonomy
from limelight_models.catalogue.testbed.text import Scale, Texts

TURNS = 3


def activated(s: Scale) -> Score:
    return ActivatedGeneral(d_q=s.d, d_k=s.d)


def general(s: Scale) -> Score:
    return General(d_q=s.d, d_k=s.d)


def turning(count: int, score: Callable[[Scale], Score] = activated) -> Callable[[Scale], Rotatory]:
    """So many rotations, which share their weights."""

    def made(s: Scale) -> Rotatory:
        parts = ("left", "right", "left_target", "right_target")
        return Rotatory(rotations=[Rotation(**{part: Attention(score=score(s)) for part in parts})] * count)

    return made


def rotatory(count: int, score: Callable[[Scale], Score] = activated) -> ServedForm:
    """Rotatory attention with so many rotations, which share their weights."""

    def built(title: str, texts: Texts) -> Built:
        row = taxonomy(
            score="activated general", features="rotatory", multiplicity="multi-hop" if count > 1 else "singular"
        )
        model = RotatoryModel(texts, turning(count, score)(texts)).eval()
        return model, aspect.card(texts, model.maps, title=title, taxonomy=row)

    return ServedForm(task="aspect", make=built)


def from_target(s: Scale, score: Callable[[Scale], Score] = general) -> TargetObject:
    """The module in which a target asks."""
    return TargetObject(over_target=pool(s), over_text=Attention(score=score(s)))


def target_object(score: Callable[[Scale], Score] = general) -> ServedForm:
    """The target's summary is the query to the sentence."""

    def built(title: str, texts: Texts) -> Built:
        model = TargetObjectModel(texts, from_target(texts, score)).eval()
        row = taxonomy(score="general", levels="target-object hierarchy")
        return model, aspect.card(texts, model.maps, title=title, taxonomy=row)

    return ServedForm(task="aspect", make=built)
