"""Forms of the aspect model: rotatory attention (G6) and the target-object hierarchy (E4)."""

from collections.abc import Callable

from models.attention import Attention
from models.attention.features import Rotation, Rotatory
from models.attention.levels import TargetObject
from models.attention.score import ActivatedGeneral, General, Score
from models.testbed import aspect
from models.testbed.aspect import RotatoryModel, TargetObjectModel
from models.testbed.document_forms import pool
from models.testbed.form import Built, ServedForm
from models.testbed.taxonomy import taxonomy
from models.testbed.text import Texts

TURNS = 3


def activated(texts: Texts) -> Score:
    return ActivatedGeneral(d_q=texts.d, d_k=texts.d)


def general(texts: Texts) -> Score:
    return General(d_q=texts.d, d_k=texts.d)


def rotatory(count: int, score: Callable[[Texts], Score] = activated) -> ServedForm:
    """Rotatory attention with so many rotations, which share their weights."""

    def built(title: str, texts: Texts) -> Built:
        turn = Rotation(
            **{part: Attention(score=score(texts)) for part in ("left", "right", "left_target", "right_target")}
        )
        row = taxonomy(
            score="activated general",
            features="rotatory",
            multiplicity="multi-hop" if count > 1 else "singular",
        )
        model = RotatoryModel(texts, Rotatory(rotations=[turn] * count)).eval()
        return model, aspect.card(texts, model.maps, title=title, taxonomy=row)

    return ServedForm(task="aspect", make=built)


def target_object(score: Callable[[Texts], Score] = general) -> ServedForm:
    """What the target says is the question to the sentence."""

    def built(title: str, texts: Texts) -> Built:
        module = TargetObject(over_target=pool(texts), over_text=Attention(score=score(texts)))
        model = TargetObjectModel(texts, module).eval()
        row = taxonomy(score="general", levels="target-object hierarchy")
        return model, aspect.card(texts, model.maps, title=title, taxonomy=row)

    return ServedForm(task="aspect", make=built)
