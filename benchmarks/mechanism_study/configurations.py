"""What is compared: the sentence model with every score, alignment and multiplicity, and the other tasks' forms."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.mechanism_study.ablations import ASPECTS, DOCUMENTS, GROUPS, PAIRS
from models.attention import CombinationError
from models.catalogue.parts import ALIGNS, UNIFORM, combine
from models.catalogue.registry import MECHANISMS
from models.testbed.form import Built, ServedForm
from models.testbed.readers import EachToken, Pooled, Reader, Stepwise
from models.testbed.sentence_forms import VARIANTS
from models.testbed.taxonomy import ADDITIVE, SCALED, SOFT
from models.testbed.text import Texts

SAME = {  # rows of the catalogue that are one model here
    "general attention module": "sentence / score / additive",
    "single-dimensional": "sentence / score / scaled multiplicative",
    "single-level": "sentence / score / general",
    "single-representational": "sentence / score / additive",
    "bilinear affinity": "pair / features / attentive pooling",
    f"{SOFT} × {SCALED}": "sentence / score / scaled multiplicative",
    f"{SOFT} × {ADDITIVE}": "sentence / score / additive",
}
FORMS: dict[str, type[Reader]] = {"one look": Pooled, "token to token": EachToken, "three looks": Stepwise}


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One line of the table. group: what it is compared within, after the taxonomy's columns.

    same_as: key of the configuration that is this very model under another row's name; it is measured once.
    """

    task: str
    group: str
    name: str
    make: Callable[[Texts], Built]
    same_as: str = ""

    @property
    def key(self) -> str:
        """What its results are filed under."""
        return f"{self.task} / {self.group} / {self.name}"


def configurations() -> list[Configuration]:
    """Every line of the table, in its order."""
    return [*_references(), *_columns(), *_alignments(), *_extra()]


def measured() -> list[Configuration]:
    """Those with results of their own."""
    return [each for each in configurations() if not each.same_as]


def _references() -> Iterator[Configuration]:
    """Each form of the sentence model without attention (N2) and with the plainest one, to compare others with."""
    for form in FORMS:
        # One look with these two scores is among the alignments, as softmax.
        for score in (UNIFORM,) if form == "one look" else (UNIFORM, SCALED, ADDITIVE):
            yield _combination("reference", f"{score}, {form}", score, SOFT, FORMS[form])


def _columns() -> Iterator[Configuration]:
    """Every mechanism of the registry but the alignments, which are compared with two scores each."""
    for each in MECHANISMS:
        if each.served and each.column != "align":
            yield _form(each.name, each.served, each.column)


def _extra() -> Iterator[Configuration]:
    """Multi-head attention with training signals, and the other tasks' ablations and variants."""
    for name, form in VARIANTS.items():
        yield _form(name, form, "queries")
    for name, form in (*PAIRS.items(), *ASPECTS.items(), *DOCUMENTS.items()):
        yield _form(name, form, GROUPS.get(name, "reference"))


def _alignments() -> Iterator[Configuration]:
    for align in ALIGNS:
        for score in (SCALED, ADDITIVE):
            yield _combination("alignment", f"{align} × {score}", score, align)
    for name in ("kernel ratio", "softmax-free kernel"):  # which neither of the two scores can feed
        (found,) = (each for each in MECHANISMS if each.name == name)
        yield Configuration(task="sentence", group="alignment", name=f"{name} × kernel", make=found.serve)


def _form(name: str, form: ServedForm, group: str) -> Configuration:
    return Configuration(
        task=form.task, group=group, name=name, make=partial(form.make, name), same_as=SAME.get(name, "")
    )


def _combination(group: str, name: str, score: str, align: str, form: type[Reader] | None = None) -> Configuration:
    return Configuration(
        task="sentence",
        group=group,
        name=name,
        make=lambda texts: combine(score, align, texts, form=form),
        same_as=SAME.get(name, ""),
    )


def refusal(configuration: Configuration, texts: Texts) -> str:
    """Why a configuration cannot be built; empty where it can."""
    try:
        configuration.make(texts)
    except CombinationError as error:
        return str(error)
    return ""
