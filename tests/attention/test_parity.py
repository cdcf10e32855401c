"""Parity with implementations by others."""

import math

import entmax
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile
from torch_geometric.nn import GATv2Conv
from transformers import SpeechT5Config
from transformers.models.speecht5.modeling_speecht5 import SpeechT5Attention, SpeechT5RelativePositionalEncoding

from limelight_models.attention import Attention, Context, masks
from limelight_models.attention.align import (
    Align,
    ConstrainedSparsemax,
    Entmax,
    Entmax15,
    KernelRatio,
    KernelWeights,
    Softmax,
    Sparsemax,
)
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import (
    Additive,
    BiasedGeneral,
    Cosine,
    Dot,
    General,
    GeneralisedKernel,
    RandomFeatures,
    RelationAware,
    ScaledDot,
    Score,
)
from research.attention_cost import peak

SHAPES = [(3, 2, 4, 1), (2, 1, 3, 7), (1, 2, 2, 300)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_sparse_alignments_equal_the_entmax_package(shape: tuple[int, ...], scale: float) -> None:
    scores = (scale * torch.randn(shape)).double()
    pairs: list[tuple[nn.Module, Tensor]] = [
        (Sparsemax(), entmax.sparsemax(scores, -1)),
        (Entmax15(), entmax.entmax15(scores, -1)),
        *((Entmax(alpha=alpha), entmax.entmax_bisect(scores, alpha, -1)) for alpha in (1.05, 1.2, 1.5, 1.8, 2.0)),
    ]
    for align, expected in pairs:
        torch.testing.assert_close(align.double()(scores, None, Context()), expected, atol=1e-6, rtol=1e-5)


def test_gradients_of_sparse_alignments_equal_the_entmax_package() -> None:
    scores, direction = torch.randn(2, 1, 3, 8).double(), torch.randn(2, 1, 3, 8).double()
    alpha = torch.tensor(1.4).double()
    reference = {
        Sparsemax(): lambda s: entmax.sparsemax(s, -1),
        Entmax15(): lambda s: entmax.entmax15(s, -1),
        Entmax(alpha=1.4): lambda s: entmax.entmax_bisect(s, alpha, -1),
    }
    for align, function in reference.items():
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        (align.double()(ours, None, Context()) * direction).sum().backward()
        (function(theirs) * direction).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=1e-5)


def test_gradient_of_the_learned_alpha_equals_finite_differences() -> None:
    align = Entmax(alpha=1.4, learned=True).double()
    scores = torch.randn(1, 1, 2, 6).double().requires_grad_()
    weight = align.weight.detach().clone().requires_grad_()

    def weights(s: Tensor, w: Tensor) -> Tensor:
        return torch.func.functional_call(align, {"weight": w}, (s, None, Context()))

    assert torch.autograd.gradcheck(weights, (scores, weight), atol=1e-5)


@pytest.mark.parametrize("parameter", [-12.0, -6.0, -4.0, 0.0, 4.0, 12.0])
def test_a_learned_alpha_can_come_back_from_wherever_it_is(parameter: float) -> None:
    align = Entmax(learned=True)
    with torch.no_grad():
        align.weight.fill_(parameter)
    expected = max(1.01, 1 + 1 / (1 + math.exp(-parameter)))
    torch.testing.assert_close(align.alpha, torch.full((1, 1, 1), expected))
    align(torch.tensor([[[[0.0, -0.5, -1.0]]]]), None, Context())[..., 0].sum().backward()
    assert align.weight.grad is not None and align.weight.grad.item() > 0  # a larger α gives the best key more


def test_constrained_sparsemax_equals_the_entmax_package_where_bounds_are_one() -> None:
    scores = torch.randn(2, 1, 3, 8)
    context = Context(upper_bounds=torch.ones(2, 1, 3, 8))
    torch.testing.assert_close(ConstrainedSparsemax()(scores, None, context), entmax.sparsemax(scores, -1))


@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_equals_torch(masked: bool) -> None:
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, kdim=5, vdim=7)
    ours = MultiHead(attention=Attention(score=ScaledDot()), d_model=12, heads=3, d_key=5, d_value=7)
    q, k, v = theirs.in_proj_bias.data.normal_().chunk(3)
    for projection, weight, bias in (
        (ours.query_map, theirs.q_proj_weight, q),
        (ours.key_map, theirs.k_proj_weight, k),
        (ours.value_map, theirs.v_proj_weight, v),
    ):
        projection.weight.data, projection.bias.data = weight.data, bias
    ours.merge.load_state_dict(theirs.out_proj.state_dict())
    query, key, value = torch.randn(2, 4, 12), torch.randn(2, 6, 5), torch.randn(2, 6, 7)
    mask = masks.padding(torch.tensor([6, 3])).build(query=4, key=6) if masked else None
    hidden = None if mask is None else ~mask[:, 0, 0]
    expected = theirs(query, key, value, key_padding_mask=hidden, average_attn_weights=False)
    output, weights = ours(query, key, value, mask)
    torch.testing.assert_close(output, expected[0])
    torch.testing.assert_close(weights, expected[1])
    torch.testing.assert_close(ours.context_vectors(query, key, value, mask), output)


def test_one_head_equals_single_head_attention() -> None:
    attention = Attention(score=Additive(d_q=6, d_k=6, d_w=4))
    heads = MultiHead(attention=attention, d_model=6, heads=1)
    query, key = torch.randn(2, 3, 6), torch.randn(2, 5, 6)
    context, weights = attention(*(m(t).unsqueeze(1) for m, t in (
        (heads.query_map, query), (heads.key_map, key), (heads.value_map, key))))  # fmt: skip
    output, by_head = heads(query, key)
    torch.testing.assert_close(by_head, weights)
    torch.testing.assert_close(output, heads.merge(context.squeeze(1)))


@pytest.mark.parametrize(
    "score",
    [Dot(), ScaledDot(), Cosine(sharpness=2.0), General(d_q=6, d_k=6, heads=2), BiasedGeneral(d_q=6, d_k=6),
     GeneralisedKernel()],
    ids=lambda s: type(s).__name__,
)  # fmt: skip
def test_fused_attention_equals_attention_with_weights(score: Score) -> None:
    query, key, value = torch.randn(2, 2, 4, 6), torch.randn(2, 2, 5, 6), torch.randn(2, 2, 5, 3)
    mask = torch.rand(2, 1, 4, 5) > 0.4
    mask[0, :, 1] = False
    attention = Attention(score=score, align=Softmax())
    for m in (None, mask):
        expected = attention(query, key, value, m)[0]
        torch.testing.assert_close(attention.context_vectors(query, key, value, m), expected)
        dot = score.as_dot(query, key)
        assert dot is not None
        if m is None:
            fused = scaled_dot_product_attention(dot[0], dot[1], value, scale=dot[2])
            torch.testing.assert_close(fused, expected)


def test_additive_over_a_graph_equals_gatv2() -> None:
    heads, size, nodes = 2, 4, 6
    layer = GATv2Conv(5, size, heads=heads, add_self_loops=False, bias=False, share_weights=False)
    adjacency = torch.rand(nodes, nodes) > 0.5
    adjacency[2] = False  # a node without neighbours
    queries, keys = adjacency.nonzero().T
    features = torch.randn(nodes, 5)
    expected, (_, by_edge) = layer(features, torch.stack([keys, queries]), return_attention_weights=True)

    score = Additive(d_q=5, d_k=5, d_w=size, heads=heads, act=lambda x: leaky_relu(x, 0.2))
    with torch.no_grad():
        per_head = lambda linear: linear.weight.unflatten(0, (heads, size)).transpose(1, 2)  # noqa: E731
        score.key_map.weight.copy_(per_head(layer.lin_l))
        score.query_map.weight.copy_(per_head(layer.lin_r))
        score.importance.weight.copy_(layer.att.transpose(0, 1).transpose(1, 2))
    nodes_by_head = features.expand(1, heads, nodes, 5)
    value = layer.lin_l(features).unflatten(-1, (heads, size)).transpose(0, 1).unsqueeze(0)
    mask = masks.graph(adjacency.unsqueeze(0)).build(query=nodes, key=nodes)
    context, weights = Attention(score=score)(nodes_by_head, nodes_by_head, value, mask)
    torch.testing.assert_close(weights[0, :, queries, keys].T, by_edge)
    torch.testing.assert_close(context[0].transpose(0, 1).flatten(1), expected)


def test_relation_aware_equals_the_relative_positions_of_transformers() -> None:
    heads, size, length, reach = 2, 4, 7, 3
    config = SpeechT5Config(hidden_size=heads * size, encoder_attention_heads=heads, attn_implementation="eager")
    theirs = SpeechT5Attention(heads * size, heads).eval()
    positions = SpeechT5RelativePositionalEncoding(size, reach)
    features = torch.randn(1, length, config.hidden_size)
    expected = theirs(features, position_bias=positions(features), output_attentions=True)

    score = RelationAware(d=size, reach=reach)
    ours = MultiHead(attention=Attention(score=score), d_model=heads * size, heads=heads)
    for mine, name in ((ours.query_map, "q_proj"), (ours.key_map, "k_proj"), (ours.value_map, "v_proj"),
                       (ours.merge, "out_proj")):  # fmt: skip
        mine.load_state_dict(getattr(theirs, name).state_dict())
    with torch.no_grad():
        # Theirs counts query - key from -reach up to reach - 1, ours key - query up to reach: the same table, turned.
        table = positions.pe_k.weight
        score.relation.copy_(torch.cat([table[-1:], table.flip(0)]))
    output, weights = ours(features, features)
    torch.testing.assert_close(weights.view(expected[1].shape), expected[1])
    torch.testing.assert_close(output, expected[0])


@pytest.mark.parametrize(
    "score",
    [GeneralisedKernel(), RandomFeatures(d=6, features=8), RandomFeatures(d=6, features=8, positive=True)],
    ids=["elu", "trigonometric", "positive"],
)
@pytest.mark.parametrize("align", [KernelRatio(), KernelWeights()], ids=lambda a: type(a).__name__)
def test_a_kernel_by_its_features_equals_attention_with_weights(score: Score, align: Align) -> None:
    query, key, value = torch.randn(2, 2, 4, 6), torch.randn(2, 2, 5, 6), torch.randn(2, 2, 5, 3)
    keys, pairs = torch.rand(2, 1, 1, 5) > 0.4, torch.rand(2, 1, 4, 5) > 0.4
    keys[0] = False
    attention = Attention(score=score, align=align)
    for mask in (None, keys, pairs):
        expected = attention(query, key, value, mask)[0]
        torch.testing.assert_close(attention.context_vectors(query, key, value, mask), expected)


def test_a_kernel_by_its_features_holds_no_pair() -> None:
    """Twice as many queries and keys take twice the memory, where their weights would take four times."""
    attention = Attention(score=RandomFeatures(d=8, features=16), align=KernelRatio())
    found = []
    for length in (1024, 2048):
        tensors = torch.randn(2, 1, 1, length, 8)
        with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            attention.context_vectors(*tensors)
        found.append(peak(profiler))
    assert found[1] < 2.1 * found[0]
