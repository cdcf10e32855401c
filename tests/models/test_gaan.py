"""The gated attention network: against its equations written once more in NumPy, node by node."""

import numpy as np
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from limelight_models.zoo.graph.gaan import GaanConfig, GatedAggregator, GatedAttentionNetwork, HeadGate, OpenGate
from tests.models.test_gat import CONFIG, graphs

Array = np.ndarray
SIZES = GaanConfig(
    features=CONFIG.features, classes=3, heads=2, d_embedded=4, d_out=5, d_score=3, d_value=2, d_pooled=3
)


def network(gate: type[nn.Module] = HeadGate) -> GatedAttentionNetwork:
    """A network in evaluation mode, in float64."""
    torch.manual_seed(0)
    return GatedAttentionNetwork(SIZES, gate=gate).double().eval().requires_grad_(False)


def linear(module: nn.Linear, x: Array) -> Array:
    return module.weight.numpy() @ x + module.bias.numpy()


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, 0.1 * x)


def layer(ours: GatedAggregator, nodes: Array, edges: list[tuple[int, int]]) -> tuple[Array, Array, Array]:
    """Answer of a layer to nodes [node, d]: new nodes, weights and gated weights [edge, head]."""
    heads, weights, gated = SIZES.heads, np.zeros((len(edges), SIZES.heads)), np.zeros((len(edges), SIZES.heads))
    made = []
    for i, x in enumerate(nodes):
        own = [edge for edge, (_, target) in enumerate(edges) if target == i]
        z = [nodes[edges[edge][0]] for edge in own]
        pooled = [linear(ours.gate.pooled, each) for each in z] or [np.zeros(SIZES.d_pooled)]
        mean = sum(z) / len(z) if z else np.zeros_like(x)
        gate = 1 / (1 + np.exp(-linear(ours.gate.decide, np.concatenate([x, np.max(pooled, 0), mean]))))
        parts = [x]
        for head in range(heads):
            key, value = slice(head * SIZES.d_score, (head + 1) * SIZES.d_score), slice(head * 2, head * 2 + 2)
            query = linear(ours.score.query_map, x)[key]
            raised = np.exp([query @ linear(ours.score.key_map, each)[key] for each in z])
            total = np.zeros(SIZES.d_value)
            for edge, weight, each in zip(own, raised / raised.sum(), z, strict=True):
                weights[edge, head], gated[edge, head] = weight, gate[head] * weight
                total += weight * leaky(linear(ours.value_map, each)[value])
            parts.append(gate[head] * total)
        made.append(leaky(linear(ours.merge, np.concatenate(parts))))
    return np.array(made), weights, gated


@settings(max_examples=25, deadline=None)
@given(graph=graphs())
def test_it_is_the_papers(graph: dict[str, Tensor]) -> None:
    ours = network()
    answer = ours(**graph)
    edges = list(zip(graph["sources"].tolist(), graph["targets"].tolist(), strict=True))
    nodes = np.array([linear(ours.embed, each) for each in graph["nodes"].numpy()])
    for number, each in enumerate(ours.layers):
        assert isinstance(each, GatedAggregator)
        nodes, weights, gated = layer(each, nodes, edges)
        np.testing.assert_allclose(answer.maps[f"layer.{number}"].numpy(), weights, atol=1e-12)
        np.testing.assert_allclose(answer.maps[f"gate.{number}"].numpy(), gated, atol=1e-12)
    logits = np.array([linear(ours.classify, each) for each in nodes])
    np.testing.assert_allclose(answer.outputs["logits"].numpy(), logits, atol=1e-12)


def test_the_comparison_takes_every_head_in_full() -> None:
    graph = {"sources": torch.tensor([0, 1, 0]), "targets": torch.tensor([0, 0, 1])}
    maps = network(OpenGate)(nodes=torch.rand(2, SIZES.features).double(), **graph).maps
    assert all(torch.equal(maps[f"gate.{each}"], maps[f"layer.{each}"]) for each in range(SIZES.layers))
