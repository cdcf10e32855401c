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


@settings(max_examples=40, deadline=None)
@given(st.lists(graphs(), min_size=2, max_size=4))
def test_graphs_that_are_joined_are_answered_as_each_alone(parts: list[dict[str, Tensor]]) -> None:
    ours = network()
    shifts = [sum(len(part["nodes"]) for part in parts[:place]) for place in range(len(parts))]
    joined = {
        "nodes": torch.cat([part["nodes"] for part in parts]),
        **{
            name: torch.cat([part[name] + shift for part, shift in zip(parts, shifts, strict=True)])
            for name in ("sources", "targets")
        },
    }
    together, alone = ours(**joined), [ours(**part) for part in parts]
    for group in ("outputs", "maps"):
        for name, found in getattr(together, group).items():
            wanted = torch.cat([getattr(each, group)[name] for each in alone])
            assert torch.allclose(found, wanted, atol=1e-12), name


@settings(max_examples=40, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_of_edges_means_nothing(graph: dict[str, Tensor], chance: object) -> None:
    ours = network()
    nodes, edges = len(graph["nodes"]), len(graph["sources"])
    generator = torch.Generator().manual_seed(chance.randrange(2**32))  # type: ignore[attr-defined]
    of_nodes, of_edges = torch.randperm(nodes, generator=generator), torch.randperm(edges, generator=generator)
    place = of_nodes.argsort()
    answer = ours(**graph)
    moved = ours(
        nodes=graph["nodes"][of_nodes],
        sources=place[graph["sources"]][of_edges],
        targets=place[graph["targets"]][of_edges],
    )
    assert torch.allclose(moved.outputs["logits"], answer.outputs["logits"][of_nodes], atol=1e-12)
    for name, weights in answer.maps.items():
        assert torch.allclose(moved.maps[name], weights[of_edges], atol=1e-12)


def test_a_node_without_an_edge_is_answered_from_the_bias_alone() -> None:
    ours = network()
    nothing = torch.zeros(0, dtype=torch.int64)
    answer = ours(nodes=torch.ones(2, CONFIG.features).double(), sources=nothing, targets=nothing)
    assert torch.equal(answer.outputs["logits"], ours.layers[-1].bias.expand(2, -1))


def test_a_chain_attends_from_the_target_to_its_sources() -> None:
    """0 -> 1 -> 2: what is changed in node 0 reaches 1 in the first layer and 2 in the second, and never goes back."""
    ours = network()
    loops = torch.arange(3)
    graph = {"sources": torch.cat([torch.tensor([0, 1]), loops]), "targets": torch.cat([torch.tensor([1, 2]), loops])}
    nodes = torch.eye(3, CONFIG.features).double()
    before = ours(nodes=nodes, **graph).outputs["logits"]
    changed = nodes.clone()
    changed[2, 4] = 1
    after = ours(nodes=changed, **graph).outputs["logits"]
    assert torch.equal(before[:2], after[:2]) and not torch.equal(before[2], after[2])
    changed = nodes.clone()
    changed[0, 4] = 1
    assert (ours(nodes=changed, **graph).outputs["logits"] != before).any(-1).all()


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


def test_only_the_dynamic_score_ranks_neighbours_by_who_asks() -> None:
    """Brody et al. 2022, §3: two nodes with the same two neighbours prefer different ones, or cannot."""
    nodes = torch.tensor([[[-1.0, 2.0]], [[2.0, -1.0]], [[1.0, 0.0]], [[0.0, 1.0]]])  # two that ask, two neighbours
    sources, targets = torch.tensor([2, 3, 2, 3]), torch.tensor([0, 0, 1, 1])
    dynamic = DynamicScore(heads=1, d_head=2, slope=0.0)
    dynamic.attention.data.fill_(1)
    # Asked by (-1, 2): 0 + 2 of (1, 0), 0 + 3 of (0, 1); by (2, -1) the other way round.
    assert dynamic(nodes, sources, targets)[:, 0].tolist() == [2, 3, 3, 2]
    static = NeighbourScore(heads=1, d_head=2, slope=0.2)
    first, second = static(nodes, sources, targets)[:, 0].unflatten(0, (2, 2)).argmax(1).tolist()
    assert first == second
