"""Forms of the pair model: co-attention (catalogue G), and what reads a question again (H5)."""

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from models.attention import Attention
from models.attention.features import (
    Aggregate,
    Alternating,
    ConcatProduct,
    Decomposable,
    Hermitian,
    Interactive,
    LinearTransformation,
    MultiGrained,
    NestedPerceptron,
    Parallel,
    Perceptron,
    Pooling,
    TanhBilinear,
)
from models.attention.queries.pool import SelfAttentivePool
from models.attention.queries.question_hop import QuestionHops
from models.attention.queries.specialised import average
from models.attention.score import ActivatedGeneral, Additive, General, Score, SelfAttentive
from models.cards.labels import LabelSet, numbered
from models.testbed import pair
from models.testbed.form import Built, ServedForm
from models.testbed.pair import AFFINITY, FIRST, ROW_OF_FIRST, ROW_OF_SECOND, SECOND, Axes, PairModel, Read, maps_of
from models.testbed.taxonomy import taxonomy
from models.testbed.text import Texts

COARSE = {"first": ROW_OF_FIRST, "second": ROW_OF_SECOND}
FINE = {**COARSE, "affinity": AFFINITY}
CO = "parallel co-attention"


def co(
    make: Callable[[Texts], nn.Module],
    axes: Mapping[str, Axes],
    *,
    score: str,
    read: Read | None = None,
    pairs: int = 1,
    multiplicity: str = "singular",
) -> ServedForm:
    """A form of co-attention over two sentences."""

    def built(title: str, texts: Texts) -> Built:
        row = taxonomy(score=score, features=CO, multiplicity=multiplicity)
        module = make(texts)
        maps = maps_of(module, axes, texts)
        model = PairModel(texts, module, maps, read=read, pairs=pairs).eval()
        return model, pair.card(texts, maps, title=title, taxonomy=row)

    return ServedForm(task="pair", make=built)


def additive(texts: Texts, *, contexts: int = 0) -> Attention:
    """Additive attention; `contexts`: how many contexts lie beside its query."""
    return Attention(score=Additive(d_q=(1 + contexts) * texts.d, d_k=texts.d, d_w=texts.d))


def interactive(score: Callable[[Texts], Score]) -> Callable[[Texts], Interactive]:
    """Interactive co-attention by any score."""
    return lambda t: Interactive(over_first=Attention(score=score(t)), over_second=Attention(score=score(t)))


def parallel(score: Callable[[Texts], Score], aggregate: Callable[[Texts], Aggregate]) -> Callable[[Texts], Parallel]:
    """Parallel co-attention by any affinity and aggregation."""
    return lambda t: Parallel(attention=Attention(score=score(t)), aggregate=aggregate(t))


def bilinear(texts: Texts) -> Score:
    return TanhBilinear(d_q=texts.d, d_k=texts.d)


def general(texts: Texts) -> Score:
    return General(d_q=texts.d, d_k=texts.d)


def activated(texts: Texts) -> Score:
    return ActivatedGeneral(d_q=texts.d, d_k=texts.d)


def concat_product(texts: Texts) -> Score:
    return ConcatProduct(d=texts.d)


def perceptron(texts: Texts) -> Aggregate:
    return Perceptron(d_first=texts.d, d_second=texts.d, d_w=texts.d)


def pooling(texts: Texts) -> Aggregate:
    return Pooling()


def linear(texts: Texts) -> Aggregate:
    return LinearTransformation(max_first=texts.max_tokens, max_second=texts.max_tokens)


def multi_grained(texts: Texts) -> MultiGrained:
    return MultiGrained(coarse=interactive(general)(texts), fine=parallel(concat_product, pooling)(texts))


def read_grains(
    module: nn.Module, first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor
) -> tuple[tuple[Tensor, ...], tuple]:
    """Coarse and fine vectors of both sentences, which lie side by side in one."""
    vector, weights = module(first, second, first_mask, second_mask)
    return vector.chunk(4, -1), weights


def read_question(
    module: nn.Module, first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor
) -> tuple[tuple[Tensor, ...], tuple]:
    """The second sentence is the question, the first what is asked; the question's vector is its average."""
    vector, weights = module(second, first, second_mask, first_mask)
    return (vector, average(second, second_mask).squeeze(1)), weights


def question_hops(texts: Texts, *, asks: str) -> QuestionHops:
    """Two hops, with shared weights."""
    over_question = additive(texts, contexts=1 if asks == "both" else 0)
    return QuestionHops(steps=[(over_question, additive(texts, contexts=1))] * 2, asks=asks)


def hop_rows(keys: LabelSet) -> Axes:
    """A row a hop over one of the sentences."""
    return Axes(numbered("hops", "hops", "hop", 2), keys)


def alternating(texts: Texts) -> Alternating:
    return Alternating(over_first=additive(texts), over_second=additive(texts), d_query=texts.d)


def alternating_from_itself(texts: Texts) -> Alternating:
    """The first sentence begins with an attention of its own, which asks nothing (BF eq. 7)."""
    start = SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=texts.d, d_w=texts.d)))
    return Alternating(over_first=additive(texts), over_second=additive(texts), d_query=texts.d, start=start)


def hermitian(texts: Texts) -> Score:
    return Hermitian(d_q=texts.d, d_k=texts.d, d_c=texts.d)


def decomposable(texts: Texts) -> Score:
    return Decomposable(d_q=texts.d, d_k=texts.d, d_w=texts.d)


def nested(texts: Texts) -> Aggregate:
    return NestedPerceptron(d_first=texts.d, d_second=texts.d, d_w=texts.d)


def fine(score: Callable[[Texts], Score], aggregate: Callable[[Texts], Aggregate], named: str) -> ServedForm:
    """A form of parallel co-attention."""
    return co(parallel(score, aggregate), FINE, score=named)


ALTERNATING = {"start": ROW_OF_FIRST, "second": ROW_OF_SECOND, "first": ROW_OF_FIRST}
GRAINS = {f"coarse.{name}": each for name, each in COARSE.items()} | {
    f"fine.{name}": each for name, each in FINE.items()
}


def reread(*, asks: str = "query") -> ServedForm:
    """The second sentence asks the first, and is read again; `asks`: with the last query, what was found, or both."""
    return co(
        lambda t: question_hops(t, asks=asks),
        {"question": hop_rows(SECOND), "key": hop_rows(FIRST)},
        score="additive",
        read=read_question,
        multiplicity="multi-hop",
    )
