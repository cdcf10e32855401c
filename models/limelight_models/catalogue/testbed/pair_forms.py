"""Forms of the pair model: co-attention (catalogue G), and what reads a question again (H5)."""

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.features import (
    Aggregate,
    Alternating,
    ConcatProduct,
    Decomposable,
    Interactive,
    LinearTransformation,
    MultiGrained,
    NestedPerceptron,
    Parallel,
    Perceptron,
    Pooling,
    TanhBilinear,
)
from limelight_models.attention.flat import average
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.queries.question_hop import QuestionHops
from limelight_models.attention.score import ActivatedGeneral, Additive, General, Score, SelfAttentive
from limelight_models.cards.labels import LabelSet, numbered
from limelight_models.catalogue.testbed import pair
from limelight_models.catalogue.testbed.form import Built, ServedForm
from limelight_models.catalogue.testbed.pair import (
    AFFINITY,
    FIRST,
    ROW_OF_FIRST,
    ROW_OF_SECOND,
    SECOND,
    Axes,
    PairModel,
    Read,
    maps_of,
)
from limelight_models.catalogue.testbed.taxonomy import taxonomy
from limelight_models.catalogue.testbed.text import Scale, Texts

COARSE = {"first": ROW_OF_FIRST, "second": ROW_OF_SECOND}
FINE = {**COARSE, "affinity": AFFINITY}
CO = "parallel co-attention"


def co(
    make: Callable[[Scale], nn.Module],
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


def additive(s: Scale, *, cons: int = 0) -> Attention:
    """Additive attention; `cons`: how many cons lie beside its query."""
    return Attention(score=Additive(d_q=(1 + cons) * s.d, d_k=s.d, d_w=s.d_w))


def interactive(score: Callable[[Scale], Score]) -> Callable[[Scale], Interactive]:
    """Interactive co-attention by any score."""
    return lambda t: Interactive(over_first=Attention(score=score(t)), over_second=Attention(score=score(t)))


def parallel(score: Callable[[Scale], Score], aggregate: Callable[[Scale], Aggregate]) -> Callable[[Scale], Parallel]:
    """Parallel co-attention by any affinity and aggregation."""
    return lambda t: Parallel(attention=Attention(score=score(t)), aggregate=aggregate(t))


def bilinear(s: Scale) -> Score:
    return TanhBilinear(d_q=s.d, d_k=s.d)


def general(s: Scale) -> Score:
    return General(d_q=s.d, d_k=s.d)


def activated(s: Scale) -> Score:
    return ActivatedGeneral(d_q=s.d, d_k=s.d)


def concat_product(s: Scale) -> Score:
    return ConcatProduct(d=s.d)


def perceptron(s: Scale) -> Aggregate:
    return Perceptron(d_first=s.d, d_second=s.d, d_w=s.d_w)


def pooling(s: Scale) -> Aggregate:
    return Pooling()


def linear(s: Scale) -> Aggregate:
    return LinearTransformation(max_first=s.max_tokens, max_second=s.max_tokens)


def multi_grained(s: Scale) -> MultiGrained:
    return MultiGrained(coarse=interactive(general)(s), fine=parallel(concat_product, pooling)(s))


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


def question_hops(s: Scale, *, asks: str) -> QuestionHops:
    """Two hops, with shared weights."""
    over_question = additive(s, cons=1 if asks == "both" else 0)
    return QuestionHops(steps=[(over_question, additive(s, cons=1))] * 2, asks=asks)


def hop_rows(keys: LabelSet) -> Axes:
    """A row a hop over one of the sentences."""
    return Axes(numbered("hops", "hops", "hop", 2), keys)


def alternating(s: Scale) -> Alternating:
    return Alternating(over_first=additive(s), over_second=additive(s), d_query=s.d)


def alternating_from_itself(s: Scale) -> Alternating:
    """The first sentence begins with an attention of its own, which asks nothing (BF eq. 7)."""
    start = SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=s.d, d_w=s.d_w)))
    return Alternating(over_first=additive(s), over_second=additive(s), d_query=s.d, start=start)


def decomposable(s: Scale) -> Score:
    return Decomposable(d_q=s.d, d_k=s.d, d_w=s.d_w)


def nested(s: Scale) -> Aggregate:
    return NestedPerceptron(d_first=s.d, d_second=s.d, d_w=s.d_w)


def fine(score: Callable[[Scale], Score], aggregate: Callable[[Scale], Aggregate], named: str) -> ServedForm:
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
