"""One line of the study: a mechanism on a task, and the ways in which lines are made."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from limelight_models.attention import Attention
from limelight_models.attention.align import DeAttention
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.queries.multi_hop import MultiHop
from limelight_models.attention.score import ScaledDot
from limelight_models.catalogue.parts import ALIGNS, SCORES
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.testbed.text import Texts
from research.mechanisms.data import TaskData
from research.mechanisms.models import Asking, Beside, Story, Writing
from research.mechanisms.reading import FACTS
from research.mechanisms.subject import Subject, of_attention, of_form

SOFT = "soft (global)"
HEADS = 4
UNIFORM, FROZEN = "uniform weights", "frozen random weights"
Build = Callable[[TaskData, nn.Module], Subject]
Parts = Callable[[Texts], nn.Module]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A mechanism on a task. check: of `looks.CHECKS`, what says that its idea acted; "" where nothing need be shown.

    latency: the mechanism of the registry whose exported graph is timed, (score, alignment) or a name; () for none.
    """

    task: str
    name: str
    make: Callable[[TaskData], Subject]
    check: str = ""
    latency: tuple[str, ...] = ()

    @property
    def control(self) -> bool:
        """Whether it is no mechanism but what the others are compared with."""
        return self.name in (UNIFORM, FROZEN)

    @property
    def key(self) -> str:
        """The key of its results."""
        return f"{self.task} / {self.name}"


def latency_key(line: Line) -> str:
    """The key of the time of its exported graph."""
    return " × ".join(line.latency)


WINDOW, MEMORY, LOOKS = "keys cut off", "what memory moves", "looks that differ"
CHECKS = {  # of mechanisms, scores and alignments by name
    **dict.fromkeys(("sparsemax", "1.5-entmax", "α-entmax", "local, monotonic", "local, predictive"), WINDOW),
    **dict.fromkeys(("adaptive span", "distance-aware", "reinforced", "hard", "hard, straight-through"), WINDOW),
    **dict.fromkeys(("constrained softmax", "constrained sparsemax"), "steps at their bounds"),
    **dict.fromkeys(("hard monotonic", "monotonic chunkwise"), "steps that stop"),
    "compositional de-attention": "weight that subtracts",
    **dict.fromkeys(("location-aware", "coverage-aware"), MEMORY),
    **dict.fromkeys(("multi-dimensional", "feature-wise scaled dot", "source2token"), "features that differ"),
    **dict.fromkeys(("multi-head", "importance matrix"), "heads that differ"),
    **dict.fromkeys(("label-wise", "capsule-based", "basic query", "multi-hop, shared weights"), LOOKS),
    **dict.fromkeys(("multi-hop, question reread", "multi-hop, question reread with what was found"), LOOKS),
    **dict.fromkeys(("rotatory attention, repeated", "selective grid of Gaussians"), LOOKS),
}
KERNELS = dict.fromkeys(("generalised kernel", "positive random features"), "kernel ratio")


# As it was measured: the remedy of its paper for a gate that never opens, at distances that are means over features.
DE_ATTENTION = {"compositional de-attention": lambda t: DeAttention(beta=1 / t.d, scale=2.0)}


def pair_of(score: str, align: str = "") -> tuple[str, Parts]:
    """A score with an alignment, named after what is not plain."""
    aligned = align or KERNELS.get(score, SOFT)
    name = score if not align else f"{align} × {score}"
    made = DE_ATTENTION.get(aligned, ALIGNS[aligned])
    return name, lambda t: Attention(score=SCORES[score](t), align=made(t))


def combined(task: str, build: Build, score: str, align: str = "") -> Line:
    """A line of one score and one alignment."""
    name, parts = pair_of(score, align)
    return Line(
        task=task,
        name=name,
        make=lambda data: build(data, parts(data.texts)),
        check=CHECKS.get(align or score, ""),
        latency=(score, align or KERNELS.get(score, SOFT)),
    )


def other(task: str, build: Build, name: str, parts: Parts, check: str = "") -> Line:
    """A line of an attention that is more than a score and an alignment."""
    timed = (name,) if any(each.name == name and each.served for each in MECHANISMS) else ()
    check = check or CHECKS.get(name, "")
    return Line(task=task, name=name, make=lambda data: build(data, parts(data.texts)), check=check, latency=timed)


def ask(data: TaskData, attention: nn.Module) -> Subject:
    return of_attention(Asking(data.texts, attention), "asked_mask", "token_mask")


def beside(data: TaskData, attention: nn.Module) -> Subject:
    return of_attention(Beside(data.texts, attention), "token_mask", "token_mask")


def write(data: TaskData, attention: nn.Module) -> Subject:
    return of_attention(Writing(data.texts, attention), "written_mask", "source_mask")


def tell(data: TaskData, attention: nn.Module) -> Subject:
    hops = MultiHop(hops=[attention]) if isinstance(attention, Attention) else attention
    return of_attention(Story(data.texts, hops, most=FACTS), "", "fact_mask")


def heads(texts: Texts) -> nn.Module:
    return MultiHead(attention=Attention(score=ScaledDot()), d_model=texts.d, heads=HEADS)


def registered(task: str, name: str) -> Line:
    """A mechanism of the registry in the form in which it is served."""
    (found,) = (each for each in MECHANISMS if each.name == name and each.served)
    return Line(
        task=task,
        name=name,
        make=lambda data: of_form(found.serve(data.texts)),
        check=CHECKS.get(name, ""),
        latency=(name,),
    )
