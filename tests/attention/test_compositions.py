"""Every composition takes any score, any alignment, one or several dimensions and heads, or says why not."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, CombinationError, Context, ShapeError
from limelight_models.attention.align import (
    AdaptiveSpan,
    Entmax,
    GaussianGrid,
    Hard,
    HardMonotonic,
    LocalPredictive,
    MonotonicChunkwise,
)
from limelight_models.attention.combine import FusionGate
from limelight_models.attention.dimensionality import FeatureWise, SourceToToken, TokenToToken
from limelight_models.attention.features import (
    Alternating,
    AttentionOverAttention,
    ConcatProduct,
    Decomposable,
    Hermitian,
    Interactive,
    LinearTransformation,
    MultiGrained,
    NestedPerceptron,
    Parallel,
    Pooling,
    Rotation,
    Rotatory,
    TanhBilinear,
)
from limelight_models.attention.levels import AttentionViaAttention, Hierarchical, TargetObject
from limelight_models.attention.queries.capsule import CapsuleAttention
from limelight_models.attention.queries.label_wise import LabelWise
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.queries.multi_hop import MultiHop
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.queries.question_hop import QuestionHops
from limelight_models.attention.queries.self_attention import SelfAttention
from limelight_models.attention.queries.specialised import AverageQuery
from limelight_models.attention.representations import MetaEmbedding
from limelight_models.attention.score import (
    Additive,
    Concat,
    Deep,
    Dot,
    General,
    GeneralisedKernel,
    ImportanceMatrix,
    MultiDimensional,
    ScaledDot,
    Score,
    SelfAttentive,
)
from limelight_models.attention.signals import Fertility
from limelight_models.catalogue.examples import flat, pair_inputs, question_inputs
from limelight_models.catalogue.features import rotatory_inputs
from limelight_models.catalogue.levels import document_inputs, span_inputs, via_inputs
from limelight_models.catalogue.mechanism import FEATURES as D
from limelight_models.catalogue.mechanism import Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import check_normalised

SIZES = Sizes(3, 4, 5)
Make = Callable[[], nn.Module]
ANYTHING = Context(
    upper_bounds=torch.ones(1, 1, 1, 1), distances=torch.zeros(1, 1, 1, 1), noise=torch.full((1, 1, 1, 1), 0.4),
    query_noise=torch.full((1, 1, 1), 0.4), previous_context=torch.zeros(1, 1, 1, D),
)  # fmt: skip


@dataclass
class Composition:
    """A composition around an attention that takes queries and keys of size D, and its run."""

    build: Callable[[Make], nn.Module]
    run: Callable[[nn.Module, Context | None], tuple]


def named(context: Context | None, *names: str) -> dict[str, Context] | None:
    return None if context is None else dict.fromkeys(names, context)


@dataclass
class Seen:
    """Which instances of the inputs `given` hands out."""

    rows: slice = field(default_factory=lambda: slice(None))


SEEN = Seen()


def given(make: Callable[[Sizes, torch.Generator], dict[str, Tensor]]) -> list[Tensor]:
    return [tensor[SEEN.rows] for tensor in make(SIZES, torch.Generator().manual_seed(0)).values()]


def run_pair(*names: str) -> Callable[[nn.Module, Context | None], tuple]:
    return lambda m, c: m(*given(pair_inputs), contexts=named(c, *names))


def run_question(module: nn.Module, context: Context | None) -> tuple:
    question, _, features, mask = given(question_inputs)
    return module(question, features, None, mask[:, None, None], context)


def run_features(module: nn.Module, context: Context | None) -> tuple:
    *_, features, mask = given(question_inputs)
    return module(features, None, mask, context)


def run_self(module: nn.Module, context: Context | None) -> tuple:
    *_, features, mask = given(question_inputs)
    return module(features, mask[:, None, None], context)


def run_rotatory(module: nn.Module, context: Context | None) -> tuple:
    turn = named(context, "left", "right", "left_target", "right_target")
    return module(*given(rotatory_inputs), contexts=None if turn is None else [turn, turn])


def run_embeddings(module: nn.Module, context: Context | None) -> tuple:
    generator = torch.Generator().manual_seed(0)
    embeddings = [torch.randn(3, 4, size, generator=generator)[SEEN.rows] for size in (3, 5)]
    return module(embeddings, (torch.rand(3, 4, 2, generator=generator) > 0.3)[SEEN.rows], context)


def rotation(make: Make) -> Rotation:
    return Rotation(left=make(), right=make(), left_target=make(), right_target=make())


def pool(make: Make) -> SelfAttentivePool:
    return SelfAttentivePool(attention=make(), d_q=D)


COMPOSITIONS = {
    "alternating": Composition(
        lambda make: Alternating(over_first=make(), over_second=make(), d_query=D), run_pair("start", "second", "first")
    ),
    "alternating, own start": Composition(
        lambda make: Alternating(over_first=make(), over_second=make(), d_query=D, start=pool(make)),
        run_pair("start", "second", "first"),
    ),
    "interactive": Composition(
        lambda make: Interactive(over_first=make(), over_second=make()), run_pair("first", "second")
    ),
    "rotatory": Composition(lambda make: Rotatory(rotations=[rotation(make)] * 2), run_rotatory),
    "hierarchical": Composition(
        lambda make: Hierarchical(word=pool(make), sentence=pool(make)),
        lambda m, c: m(*given(document_inputs), contexts=named(c, "word")),
    ),
    "target object": Composition(
        lambda make: TargetObject(over_target=pool(make), over_text=make()),
        lambda m, c: m(*given(span_inputs), contexts=named(c, "target", "text")),
    ),
    "multi-hop": Composition(lambda make: MultiHop(hops=[make(), make()]), run_question),
    "label-wise": Composition(lambda make: LabelWise(attention=make(), labels=3, d_q=D), run_features),
    "capsules": Composition(lambda make: CapsuleAttention(attention=make(), classes=3, d_q=D, d_v=D), run_features),
    "pool": Composition(pool, run_features),
    "self-attention": Composition(lambda make: SelfAttention(attention=make(), d_f=D, residual=True), run_self),
    "average query": Composition(
        lambda make: AverageQuery(attention=make()), lambda m, c: m(*reordered(given(question_inputs)), c)
    ),
    "meta-embedding": Composition(lambda make: MetaEmbedding(pool=pool(make), sizes=(3, 5), d=D), run_embeddings),
}


def reordered(inputs: list[Tensor]) -> list[Tensor]:
    question, question_mask, features, mask = inputs
    return [question, features, question_mask, mask]


SCORES: dict[str, Callable[[], Score]] = {
    **{
        m.name: (lambda m=m: m.build().score)
        for m in MECHANISMS
        if m.column == "score" and not any(part in str(m.parameters) for part in ("heads", "outputs"))
    },
    "additive": lambda: Additive(d_q=D, d_k=D, d_w=4),
    "concat": lambda: Concat(d_q=D, d_k=D, d_w=4),
    "general": lambda: General(d_q=D, d_k=D),
    "deep": lambda: Deep(d_q=D, d_k=D, d_w=4),
    "self-attentive": lambda: SelfAttentive(d_k=D, d_w=4),
    "multi-dimensional": lambda: MultiDimensional(d_q=D, d_k=D, d_w=4, d_v=D),
    "feature-wise": lambda: FeatureWise(score=Dot(), d_q=D, d_k=D, d_p=2, d_v=D),
    "token2token": lambda: TokenToToken(d_q=D, d_k=D, d_v=D),
    "source2token": lambda: SourceToToken(d_k=D, d_w=4, d_v=D),
    "concat-product": lambda: ConcatProduct(d=D),
    "decomposable": lambda: Decomposable(d_q=D, d_k=D, d_w=4),
    "Hermitian": lambda: Hermitian(d_q=D, d_k=D, d_c=3),
    "tanh bilinear": lambda: TanhBilinear(d_q=D, d_k=D),
}
ALIGNS = {m.name: (lambda m=m: m.build().align) for m in MECHANISMS if m.column == "align"} | {
    "α-entmax": lambda: Entmax(alpha=1.3, learned=True),
    "adaptive span": lambda: AdaptiveSpan(max_span=4, ramp=2),
    "hard monotonic": lambda: HardMonotonic(),
    "monotonic chunkwise": lambda: MonotonicChunkwise(width=3, chunk=Dot()),
}
REFUSES_QUERY_FREE = ("label-wise", "capsules")
REFUSES_ROWS = ("multi-hop", "label-wise", "capsules", "self-attention")


def check(run: Callable[[], tuple], *, normalised: bool = True) -> tuple:
    """The instances get the same together as alone; weights are distributions where they are said to be."""
    together = run()
    for place in range(SIZES.batch):
        SEEN.rows = slice(place, place + 1)
        try:
            alone = run()
        finally:
            SEEN.rows = slice(None)
        for each, whole in zip(flat(alone), flat(together), strict=True):
            torch.testing.assert_close(each, whole[SEEN.rows][place : place + 1], atol=1e-5, rtol=1e-4)
    for weights in flat(together[1]):
        if normalised:
            check_normalised(weights)
    return together


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_takes_any_score(name: str) -> None:
    composition = COMPOSITIONS[name]
    for score in SCORES.values():
        make = lambda score=score: Attention(score=score())  # noqa: E731
        if score().query_free and name in REFUSES_QUERY_FREE:
            with pytest.raises(CombinationError, match="ignores the query"):
                composition.build(make)
            continue
        module = composition.build(make).eval()
        check(lambda module=module: composition.run(module, None))


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_takes_any_alignment(name: str) -> None:
    composition = COMPOSITIONS[name]
    for align in ALIGNS.values():
        score = (lambda: GeneralisedKernel()) if align().needs_kernel else (lambda: General(d_q=D, d_k=D))
        make = lambda score=score, align=align: Attention(score=score(), align=align())  # noqa: E731
        if align().makes_queries:
            if name in REFUSES_ROWS:
                with pytest.raises(CombinationError, match="several rows of weights a query"):
                    composition.build(make)
            continue  # rows of the grid lie side by side: the next attention would need another size
        if not align().context_fields or name in ("pool", "interactive", "multi-hop", "label-wise", "average query"):
            module = composition.build(make).eval()
            attention = make()
            plain = attention.normalised and not attention.signed
            check(lambda module=module: composition.run(module, ANYTHING), normalised=plain)


@pytest.mark.parametrize("name", COMPOSITIONS)
@pytest.mark.parametrize("score", [ScaledDot, lambda: Additive(d_q=3, d_k=3, d_w=4)], ids=["scaled dot", "additive"])
def test_takes_several_heads(name: str, score: Callable[[], Score]) -> None:
    composition = COMPOSITIONS[name]
    module = composition.build(lambda: MultiHead(attention=Attention(score=score()), d_model=D, heads=2)).eval()
    outputs = check(lambda: composition.run(module, None))
    assert all(weights.shape[1] == 2 for weights in flat(outputs[1]))


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(
    "aggregate",
    [Pooling, AttentionOverAttention, lambda: LinearTransformation(max_first=9, max_second=9), None],
    ids=["pooling", "attention over attention", "linear", "nested"],
)
def test_parallel_takes_any_score_alignment_and_heads(aggregate: Callable | None, heads: int) -> None:
    size = D // heads
    scores = [ScaledDot, Hermitian, TokenToToken, Decomposable, ConcatProduct]
    arguments = {
        Hermitian: {"d_q": size, "d_k": size, "d_c": 2},
        TokenToToken: {"d_q": size, "d_k": size, "d_v": size},
        Decomposable: {"d_q": size, "d_k": size, "d_w": 2},
        ConcatProduct: {"d": size},
    }
    run = run_pair("first", "second")
    for score in scores:
        for align in ALIGNS.values():
            if align().needs_query or align().needs_kernel or align().context_fields or not align().uses_scores:
                continue
            if heads == 1 and isinstance(align(), Entmax):
                continue
            made = NestedPerceptron(d_first=size, d_second=size, d_w=3) if aggregate is None else aggregate()
            attention = Attention(score=score(**arguments.get(score, {})), align=align())
            module = Parallel(attention=attention, aggregate=made, heads=heads).eval()
            contexts, weights = check(lambda module=module: run(module, None), normalised=False)
            if align().normalised and not align().signed and not isinstance(made, AttentionOverAttention):
                check_normalised(weights.first)
                check_normalised(weights.second)
            split = lambda name: given(pair_inputs)[0 if name == "first" else 1].unflatten(-1, (heads, size))  # noqa: E731
            for name in ("first", "second"):
                pattern = "bhqkf,bkhf->bhqf" if getattr(weights, name).dim() == 5 else "bhqk,bkhf->bhqf"
                summed = torch.einsum(pattern, getattr(weights, name), split(name))
                torch.testing.assert_close(getattr(contexts, name), summed.flatten(1), atol=1e-5, rtol=1e-4)
            assert contexts.first.shape == (3, D)
            assert weights.second.shape[:4] == (3, heads, 1, 5)


def test_importance_matrix_gives_its_context_vectors_side_by_side() -> None:
    attention = Attention(score=ImportanceMatrix(d_k=D, d_w=4, outputs=3))
    context, weights = SelfAttentivePool(attention=attention)(torch.randn(2, 5, D))
    assert context.shape == (2, 3 * D)
    assert weights.shape == (2, 3, 1, 5)


def test_hops_inside_levels() -> None:
    hops = [Attention(score=Dot())] * 2
    levels = Hierarchical(
        word=SelfAttentivePool(attention=MultiHop(hops=hops), d_q=D),
        sentence=SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=D, d_w=4))),
    )
    document, weights = levels(torch.randn(2, 3, 4, D))
    assert document.shape == (2, D)
    assert weights.word.shape == (2, 1, 3 * 2, 4)  # sentence by sentence, hop by hop


def test_via_attention_and_question_hops_take_any_alignment() -> None:
    for align in ALIGNS.values():
        if align().needs_kernel or align().needs_query or align().context_fields:
            continue
        make = lambda d_q, align=align: Attention(score=General(d_q=d_q, d_k=D), align=align())  # noqa: E731
        via = AttentionViaAttention(over_words=make(D), over_characters=make(2 * D)).eval()
        hops = QuestionHops(steps=[(make(D), make(2 * D))]).eval()
        plain = make(D).normalised and not make(D).signed
        check(lambda via=via: via(*given(via_inputs)), normalised=plain)
        check(lambda hops=hops: hops(*reordered(given(question_inputs))), normalised=plain)


def test_sampled_alignment_follows_its_noise_and_serving_repeats_itself() -> None:
    module = MultiHop(hops=[Attention(score=Dot(), align=Hard())] * 2).eval()
    assert torch.equal(run_question(module, None)[1], run_question(module, None)[1])
    draws = [[Context(noise=torch.rand(3, 1, 4, 5)) for _ in range(2)] for _ in range(6)]
    question, _, features, mask = given(question_inputs)
    maps = [module(question, features, None, mask[:, None, None], context)[1] for context in draws]
    assert any(not torch.equal(maps[0], other) for other in maps[1:])
    assert torch.equal(maps[0], module(question, features, None, mask[:, None, None], draws[0])[1])


REFUSALS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "labels without queries": (
        lambda: LabelWise(attention=Attention(score=SelfAttentive(d_k=D, d_w=4)), labels=3, d_q=D),
        CombinationError,
        "all labels would look alike",
    ),
    "pooling without a query": (lambda: SelfAttentivePool(attention=Attention(score=Dot())), ShapeError, "give d_q"),
    "an affinity of one input": (
        lambda: Parallel(attention=Attention(score=SelfAttentive(d_k=D, d_w=4)), aggregate=Pooling()),
        CombinationError,
        "no affinity of two inputs",
    ),
    "aggregated scores with a query": (
        lambda: Parallel(
            attention=Attention(score=Dot(), align=LocalPredictive(d_q=D, d_p=3, radius=2)), aggregate=Pooling()
        ),
        CombinationError,
        "belong to no query",
    ),
    "aggregated scores with a gate": (
        lambda: Parallel(attention=Attention(score=Dot(), combine=FusionGate(d=D)), aggregate=Pooling()),
        CombinationError,
        "have no query",
    ),
    "no fertility": (lambda: Fertility(d_k=2, most=0), ValueError, "must be positive"),
    "no hops": (lambda: MultiHop(hops=[]), CombinationError, "at least one hop"),
    "no steps": (lambda: QuestionHops(steps=[]), CombinationError, "at least one step"),
    "no rotations": (lambda: Rotatory(rotations=[]), CombinationError, "at least one rotation"),
    "context without a first one": (
        lambda: MultiHop(hops=[Attention(score=Dot())], context_in_query=True),
        CombinationError,
        "average_first",
    ),
    "several rows a hop": (
        lambda: MultiHop(hops=[Attention(score=Dot(), align=GaussianGrid(d_q=D, filters=2))]),
        CombinationError,
        "GaussianGrid gives several rows",
    ),
    "features of features": (
        lambda: FeatureWise(score=TokenToToken(d_q=2, d_k=2, d_v=D), d_q=D, d_k=D, d_p=2, d_v=D),
        CombinationError,
        "one score a feature already",
    ),
    "features of heads": (
        lambda: FeatureWise(score=ImportanceMatrix(d_k=2, d_w=3, outputs=2), d_k=D, d_p=2, d_v=D),
        CombinationError,
        "head of each of its outputs",
    ),
    "features without a query": (
        lambda: FeatureWise(score=Dot(), d_k=D, d_p=2, d_v=D),
        CombinationError,
        "give its size, d_q",
    ),
    "features of another size": (
        lambda: FeatureWise(score=General(d_q=3, d_k=3), d_q=D, d_k=D, d_p=2, d_v=D),
        ShapeError,
        "was built for 3",
    ),
    "a context for nobody": (
        lambda: Interactive(over_first=Attention(score=Dot()), over_second=Attention(score=Dot()))(
            *given(pair_inputs), contexts={"third": Context()}
        ),
        ValueError,
        "no attention named third",
    ),
    "a question of another size than its context": (
        lambda: MultiHop(hops=[Attention(score=General(d_q=3, d_k=D))] * 2)(torch.randn(1, 1, 3), torch.randn(1, 4, D)),
        ShapeError,
        "AddContext needs d_q = d_v",
    ),
    "embeddings of another size": (
        lambda: MetaEmbedding(pool=pool(lambda: Attention(score=Dot())), sizes=(3, 5), d=D)([torch.randn(1, 2, 3)] * 2),
        ShapeError,
        "built for",
    ),
    "longer than a linear transformation": (
        lambda: Parallel(attention=Attention(score=Dot()), aggregate=LinearTransformation(max_first=2, max_second=9))(
            *given(pair_inputs)
        ),
        ShapeError,
        "the first input has 4 positions",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_does_not_go_together_says_why(case: str) -> None:
    make, error, reason = REFUSALS[case]
    with pytest.raises(error, match=reason):
        make()


def test_shared_hops_have_the_parameters_of_one() -> None:
    one, own = (Additive(d_q=D, d_k=D, d_w=4) for _ in range(2))
    count = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
    shared = MultiHop(hops=[Attention(score=one)] * 3)
    assert count(shared) == count(one)
    assert count(MultiHop(hops=[Attention(score=one), Attention(score=own)])) == 2 * count(one)


def test_multi_grained_passes_contexts_on() -> None:
    hard = lambda: Attention(score=Dot(), align=Hard())  # noqa: E731
    module = MultiGrained(
        coarse=Interactive(over_first=hard(), over_second=hard()), fine=Parallel(attention=hard(), aggregate=Pooling())
    ).eval()
    first, second = torch.zeros(1, 3, D), torch.zeros(1, 4, D)  # all scores equal: the noise alone decides
    noise = torch.tensor([0.1, 0.2, 0.9, 0.3]).expand(1, 1, 1, 4)
    contexts = {"coarse": {"second": Context(noise=noise)}, "fine": {"second": Context(noise=noise)}}
    _, weights = module(first, second, contexts=contexts)
    assert weights.coarse.second.argmax() == weights.fine.second.argmax() == 2
