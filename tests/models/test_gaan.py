"""Gated attention networks of nodes, and of signals on them: against their equations in NumPy, node by node."""

import numpy as np
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from limelight_models.zoo.graph.gaan import GaanConfig, GatedAttentionNetwork
from limelight_models.zoo.graph.gated import GatedAggregator, HeadGate, OpenGate
from limelight_models.zoo.graph.ggru import Ggru, GgruConfig, GraphGru
from tests.models.test_gat import CONFIG, graphs

Array = np.ndarray
SIZES = GaanConfig(
    features=CONFIG.features, classes=3, heads=2, d_embedded=4, d_out=5, d_score=3, d_value=2, d_pooled=3
)


SIGNALS = GgruConfig(
    features=CONFIG.features, horizon=3, mean=0.5, deviation=2.0, layers=2, d_state=4, d_embedded=3, heads=2, d_score=3,
    d_value=2, d_pooled=3,
)  # fmt: skip


def network(gate: type[nn.Module] = HeadGate) -> GatedAttentionNetwork:
    """A network in evaluation mode, in float64."""
    torch.manual_seed(0)
    return GatedAttentionNetwork(SIZES, gate=gate).double().eval().requires_grad_(False)


def linear(module: nn.Linear, x: Array) -> Array:
    return module.weight.numpy() @ x + module.bias.numpy()


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, 0.1 * x)


Edges = list[tuple[int, int]]


def aggregated(ours: GatedAggregator, nodes: Array, around: Array, edges: Edges) -> tuple[Array, Array, Array]:
    """FC_o before its LeakyReLU, of nodes [node, d] by what is around them; weights and gated weights [edge, head]."""
    heads, weights, gated = SIZES.heads, np.zeros((len(edges), SIZES.heads)), np.zeros((len(edges), SIZES.heads))
    made = []
    for i, x in enumerate(nodes):
        own = [edge for edge, (_, target) in enumerate(edges) if target == i]
        z = [around[edges[edge][0]] for edge in own]
        pooled = [linear(ours.gate.pooled, each) for each in z] or [np.zeros(SIZES.d_pooled)]
        mean = sum(z) / len(z) if z else np.zeros(around.shape[1])
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
        made.append(linear(ours.merge, np.concatenate(parts)))
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
        made, weights, gated = aggregated(each, nodes, nodes, edges)
        nodes = leaky(made)
        np.testing.assert_allclose(answer.maps[f"layer.{number}"].numpy(), weights, atol=1e-12)
        np.testing.assert_allclose(answer.maps[f"gate.{number}"].numpy(), gated, atol=1e-12)
    logits = np.array([linear(ours.classify, each) for each in nodes])
    np.testing.assert_allclose(answer.outputs["logits"].numpy(), logits, atol=1e-12)


def test_the_comparison_takes_every_head_in_full() -> None:
    graph = {"sources": torch.tensor([0, 1, 0]), "targets": torch.tensor([0, 0, 1])}
    maps = network(OpenGate)(nodes=torch.rand(2, SIZES.features).double(), **graph).maps
    assert all(torch.equal(maps[f"gate.{each}"], maps[f"layer.{each}"]) for each in range(SIZES.layers))


def cell(ours: GraphGru, x: Array, h: Array, edges: Edges) -> tuple[Array, dict[str, Array]]:
    """Eq. 5 of the paper: the new states, and the weights of both aggregators."""
    of_inputs, input_weights, _ = aggregated(ours.of_inputs, x, x, edges)
    of_states, state_weights, _ = aggregated(ours.of_states, np.concatenate([x, h], 1), h, edges)
    (u_x, r_x, new_x), (u_h, r_h, new_h) = np.split(of_inputs, 3, 1), np.split(of_states, 3, 1)
    u, r = 1 / (1 + np.exp(-(u_x + u_h))), 1 / (1 + np.exp(-(r_x + r_h)))
    return (1 - u) * leaky(new_x + r * new_h) + u * h, {"inputs": input_weights, "states": state_weights}


@settings(max_examples=10, deadline=None)
@given(graph=graphs())
def test_a_forecast_is_the_papers(graph: dict[str, Tensor]) -> None:
    torch.manual_seed(0)
    ours = Ggru(SIGNALS).double().eval().requires_grad_(False)
    answer = ours(**graph)
    edges = list(zip(graph["sources"].tolist(), graph["targets"].tolist(), strict=True))
    signal = (graph["nodes"].numpy() - SIGNALS.mean) / SIGNALS.deviation
    states = [np.zeros((len(signal), SIGNALS.d_state)) for _ in range(SIGNALS.layers)]
    looks: dict[str, Array] = {}

    def read(stack: str, step: int, values: Array) -> Array:
        """A value of each node: what is said of the next one."""
        x = leaky(np.array([linear(ours.embed[stack], each) for each in values[:, None]]))
        for layer in range(SIGNALS.layers):
            states[layer], found = cell(ours.cells[f"{stack}_{layer}"], x, states[layer], edges)
            x = states[layer]
            looks.update({f"{stack}.{layer}.{kind}.{step}": weights for kind, weights in found.items()})
        return np.array([linear(ours.say, each)[0] for each in x])

    for step in range(SIGNALS.features):
        said = [read("encoder", step, signal[:, step])]
    for step in range(SIGNALS.horizon - 1):
        said.append(read("decoder", step, said[-1]))
    forecast = np.stack(said, 1) * SIGNALS.deviation + SIGNALS.mean
    np.testing.assert_allclose(answer.outputs["forecast"].numpy(), forecast, atol=1e-12)
    assert set(answer.maps) == set(looks)
    for name, weights in looks.items():
        np.testing.assert_allclose(answer.maps[name].numpy(), weights, atol=1e-12)
