"""The graph attention network: against another implementation, and what must hold for any graph."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import elu
from torch_geometric.nn import GATConv, GATv2Conv

from limelight_models.network import Answer
from limelight_models.recipes.recipe import Blueprint
from limelight_models.zoo.graph.gat import GAT_MEAN, GatConfig, GraphAttentionNetwork, NeighbourScore
from limelight_models.zoo.graph.scores import DynamicScore

CONFIG = GatConfig(features=5, classes=3, heads=4, d_head=2, output_heads=2)


def network(
    config: GatConfig = CONFIG, *, seed: int = 0, score: type[torch.nn.Module] = NeighbourScore
) -> GraphAttentionNetwork:
    """A network in evaluation mode, in float64, with biases that are not zero."""
    torch.manual_seed(seed)
    made = GraphAttentionNetwork(config, score=score).double().eval().requires_grad_(False)
    for layer in made.layers:
        layer.bias.normal_()
    return made


@st.composite
def graphs(draw: st.DrawFn, most: int = 7) -> dict[str, Tensor]:
    """One node or several, without a single edge, with loops, isolated nodes, edges in one direction or both."""
    nodes = draw(st.integers(1, most))
    pairs = draw(st.sets(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=20))
    edges = torch.tensor(draw(st.permutations(sorted(pairs))), dtype=torch.int64).reshape(-1, 2)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    features = (torch.rand(nodes, CONFIG.features, generator=generator) < 0.4).double()
    return {"nodes": features, "sources": edges[:, 0], "targets": edges[:, 1]}


def reference(ours: GraphAttentionNetwork, graph: dict[str, Tensor]) -> Answer:
    """The same weights in PyTorch Geometric's layers."""
    total = graph["nodes"].sum(-1, keepdim=True)
    nodes, edges = graph["nodes"] / total.clamp(min=1), torch.stack([graph["sources"], graph["targets"]])
    maps = {}
    for number, layer in enumerate(ours.layers):
        of_score = [each[None] for each in layer.score.parameters()]
        _, heads, features = of_score[0].shape
        sizes, options = (nodes.shape[1], features, heads), {"concat": not layer.average, "add_self_loops": False}
        if isinstance(layer.score, DynamicScore):
            theirs = GATv2Conv(*sizes, share_weights=True, **options).double()
            theirs.lin_l.weight.data, theirs.lin_l.bias.data = (
                layer.transform.weight,
                torch.zeros(heads * features).double(),
            )
            (theirs.att.data,) = of_score
        else:
            theirs = GATConv(*sizes, **options).double()
            theirs.lin.weight.data = layer.transform.weight
            theirs.att_dst.data, theirs.att_src.data = of_score
        theirs.bias.data = layer.bias
        nodes, (_, weights) = theirs(elu(nodes) if number else nodes, edges, return_attention_weights=True)
        maps[f"layer.{number}"] = weights
    return Answer({"logits": nodes}, maps)


@pytest.mark.parametrize("score", [NeighbourScore, DynamicScore])
@settings(max_examples=50, deadline=None)
@given(graph=graphs())
def test_it_answers_as_another_implementation_does(graph: dict[str, Tensor], score: type[torch.nn.Module]) -> None:
    ours = network(score=score)
    answer = ours(**graph)
    with torch.no_grad():
        wanted = reference(ours, graph)
    assert torch.allclose(answer.outputs["logits"], wanted.outputs["logits"], atol=1e-12)
    assert answer.maps.keys() == wanted.maps.keys()
    for name, weights in wanted.maps.items():
        assert torch.allclose(answer.maps[name], weights, atol=1e-12)


def test_the_comparison_weighs_all_neighbours_the_same() -> None:
    ours = GAT_MEAN.build(Blueprint(CONFIG, ("a", "b", "c"), {})).eval()
    sources, targets = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 0, 0, 1])
    answer = ours(nodes=torch.rand(3, CONFIG.features), sources=sources, targets=targets)
    for number, heads in enumerate(CONFIG.layer_heads):
        assert torch.allclose(
            answer.maps[f"layer.{number}"], torch.tensor([1 / 3, 1 / 3, 1 / 3, 1])[:, None].expand(4, heads)
        )


def test_training_leaves_out_features_and_weights_but_shows_the_weights_whole() -> None:
    torch.manual_seed(0)
    ours = GraphAttentionNetwork(replace(CONFIG, hidden_layers=0))
    graph = {"nodes": torch.ones(40, CONFIG.features), "sources": torch.arange(40), "targets": torch.arange(40)}
    calm, wild = ours.eval()(**graph), ours.train()(**graph)
    assert torch.equal(wild.maps["layer.0"], torch.ones(40, 2)) and torch.equal(calm.maps["layer.0"], torch.ones(40, 2))
    # 40 nodes alike: how far apart what they are told is.
    apart = [(answer.outputs["logits"] - answer.outputs["logits"][0]).abs().max() for answer in (calm, wild)]
    assert apart[0] < 1e-5 < 0.01 < apart[1]


def test_what_is_minimised_counts_the_squares_of_weights_in_training_alone() -> None:
    """The gradient is then the loss's plus l2 times each weight: the paper's regularisation under Adam."""
    torch.manual_seed(0)
    ours = GraphAttentionNetwork(replace(CONFIG, l2=0.01, dropout=0.0)).double()
    graph = {"nodes": torch.rand(4, CONFIG.features).double(), "sources": torch.arange(4), "targets": torch.arange(4)}

    def gradients() -> dict[str, Tensor]:
        ours.zero_grad()
        answer = ours(**graph)
        losses = answer.outputs["logits"].square().sum(-1)
        (ours.objective(losses, answer, torch.zeros(4)) / len(losses)).backward()
        return {name: each.grad.clone() for name, each in ours.named_parameters() if each.grad is not None}

    training, judging = (ours.train(mode) and gradients() for mode in (True, False))
    for name, parameter in ours.named_parameters():
        extra = 0.0 if name.endswith("bias") else 0.01 * parameter.detach()
        zero = torch.zeros_like(parameter)
        assert torch.allclose(training.get(name, zero), judging.get(name, zero) + extra, atol=1e-12), name
