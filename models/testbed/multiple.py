"""Recipes of dimensionality, representations and queries in the sentence model (catalogue D, E1, F, H)."""

from collections.abc import Callable

from torch import nn

from limelight.v1 import attention_pb2
from models.attention import Attention, masks
from models.attention.dimensionality import DirectionalSelfAttention, FeatureWise, SourceToToken
from models.attention.dimensionality import TokenToToken as TokenToTokenScore
from models.attention.masks import Mask
from models.attention.queries.capsule import CapsuleAttention
from models.attention.queries.label_wise import LabelWise
from models.attention.queries.multi_head import MultiHead
from models.attention.queries.multi_hop import MultiHop
from models.attention.queries.pool import SelfAttentivePool
from models.attention.queries.self_attention import SelfAttention
from models.attention.queries.specialised import AverageQuery
from models.attention.queries.transforms import MixContext
from models.attention.score import Additive, Dot, ScaledDot, Score, SelfAttentive
from models.testbed import sentence as sentences
from models.testbed.basic import parts
from models.testbed.layout import Layout
from models.testbed.meta import LAYOUTS, MetaModel
from models.testbed.parts import ADDITIVE, SCALED
from models.testbed.queries import (
    Asked,
    AskedByAverage,
    Capsular,
    Disagreeing,
    Labelled,
    SelfAttending,
    SelfPooled,
    fixed,
    self_map,
)
from models.testbed.readers import Reader, TokenToToken
from models.testbed.recipe import Built, Recipe, attended, read_by, table
from models.testbed.taxonomy import taxonomy
from models.testbed.text import Texts

HEADS, HOPS = 4, 3
WIDE = 8  # size of a feature's own queries and keys in feature-wise scores
TRAINED = "self-attentive query, trained"


def additive(texts: Texts, *, contexts: int = 0) -> Attention:
    """Additive attention; `contexts`: how many contexts lie beside its query."""
    d = texts.d
    return Attention(score=Additive(d_q=(1 + contexts) * d, d_k=d, d_w=d))


def feature_wise(score: Callable[[], Score]) -> Callable[[Texts], Attention]:
    """Any score, one a feature."""
    return lambda t: Attention(score=FeatureWise(score=score(), d_q=t.d, d_k=t.d, d_p=WIDE, d_v=t.d))


def directional(direction: Mask) -> Callable[[Texts], Reader]:
    """One direction of DiSAN."""
    return lambda t: SelfAttending(
        module=DirectionalSelfAttention(d_f=t.d, d=t.d, direction=direction), layout=self_map(features=t.d)
    )


def multi_head(texts: Texts) -> MultiHead:
    """Four heads of scaled dot products."""
    return MultiHead(attention=Attention(score=ScaledDot()), d_model=texts.d, heads=HEADS)


def disagreeing(by: str) -> Recipe:
    """Multi-head attention, trained to disagree; not a row of its own, but of training signals (H8)."""
    return read_by(
        f"multi-head, disagreement on {by}",
        lambda t: Disagreeing(module=multi_head(t), d=t.d, layout=Layout(heads=HEADS), by=by),
        score=SCALED,
        multiplicity="multi-head",
    )


def hops(name: str, make: Callable[[Texts], MultiHop], count: int) -> Recipe:
    """Multi-hop attention over a sentence, its average asking first."""
    layout = fixed(tuple(f"hop {n + 1}" for n in range(count)), attention_pb2.LABEL_KIND_HOPS, name="hops")
    return read_by(
        name, lambda t: Asked(module=make(t), d=t.d, layout=layout), score=ADDITIVE, multiplicity="multi-hop"
    )


def mixing(texts: Texts) -> MultiHop:
    """Two hops with the context found beside the query."""
    return MultiHop(
        hops=[additive(texts, contexts=1) for _ in range(2)],
        transform=MixContext(d_q=texts.d, d_v=texts.d),
        context_in_query=True,
        average_first=True,
    )


def self_attention(texts: Texts, attention: nn.Module, *, maps: bool) -> SelfAttention:
    """Self-attention with residual; maps: whether it projects (multi-head attention does so itself)."""
    size = texts.d if maps else None
    return SelfAttention(attention=attention, d_f=texts.d, d_q=size, d_k=size, d_v=size, residual=True)


def by_class(texts: Texts) -> Layout:
    """A map with a query a class."""
    return fixed(texts.labels, attention_pb2.LABEL_KIND_CLASSES, name="classes")


def capsules(texts: Texts) -> Reader:
    """A capsule a class, by dot products as in the paper."""
    module = CapsuleAttention(attention=Attention(score=Dot()), classes=len(texts.labels), d_q=texts.d, d_v=texts.d)
    return Capsular(module=module, layout=by_class(texts))


def label_wise(texts: Texts) -> Reader:
    """A query a class."""
    module = LabelWise(attention=additive(texts), labels=len(texts.labels), d_q=texts.d)
    return Labelled(module=module, texts=texts, layout=by_class(texts))


def pooled(make: Callable[[Texts], SelfAttentivePool]) -> Callable[[Texts], Reader]:
    """One question for every sentence."""
    return lambda t: SelfPooled(module=make(t), layout=Layout())


def meta(name: str, *, contextualised: bool) -> Recipe:
    """Dynamic meta-embeddings; contextualised ones are judged by two numbers of their surroundings."""

    def built(texts: Texts) -> Built:
        d = 2 if contextualised else texts.d
        pool = SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=d, d_w=texts.d)))
        row = taxonomy(score="self-attentive", representations="multi-representational", query="self-attentive")
        model = MetaModel(texts, pool, contextualised=contextualised).eval()
        return model, sentences.card(texts, LAYOUTS, title=name, taxonomy=row)

    return Recipe(task="sentence", name=name, make=built)


MULTIPLE = table(
    parts("single-dimensional", SCALED),
    attended(
        "feature-wise additive",
        feature_wise(lambda: Additive(d_q=WIDE, d_k=WIDE, d_w=WIDE)),
        score=ADDITIVE,
    ),
    attended("feature-wise scaled dot", feature_wise(ScaledDot), score=SCALED),
    attended(
        "token2token",
        lambda t: Attention(score=TokenToTokenScore(d_q=t.d, d_k=t.d, d_v=t.d)),
        score=ADDITIVE,
        form=TokenToToken,
    ),
    attended("source2token", lambda t: Attention(score=SourceToToken(d_k=t.d, d_w=t.d, d_v=t.d)), score=ADDITIVE),
    read_by("directional self-attention, forward", directional(masks.forward), score=ADDITIVE),
    read_by("directional self-attention, backward", directional(masks.backward), score=ADDITIVE),
    parts("single-level", "general"),
    parts("single-representational", ADDITIVE),
    meta("dynamic meta-embeddings", contextualised=False),
    meta("contextualised meta-embeddings", contextualised=True),
    read_by(
        "basic query",
        lambda t: Asked(module=Attention(score=Dot()), d=t.d, layout=Layout(), last=True),
        score="multiplicative (dot)",
    ),
    read_by(
        "specialised query, average",
        lambda t: AskedByAverage(module=AverageQuery(attention=additive(t)), layout=Layout()),
        score=ADDITIVE,
    ),
    read_by(
        "self-attentive query, left out",
        pooled(lambda t: SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=t.d, d_w=t.d)))),
        score="self-attentive",
    ),
    read_by(
        TRAINED,
        pooled(lambda t: SelfAttentivePool(attention=Attention(score=Dot()), d_q=t.d)),
        score="multiplicative (dot)",
    ),
    read_by(
        "self-attentive query, token to token",
        lambda t: SelfAttending(module=self_attention(t, Attention(score=ScaledDot()), maps=True), layout=self_map()),
        score=SCALED,
    ),
    read_by(
        "multi-head",
        lambda t: Asked(module=multi_head(t), d=t.d, layout=Layout(heads=HEADS)),
        score=SCALED,
        multiplicity="multi-head",
    ),
    hops("multi-hop, shared weights", lambda t: MultiHop(hops=[additive(t)] * HOPS), HOPS),
    hops("multi-hop, context in the query", mixing, 2),
    read_by("capsule-based", capsules, score="multiplicative (dot)", multiplicity="capsule"),
    read_by("label-wise", label_wise, score=ADDITIVE, multiplicity="label-wise"),
)

EXTRA = table(  # beside the registry's rows: training signals, and multi-head as Transformers have it
    *(disagreeing(by) for by in ("subspaces", "positions", "outputs")),
    read_by(
        "multi-head, token to token",
        lambda t: SelfAttending(module=self_attention(t, multi_head(t), maps=False), layout=self_map(heads=HEADS)),
        score=SCALED,
        multiplicity="multi-head",
    ),
)
