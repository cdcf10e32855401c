"""Which mechanisms enter which task: those whose idea can act there.

Of the dot product and the scaled one each task has one: an equal start makes them the same.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from limelight_models.attention import Attention, masks
from limelight_models.attention.align import Align, PositionalMask
from limelight_models.attention.dimensionality import DirectionalSelfAttention
from limelight_models.attention.queries.multi_hop import MultiHop
from limelight_models.attention.queries.transforms import ContextAsQuery, MixContext, QueryTransform
from limelight_models.attention.score import Dot, RelationAware, RelationValues, ScaledDot, Score
from limelight_models.catalogue.parts import ALIGNS, SCORES
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.testbed.form import ServedForm
from limelight_models.catalogue.testbed.pair_forms import COARSE, co
from limelight_models.catalogue.testbed.sentence_forms import VARIANTS, feature_wise
from limelight_models.catalogue.testbed.text import RADIUS, Texts
from research.mechanisms.data import TaskData
from research.mechanisms.line import (
    LOOKS,
    WINDOW,
    Line,
    ask,
    beside,
    combined,
    heads,
    other,
    registered,
    tell,
    write,
)
from research.mechanisms.models import Apart, Beside
from research.mechanisms.subject import Subject, of_attention, of_form

SCALED, ADDITIVE = "scaled multiplicative", "additive"
CONTENT = (  # scores that compare what a key says with what is asked
    "additive", "concat", "general", "biased general", "activated general",
    "cosine similarity", "negative Euclidean distance", "Gaussian kernel", "deep", "generalised kernel",
    "positive random features", "multi-dimensional", "importance matrix",
)  # fmt: skip
ANY_ORDER = (  # alignments that work on keys in any order
    "sigmoid", "sparsemax", "1.5-entmax", "α-entmax", "hard", "hard, straight-through", "reinforced",
    "compositional de-attention", "self-adaptive temperature", "softmax-free kernel",
)  # fmt: skip


def asking(task: str) -> Iterator[Line]:
    """A word asks for what stood beside its like: every score that compares, every alignment that needs no order."""
    yield from (replace(each, latency=()) for each in asking_far(task)) if task != "recall" else asking_near(task)


def asking_near(task: str) -> Iterator[Line]:
    """All of them."""
    for score in (SCALED, *CONTENT):
        yield combined(task, ask, score)
    for align in ANY_ORDER:
        yield combined(task, ask, "Gaussian kernel" if align == "softmax-free kernel" else SCALED, align)
    for align in ("sparsemax", "1.5-entmax"):
        yield combined(task, ask, ADDITIVE, align)
    yield other(task, ask, "feature-wise scaled dot", feature_wise(ScaledDot))
    yield other(task, ask, "multi-head", heads)


def asking_far(task: str) -> Iterator[Line]:
    """Some of them, in texts of which one takes as long as many short ones: graphs are timed on short ones alone."""
    for score in (SCALED, ADDITIVE, "general", "positive random features"):
        yield combined(task, ask, score)
    for align in ("sigmoid", "sparsemax"):
        yield combined(task, ask, SCALED, align)
    yield other(task, ask, "multi-head", heads)


ORDERED = {  # of the tasks that are written, what acts on the order of keys, of steps, or on earlier weights
    "copy": (
        "location-based", "location-aware", "coverage-aware", "local, monotonic", "local, predictive",
        "hard monotonic", "monotonic chunkwise", "constrained softmax", "constrained sparsemax",
    ),
    "reverse": (
        "location-based", "location-aware", "coverage-aware", "local, predictive",
        "constrained softmax", "constrained sparsemax",
    ),
    "expand": ("location-aware", "hard monotonic", "monotonic chunkwise"),
    "delay": (
        "location-based", "location-aware", "local, monotonic", "local, predictive",
        "hard monotonic", "monotonic chunkwise",
    ),
    "sort": ("coverage-aware", "constrained softmax", "constrained sparsemax"),
    "selective": ("location-aware", "coverage-aware", "local, predictive", "hard monotonic", "monotonic chunkwise"),
    "dates": ("location-based", "location-aware", "coverage-aware", "local, predictive"),
}  # fmt: skip
ALSO = {  # and what needs no order, where it is of interest
    "copy": ("sparsemax", "hard, straight-through"),
    "reverse": ("sparsemax", "hard, straight-through"),
    "sort": ("sparsemax", "sigmoid"),
    "dates": (
        "sigmoid", "sparsemax", "1.5-entmax", "α-entmax", "hard, straight-through", "self-adaptive temperature",
        "compositional de-attention",
    ),
}  # fmt: skip
MORE_SCORES = {"dates": ("general", "deep", "multi-dimensional")}


def writing(task: str) -> Iterator[Line]:
    """A writer asks with its state."""
    yield combined(task, write, ADDITIVE)
    yield combined(task, write, SCALED)
    for score in MORE_SCORES.get(task, ()):
        yield combined(task, write, score)
    for name in (*ORDERED[task], *ALSO.get(task, ())):
        yield combined(task, write, name) if name in SCORES else combined(task, write, ADDITIVE, name)
    if task in ("reverse", "dates"):
        yield other(task, write, "multi-head", heads)


def neighbours(task: str) -> Iterator[Line]:
    """Words without neighbours look at words: who can tell which of them stands before it?"""
    yield combined(task, beside, SCALED)
    yield combined(task, beside, ADDITIVE)
    relation = lambda t: Attention(  # noqa: E731
        score=RelationAware(d=t.d, reach=RADIUS), combine=RelationValues(d_v=t.d, reach=RADIUS)
    )
    yield other(task, beside, "relation-aware", relation)
    for align in ("local, monotonic", "adaptive span", "distance-aware"):
        yield combined(task, beside, SCALED, align)
    onward = lambda t: Attention(score=ScaledDot(), align=PositionalMask(mask=masks.forward))  # noqa: E731
    yield other(task, beside, "positional mask, earlier words", onward, WINDOW)
    near = lambda t: Attention(  # noqa: E731
        score=ScaledDot(), align=PositionalMask(mask=masks.forward, align=ALIGNS["distance-aware"](t))
    )
    yield other(task, beside, "distance-aware, earlier words", near, WINDOW)
    yield other(task, beside, "multi-head", heads)
    for name, direction in (("forward", masks.forward), ("backward", masks.backward)):
        yield Line(
            task=task,
            name=f"directional self-attention, {name}",
            make=partial(directed, direction=direction),
            check="features that differ",
            latency=(f"directional self-attention, {name}",),
        )


def directed(data: TaskData, direction: masks.Mask) -> Subject:
    """Directional self-attention, which maps what it reads by itself."""
    module = DirectionalSelfAttention(d_f=data.texts.d, d=data.texts.d, direction=direction)
    return of_attention(Beside(data.texts, module, maps=False), "token_mask", "token_mask")


QUERY_FREE = (  # names of the registry; no question is asked here, so that only what is constant can ask it
    "self-attentive query, left out", "self-attentive query, trained", "self-attentive", "feature-based",
    "multi-dimensional", "source2token", "importance matrix", "selective grid of Gaussians", "multi-head",
    "label-wise", "capsule-based", "basic query", "gated combination", "multi-hop, shared weights",
)  # fmt: skip
CONTROL_OF_SENTIMENT = (
    "self-attentive query, left out", "self-attentive query, trained", "scaled multiplicative", "additive",
    "sparsemax", "sigmoid", "multi-head", "source2token", "self-attentive query, token to token",
)  # fmt: skip


def sentence(task: str) -> Iterator[Line]:
    """Texts that nothing is asked about."""
    for name in QUERY_FREE if task == "induction" else CONTROL_OF_SENTIMENT:
        yield registered(task, name)
    for name, form in VARIANTS.items():
        if ("token to token" in name) == (task == "sentiment"):
            yield variant(task, name, form)


def variant(task: str, name: str, form: ServedForm) -> Line:
    """Multi-head attention that is trained to disagree, or has each token ask."""
    make = lambda data: of_form(form.make(name, data.texts))  # noqa: E731
    return Line(task=task, name=name, make=make, check="heads that differ")


def paired(task: str) -> Iterator[Line]:
    """Two sentences: every form of co-attention, and each sentence pooled by itself."""
    alone = co(Apart, COARSE, score="self-attentive")
    pooled = lambda data: of_form(alone.make("", data.texts))  # noqa: E731
    yield Line(task=task, name="each sentence by itself", make=pooled)
    for each in MECHANISMS:
        if each.served and each.served.task == "pair" and each.name != "bilinear affinity":  # is attentive pooling
            yield registered(task, each.name)


def aspect(task: str) -> Iterator[Line]:
    """A target between two contexts."""
    for each in MECHANISMS:
        if each.served and each.served.task == "aspect":
            yield registered(task, each.name)


def story(task: str) -> Iterator[Line]:
    """Facts that are asked for: by what score, how often, and with what next."""
    if task == "babi1":  # one fact answers
        for score in ("multiplicative (dot)", ADDITIVE, "general", "cosine similarity"):
            yield combined(task, tell, score)
        for align in ("sparsemax", "1.5-entmax", "sigmoid", "hard, straight-through"):
            yield combined(task, tell, "multiplicative (dot)", align)
        return
    for hops in (1, 2, 3):
        check = LOOKS if hops > 1 else ""
        title = f"multi-hop, {hops} hop{'s' * (hops > 1)}"
        yield other(task, tell, title, partial(hopping, hops=hops), check)
    for name, change in HOPS.items():
        yield other(task, tell, f"multi-hop, {name}", partial(hopping, **change), LOOKS)


def hopping(
    texts: Texts,
    hops: int = 3,
    score: Callable[[Texts], Score] = lambda t: Dot(),
    align: Callable[[Texts], Align | None] = lambda t: None,
    transform: Callable[[Texts], QueryTransform | None] = lambda t: None,
    shared: bool = True,
) -> nn.Module:
    """Hops over the facts."""
    make = lambda: Attention(score=score(texts), align=align(texts))  # noqa: E731
    attentions = [make()] * hops if shared else [make() for _ in range(hops)]
    return MultiHop(hops=attentions, transform=transform(texts))


HOPS: Mapping[str, Mapping[str, Any]] = {
    "additive": {"score": SCORES[ADDITIVE]},
    "additive, weights of each hop's own": {"score": SCORES[ADDITIVE], "shared": False},
    "what was found asks": {"transform": lambda t: ContextAsQuery()},
    "question and what was found mixed": {"transform": lambda t: MixContext(d_q=t.d, d_v=t.d)},
    "sparsemax": {"align": ALIGNS["sparsemax"]},
}

FORMS: Mapping[str, Callable[[str], Iterator[Line]]] = {
    "asking": asking, "writing": writing, "beside": neighbours, "sentence": sentence, "pair": paired, "aspect": aspect,
    "story": story,
}  # fmt: skip
