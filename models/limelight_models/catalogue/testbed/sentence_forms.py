"""Forms of the sentence model: dimensionality, representations and queries (catalogue D, F, H), and variants."""

from collections.abc import Callable, Mapping

from torch import nn

from limelight_models.attention import Attention
from limelight_models.attention.dimensionality import DirectionalSelfAttention, FeatureWise
from limelight_models.attention.general import FeatureAttention, TaskModel
from limelight_models.attention.masks import Mask
from limelight_models.attention.queries.capsule import CapsuleAttention
from limelight_models.attention.queries.decoder import Decoder
from limelight_models.attention.queries.label_wise import LabelWise
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.queries.multi_hop import MultiHop
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.queries.self_attention import SelfAttention
from limelight_models.attention.queries.specialised import AverageQuery
from limelight_models.attention.queries.transforms import MixContext
from limelight_models.attention.score import Additive, BiasedGeneral, Dot, PerHead, ScaledDot, Score, SelfAttentive
from limelight_models.attention.signals import RationaleAttention
from limelight_models.cards.labels import LabelSet, numbered
from limelight_models.catalogue.testbed import sentence as sentences
from limelight_models.catalogue.testbed.form import Built, ServedForm, read_by
from limelight_models.catalogue.testbed.meta import MetaModel
from limelight_models.catalogue.testbed.queries import (
    Asked,
    AskedByAverage,
    Capsular,
    Decoding,
    Directed,
    Disagreeing,
    Labelled,
    SelfAttending,
    SelfPooled,
    WholeTask,
)
from limelight_models.catalogue.testbed.readers import Reader
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE, SCALED, taxonomy
from limelight_models.catalogue.testbed.text import Scale, Texts
from limelight_models.tasks.heads import Scores

HOPS, ANSWERS = 3, 3
WIDE = 8  # size of a feature's own queries and keys in feature-wise scores


def additive(s: Scale, *, contexts: int = 0) -> Attention:
    """Additive attention; `contexts`: how many contexts lie beside its query."""
    return Attention(score=Additive(d_q=(1 + contexts) * s.d, d_k=s.d, d_w=s.d_w))


def feature_wise(score: Callable[[], Score]) -> Callable[[Scale], Attention]:
    """Any score, one a feature."""
    return lambda t: Attention(score=FeatureWise(score=score(), d_q=t.d, d_k=t.d, d_p=WIDE, d_v=t.d))


def narrow_additive() -> Score:
    """The additive score of one feature."""
    return Additive(d_q=WIDE, d_k=WIDE, d_w=WIDE)


def directional(direction: Mask) -> Callable[[Texts], Reader]:
    """One direction of DiSAN."""
    return lambda t: Directed(module=directed(direction)(t), d=t.d)


def directed(direction: Mask) -> Callable[[Scale], DirectionalSelfAttention]:
    """Its module."""
    return lambda s: DirectionalSelfAttention(d_f=s.d, d=s.d, direction=direction)


def heads() -> ServedForm:
    """The average asks with four heads."""
    return read_by(lambda t: Asked(module=multi_head(t), d=t.d), score=SCALED, multiplicity="multi-head")


def task_model(*, asks: bool) -> ServedForm:
    """The survey's task model, with a query model or with a score that needs none."""

    def made(texts: Texts) -> Reader:
        d = texts.d
        attention = additive(texts) if asks else Attention(score=SelfAttentive(d_k=d, d_w=d))
        module = TaskModel(
            feature_model=nn.Sequential(nn.Linear(d, d), nn.Tanh()),
            query_model=nn.Linear(d, d) if asks else None,
            attention_model=FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d),
            output_model=Scores(d_in=d, d_out=len(texts.labels), dropout=texts.dropout),
        )
        return WholeTask(module=module, d=d)

    return read_by(made, score=ADDITIVE if asks else "self-attentive")


def decoder() -> ServedForm:
    """A decoder asks with its state, three times."""

    return read_by(lambda t: Decoding(module=decoding(t), texts=t, steps=ANSWERS), score=ADDITIVE)


def decoding(s: Scale) -> Decoder:
    """Its module."""
    attention = Attention(score=Additive(d_q=s.d_w, d_k=s.d, d_w=s.d_w))
    return Decoder(attention=attention, d_y=s.d, d_c=s.d, d_s=s.d_w)


def syntactic() -> ServedForm:
    """Every token asks with four heads, the first of which has the form of a dependency parser."""

    def made(texts: Texts) -> Reader:
        names = ("syntax", *(f"free {number}" for number in range(1, texts.parts)))
        named = LabelSet(name="heads", kind="heads", names=names)
        return SelfAttending(module=self_attention(texts, parsing(texts), maps=False), d=texts.d, of_heads=named)

    return read_by(made, score=SCALED, multiplicity="multi-head")


def parsing(s: Scale) -> MultiHead:
    """Several heads, the first of which has a score of its own."""
    size = s.d // s.parts
    scores = [BiasedGeneral(d_q=size, d_k=size), *(ScaledDot() for _ in range(s.parts - 1))]
    return MultiHead(attention=Attention(score=PerHead(scores=scores)), d_model=s.d, heads=s.parts)


def average_query() -> ServedForm:
    """The text's average asks the text."""
    return read_by(lambda t: AskedByAverage(module=asking_by_average(t), d=t.d), score=ADDITIVE)


def asking_by_average(s: Scale) -> AverageQuery:
    """Its module."""
    return AverageQuery(attention=additive(s))


def multi_head(s: Scale) -> MultiHead:
    """Several heads of scaled dot products."""
    return MultiHead(attention=Attention(score=ScaledDot()), d_model=s.d, heads=s.parts)


def disagreeing(by: str) -> ServedForm:
    """Multi-head attention, trained to disagree; not a row of its own, but of training signals (H8)."""
    return read_by(lambda t: Disagreeing(module=multi_head(t), d=t.d, by=by), score=SCALED, multiplicity="multi-head")


def sharing(s: Scale) -> MultiHop:
    """Hops that share their weights."""
    return MultiHop(hops=[additive(s)] * HOPS)


def hops(make: Callable[[Scale], MultiHop], count: int) -> ServedForm:
    """Multi-hop attention over a sentence, its average asking first."""
    rows = numbered("hops", "hops", "hop", count)
    return read_by(lambda t: Asked(module=make(t), d=t.d, queries=rows), score=ADDITIVE, multiplicity="multi-hop")


def mixing(s: Scale) -> MultiHop:
    """Two hops with the context found beside the query."""
    return MultiHop(
        hops=[additive(s, contexts=1) for _ in range(2)],
        transform=MixContext(d_q=s.d, d_v=s.d),
        context_in_query=True,
        average_first=True,
    )


def self_attention(s: Scale, attention: nn.Module, *, maps: bool) -> SelfAttention:
    """Self-attention with residual; maps: whether it projects (multi-head attention does so itself)."""
    size = s.d if maps else None
    return SelfAttention(attention=attention, d_f=s.d, d_q=size, d_k=size, d_v=size, residual=True)


def token_to_token(s: Scale) -> SelfAttention:
    """Self-attention by scaled dot products."""
    return self_attention(s, Attention(score=ScaledDot()), maps=True)


def every_token() -> ServedForm:
    """Every token asks, by scaled dot products."""
    return read_by(lambda t: SelfAttending(module=token_to_token(t), d=t.d), score=SCALED)


def capsules(texts: Texts) -> Reader:
    """A capsule a class, by dot products as in the paper."""
    return Capsular(module=capsule(texts), texts=texts)


def judging(s: Scale) -> RationaleAttention:
    """A classifier of reasons for each class."""
    return RationaleAttention(d_k=s.d, classes=s.classes)


def capsule(s: Scale) -> CapsuleAttention:
    """Its module."""
    return CapsuleAttention(attention=Attention(score=Dot()), classes=s.classes, d_q=s.d, d_v=s.d)


def label_wise(texts: Texts) -> Reader:
    """A query a class."""
    return Labelled(module=asking_by_label(texts), texts=texts)


def asking_by_label(s: Scale) -> LabelWise:
    """Its module."""
    return LabelWise(attention=additive(s), labels=s.classes, d_q=s.d)


def pooled(make: Callable[[Scale], SelfAttentivePool]) -> Callable[[Texts], Reader]:
    """One question for every sentence."""
    return lambda t: SelfPooled(module=make(t), d=t.d)


def meta(*, contextualised: bool) -> ServedForm:
    """Dynamic meta-embeddings; contextualised ones are judged by two numbers of their surroundings."""

    def built(title: str, texts: Texts) -> Built:
        d = 2 if contextualised else texts.d
        pool = SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=d, d_w=texts.d)))
        row = taxonomy(score="self-attentive", representations="multi-representational", query="self-attentive")
        model = MetaModel(texts, pool, contextualised=contextualised).eval()
        return model, sentences.card(texts, model.maps, title=title, taxonomy=row)

    return ServedForm(task="sentence", make=built)


VARIANTS: Mapping[str, ServedForm] = {  # no rows of their own: training signals, multi-head as Transformers have it
    **{f"multi-head, disagreement on {by}": disagreeing(by) for by in ("subspaces", "positions", "outputs")},
    "multi-head, token to token": read_by(
        lambda t: SelfAttending(module=self_attention(t, multi_head(t), maps=False), d=t.d),
        score=SCALED,
        multiplicity="multi-head",
    ),
}
