"""Forms of the document model: levels (catalogue E3)."""

from collections.abc import Callable

from limelight_models.attention import Attention
from limelight_models.attention.align import Align
from limelight_models.attention.levels import Hierarchical
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.score import Score, SelfAttentive
from limelight_models.catalogue.testbed import document as documents
from limelight_models.catalogue.testbed.document import DocumentModel, FlatModel, HierarchicalModel, SentenceEncoder
from limelight_models.catalogue.testbed.form import Built, ServedForm
from limelight_models.catalogue.testbed.taxonomy import SOFT, taxonomy
from limelight_models.catalogue.testbed.text import Scale, Texts


def pool(s: Scale, *, score: Score | None = None, align: Align | None = None) -> SelfAttentivePool:
    """Self-attentive pooling; a trained query for a score that reads one."""
    score = score or SelfAttentive(d_k=s.d, d_w=s.d_w)
    attention = Attention(score=score, align=align)
    return SelfAttentivePool(attention=attention, d_q=None if score.query_free else s.d)


def document(
    make: Callable[[Texts], DocumentModel], *, levels: str, score: str = "self-attentive", align: str = SOFT
) -> ServedForm:
    """A model of documents."""

    def built(title: str, texts: Texts) -> Built:
        model = make(texts).eval()
        row = taxonomy(score=score, align=align, levels=levels, query="self-attentive")
        return model, documents.card(texts, model.maps, title=title, taxonomy=row)

    return ServedForm(task="document", make=built)


def hierarchical(
    word: Callable[[Texts], SelfAttentivePool],
    sentence: Callable[[Texts], SelfAttentivePool],
    *,
    score: str = "self-attentive",
    align: str = SOFT,
    read_in_order: bool = False,
) -> ServedForm:
    """Words make sentences, sentences make the document, each level by its own attention.

    read_in_order: whether sentences are encoded with their neighbours before they are weighed.
    """

    def levels(texts: Texts) -> Hierarchical:
        encode = SentenceEncoder(d=texts.d) if read_in_order else None
        return Hierarchical(word=word(texts), sentence=sentence(texts), encode=encode)

    return document(lambda t: HierarchicalModel(t, levels(t)), levels="hierarchical", score=score, align=align)


def flat(texts: Texts, *, score: Score | None = None) -> DocumentModel:
    """One level: the whole document as one sequence."""
    return FlatModel(texts, pool(texts, score=score))
