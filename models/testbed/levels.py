"""Recipes of levels (catalogue E2 to E4), and the documents' ablations."""

from collections.abc import Callable

from models.attention import Attention
from models.attention.align import Align
from models.attention.levels import AttentionViaAttention, Hierarchical, TargetObject
from models.attention.queries.pool import SelfAttentivePool
from models.attention.score import Additive, General, Score, SelfAttentive
from models.testbed import aspect
from models.testbed import document as documents
from models.testbed.aspect import TargetObjectModel
from models.testbed.document import DocumentModel, FlatModel, HierarchicalModel, ViaModel
from models.testbed.layout import Layout
from models.testbed.parts import SOFT
from models.testbed.recipe import Built, Recipe, table
from models.testbed.taxonomy import taxonomy
from models.testbed.text import Texts

TARGET_OBJECT = {
    "target": Layout(queries="target as one", keys="target"),
    "text.left": Layout(queries="target as one", keys="left", normalised=False),
    "text.target": Layout(queries="target as one", keys="target", normalised=False),
    "text.right": Layout(queries="target as one", keys="right", normalised=False),
}


def pool(texts: Texts, *, score: Score | None = None, align: Align | None = None) -> SelfAttentivePool:
    """Self-attentive pooling; a trained query for a score that reads one."""
    score = score or SelfAttentive(d_k=texts.d, d_w=texts.d)
    attention = Attention(score=score, align=align)
    return SelfAttentivePool(attention=attention, d_q=None if score.query_free else texts.d)


def document(
    name: str,
    make: Callable[[Texts], DocumentModel],
    *,
    levels: str,
    score: str = "self-attentive",
    align: str = SOFT,
) -> Recipe:
    """A model of documents."""

    def built(texts: Texts) -> Built:
        model = make(texts).eval()
        row = taxonomy(score=score, align=align, levels=levels, query="self-attentive")
        return model, documents.card(texts, model.layouts, title=name, taxonomy=row)

    return Recipe(task="document", name=name, make=built)


def hierarchical(
    name: str,
    word: Callable[[Texts], SelfAttentivePool],
    sentence: Callable[[Texts], SelfAttentivePool],
    *,
    score: str = "self-attentive",
    align: str = SOFT,
) -> Recipe:
    """Words make sentences, sentences make the document, each level by its own attention."""
    return document(
        name,
        lambda t: HierarchicalModel(t, Hierarchical(word=word(t), sentence=sentence(t))),
        levels="hierarchical",
        score=score,
        align=align,
    )


def via(texts: Texts) -> DocumentModel:
    """Sentences say which words count."""
    words = Attention(score=Additive(d_q=texts.d, d_k=texts.d, d_w=texts.d))
    characters = Attention(score=Additive(d_q=2 * texts.d, d_k=texts.d, d_w=texts.d))
    return ViaModel(texts, AttentionViaAttention(over_words=words, over_characters=characters))


def flat(texts: Texts, *, score: Score | None = None) -> DocumentModel:
    """One level: the whole document as one sequence."""
    return FlatModel(texts, pool(texts, score=score))


def target_object(texts: Texts, *, score: Score | None = None) -> Built:
    """What the target says is the question to the sentence."""
    name = "target-object hierarchy"
    over_text = Attention(score=score or General(d_q=texts.d, d_k=texts.d))
    model = TargetObjectModel(texts, TARGET_OBJECT, TargetObject(over_target=pool(texts), over_text=over_text))
    row = taxonomy(score="general", levels="target-object hierarchy")
    return model.eval(), aspect.card(texts, TARGET_OBJECT, title=name, taxonomy=row)


LEVELS = table(
    document("attention-via-attention", via, levels="attention-via-attention", score="additive"),
    hierarchical("hierarchical", pool, pool),
    Recipe(task="aspect", name="target-object hierarchy", make=target_object),
)
