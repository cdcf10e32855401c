"""The edge form of attention: against plain loops, against the dense form under a mask, and where there is nothing."""

import math

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from limelight_models.attention import edges
from limelight_models.attention.alignment import softmax
from limelight_models.attention.errors import ShapeError


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Tensor, Tensor]:
    """Nodes, and (query, key) of each edge: none, some or all pairs, in any order."""
    nodes = draw(st.integers(1, 7))
    pairs = draw(st.sets(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=20))
    order = draw(st.permutations(sorted(pairs)))
    index = torch.tensor(order, dtype=torch.int64).reshape(-1, 2)
    return nodes, index[:, 0], index[:, 1]


def by_hand(scores: np.ndarray, query: list[int], queries: int) -> np.ndarray:
    """Softmax edge by edge with exact sums, from the formula alone."""
    weights = np.zeros_like(scores)
    for head in range(scores.shape[1]):
        for place in range(queries):
            own = [edge for edge, each in enumerate(query) if each == place]
            top = max((scores[edge, head] for edge in own), default=0.0)
            total = math.fsum(math.exp(scores[edge, head] - top) for edge in own)
            for edge in own:
                weights[edge, head] = math.exp(scores[edge, head] - top) / total
    return weights


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(1, 3), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 300.0]))
def test_weights_are_those_of_the_formula(
    graph: tuple[int, Tensor, Tensor], heads: int, seed: int, scale: float
) -> None:
    nodes, query, _ = graph
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(len(query), heads, generator=generator, dtype=torch.float64)
    weights = edges.softmax(scores, query, nodes)
    assert np.allclose(weights.numpy(), by_hand(scores.numpy(), query.tolist(), nodes), atol=1e-12, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 2**32 - 1))
def test_edges_say_the_same_as_a_dense_map_under_a_mask(graph: tuple[int, Tensor, Tensor], seed: int) -> None:
    nodes, query, key = graph
    heads, features = 2, 3
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(heads, nodes, nodes, generator=generator, dtype=torch.float64)
    values = torch.randn(nodes, heads, features, generator=generator, dtype=torch.float64)
    mask = torch.zeros(nodes, nodes, dtype=torch.bool)
    mask[query, key] = True
    wanted = softmax(dense, mask)
    weights = edges.softmax(dense[:, query, key].T, query, nodes)
    assert torch.allclose(weights.T, wanted[:, query, key], atol=1e-12)
    context = edges.weighted_sum(weights, values, query, key, nodes)
    assert torch.allclose(context, torch.einsum("hqk,khf->qhf", wanted, values), atol=1e-12)
    assert not context[~mask.any(-1)].any()


def test_scores_as_large_as_floats_can_be_do_not_overflow() -> None:
    largest = torch.finfo(torch.float32).max
    scores = torch.tensor([[largest], [largest], [-largest], [-largest]])
    weights = edges.softmax(scores, torch.tensor([0, 0, 0, 1]), 2)
    assert weights[:, 0].tolist() == [0.5, 0.5, 0.0, 1.0]


def test_gradients_are_those_of_finite_differences() -> None:
    query, key = torch.tensor([2, 0, 2, 2, 0]), torch.tensor([0, 1, 1, 2, 0])
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    values = torch.randn(3, 2, 2, generator=generator, dtype=torch.float64, requires_grad=True)

    def attend(scores: Tensor, values: Tensor) -> Tensor:
        return edges.weighted_sum(edges.softmax(scores, query, 3), values, query, key, 3)

    assert torch.autograd.gradcheck(attend, (scores, values))


def test_other_axes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"\[edge, head\]"):
        edges.softmax(torch.zeros(3), torch.zeros(3, dtype=torch.int64), 2)


class _Attend(nn.Module):
    def forward(self, scores: Tensor, values: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        weights = edges.softmax(scores, query, values.shape[0])
        return edges.weighted_sum(weights, values, query, key, values.shape[0]), weights


def test_onnx_runtime_answers_the_same_at_any_number_of_nodes_and_edges() -> None:
    def arguments(nodes: int, count: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(nodes)
        index = torch.randint(nodes, (2, count), generator=generator)
        scores = 30 * torch.randn(count, 2, generator=generator)
        return scores, torch.randn(nodes, 2, 3, generator=generator), index[0], index[1]

    node, edge = torch.export.Dim("node", min=1), torch.export.Dim("edge", min=1)
    program = torch.onnx.export(
        _Attend().eval(),
        arguments(5, 7),
        dynamo=True,
        dynamic_shapes=({0: edge}, {0: node}, {0: edge}, {0: edge}),
        input_names=["scores", "values", "query", "key"],
        opset_version=20,
        verbose=False,
    )
    assert program is not None
    # With a reduction, ONNX Runtime's ScatterND loses parts of sums on several threads: none may be in the graph.
    assert {node.op_type for node in program.model_proto.graph.node} & {"ScatterElements", "ScatterND"} == {
        "ScatterElements"
    }
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    for nodes, count in ((1, 1), (4, 0), (9, 30), (200, 1000)):
        given_ = arguments(nodes, count)
        found = session.run(None, {name: each.numpy() for name, each in zip(names, given_, strict=True)})
        for ours, theirs in zip(found, _Attend()(*given_), strict=True):
            assert np.allclose(ours, theirs.numpy(), atol=1e-6)
