"""Any score with any alignment; what cannot be combined, or does not fit, says so and why."""

import numpy as np
import pytest
import torch

from limelight_models.attention import Attention, CombinationError, Context, MissingContextError, ShapeError
from limelight_models.attention.align import (
    DistanceAware,
    GaussianGrid,
    KernelRatio,
    LocalPredictive,
    SelfAdaptiveTemperature,
)
from limelight_models.attention.queries.learned import LearnedQuery
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import (
    Additive,
    Concat,
    Deep,
    Dot,
    GaussianKernel,
    ImportanceMatrix,
    LocationAware,
    LocationBased,
    MultiDimensional,
    NegativeDistance,
    OuterProduct,
    SelfAttentive,
)
from limelight_models.catalogue.mechanism import FEATURES as D
from limelight_models.catalogue.mechanism import Mechanism, Sizes, attention_inputs, call_attention
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import check_masked_keys_get_nothing, check_normalised

SCORES = [m for m in MECHANISMS if m.column == "score"]
ALIGNS = [m for m in MECHANISMS if m.column == "align" and m.make_inputs is None]
PER_HEAD = ("adaptive span", "α-entmax", "hard monotonic", "monotonic chunkwise")  # parameters of two heads


def part(mechanism: Mechanism, name: str) -> object:
    return getattr(mechanism.build(), name)


@pytest.mark.parametrize("align", ALIGNS, ids=lambda m: m.name)
def test_any_score_goes_with_any_alignment(align: Mechanism) -> None:
    for score in SCORES:
        s, a = part(score, "score"), part(align, "align")
        if (a.needs_kernel and not s.kernel) or (s.multidimensional and not a.uses_scores):
            with pytest.raises(CombinationError, match=type(a).__name__):
                Attention(score=s, align=a)
            continue
        if align.name in PER_HEAD and s.makes_heads:
            continue  # parameters of two heads beside three outputs
        fields = {*score.context_fields, *align.context_fields}
        inputs = attention_inputs(Sizes(2, 3, 5), torch.Generator(), fields=tuple(fields), heads=score.heads)
        attention = Attention(score=s, align=a).eval()
        context, weights = call_attention(attention, inputs)
        queries = 9 if a.makes_queries else 3
        heads = 3 if s.makes_heads else score.heads
        assert weights.shape == (2, heads, queries, 5, *([D] if s.multidimensional else []))
        assert context.shape == (2, heads, queries, D)
        summed = np.einsum(
            "bhqkf,bhkf->bhqf" if s.multidimensional else "bhqk,bhkf->bhqf",
            weights.detach().numpy(), np.broadcast_to(inputs["value"].numpy(), (2, heads, 5, D)),
        )  # fmt: skip
        np.testing.assert_allclose(context.detach().numpy(), summed, atol=1e-5)
        check_masked_keys_get_nothing(weights, inputs["mask"])
        if attention.normalised and not attention.signed:
            check_normalised(weights)
        alone = call_attention(attention, {name: tensor[1:] for name, tensor in inputs.items()})
        torch.testing.assert_close(alone[1], weights[1:], atol=1e-5, rtol=1e-4)


def test_query_free_attention_needs_no_query() -> None:
    key = torch.randn(2, 1, 5, D)
    context, weights = Attention(score=SelfAttentive(d_k=D, d_w=4))(None, key)
    assert weights.shape == (2, 1, 1, 5)
    assert context.shape == (2, 1, 1, D)
    context, weights = Attention(score=ImportanceMatrix(d_k=D, d_w=4, outputs=3))(None, key)
    assert weights.shape == (2, 3, 1, 5)
    learned = LearnedQuery(d_q=D, count=2)(key)
    assert Attention(score=Dot())(learned, key)[1].shape == (2, 1, 2, 5)


@pytest.mark.parametrize(
    "make",
    [
        lambda chunk: Additive(d_q=D, d_k=D, d_w=4, chunk=chunk),
        lambda chunk: Concat(d_q=D, d_k=D, d_w=4, chunk=chunk),
        lambda chunk: Deep(d_q=D, d_k=D, d_w=4, chunk=chunk),
        lambda chunk: MultiDimensional(d_q=D, d_k=D, d_w=4, d_v=D, chunk=chunk),
        lambda chunk: NegativeDistance(chunk=chunk),
        lambda chunk: GaussianKernel(chunk=chunk),
    ],
)
def test_chunks_change_nothing(make: object) -> None:
    whole, chunked = make(None), make(2)
    chunked.load_state_dict(whole.state_dict())
    query, key = torch.randn(2, 1, 5, D), torch.randn(2, 1, 7, D)
    torch.testing.assert_close(chunked(query, key, Context()), whole(query, key, Context()))


def test_what_cannot_be_combined_says_why() -> None:
    with pytest.raises(CombinationError, match="kernel"):
        Attention(score=Dot(), align=KernelRatio())
    with pytest.raises(CombinationError, match="without the scores"):
        Attention(score=MultiDimensional(d_q=D, d_k=D, d_w=4, d_v=D), align=GaussianGrid(d_q=D, filters=2))
    with pytest.raises(CombinationError, match="one weight per feature"):
        Attention(score=Dot(), combine=OuterProduct())
    with pytest.raises(CombinationError, match="head"):
        MultiHead(attention=Attention(score=ImportanceMatrix(d_k=D, d_w=4, outputs=3)), d_model=D, heads=2)
    with pytest.raises(ShapeError, match=r"d_q = 6.*d_q = 5"):
        Attention(score=Additive(d_q=6, d_k=6, d_w=4), align=SelfAdaptiveTemperature(d_q=5))
    with pytest.raises(ShapeError, match="7 cannot be divided into 2 heads"):
        MultiHead(attention=Attention(score=Dot()), d_model=7, heads=2)
    with pytest.raises(ShapeError, match="odd"):
        LocationAware(d_q=D, d_k=D, d_w=4, width=4)


def test_what_does_not_fit_says_what_and_where() -> None:
    query, key = torch.randn(2, 1, 3, 6), torch.randn(2, 1, 5, 6)
    additive = Attention(score=Additive(d_q=6, d_k=4, d_w=3))
    with pytest.raises(ShapeError, match="key has 6 features; Additive was built for 4"):
        additive(query, key)
    with pytest.raises(ShapeError, match="query has 6 features, key 5"):
        Attention(score=Dot())(query, key[..., :5])
    with pytest.raises(ShapeError, match=r"query must be \[batch, head, query, d_q\]; it has 3 axes"):
        Attention(score=Dot())(query[:, 0], key)
    with pytest.raises(ShapeError, match="boolean"):
        Attention(score=Dot())(query, key, mask=torch.ones(2, 1, 3, 5))
    with pytest.raises(ShapeError, match="key has 5 positions, value has 4"):
        Attention(score=Dot())(query, key, key[:, :, :4])
    with pytest.raises(ShapeError, match="needs a query"):
        Attention(score=Dot())(None, key)
    with pytest.raises(ShapeError, match="there is none"):
        Attention(score=SelfAttentive(d_k=6, d_w=3), align=LocalPredictive(d_q=6, d_p=3, radius=2))(None, key)
    with pytest.raises(ShapeError, match="at most 4 keys; there are 5"):
        Attention(score=LocationBased(d_q=6, max_keys=4))(query, key)
    with pytest.raises(MissingContextError, match="DistanceAware needs Context"):
        Attention(score=Dot(), align=DistanceAware(radius=2))(query, key)
