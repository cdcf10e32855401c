"""Graph GRU, K19 (Zhang et al. 2018): a recurrent network whose gates look at the neighbours, to forecast signals.

The paper's second half: each map of a GRU is a gated attention over the neighbours (the aggregator of `gaan`), of what
comes in and of the states. An encoder reads the signal of each node, step by step; its last state says the next step,
and a decoder, which reads what was said, the others. As in the authors' program, one aggregator of what comes in and
one of states serve the three gates of a cell. They feed the truth now and then in training, and the time of day, and
know how long each road is: here none of it.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.values import Graph
from limelight_models.attention.weights import weights_of
from limelight_models.cards.language import GraphInput, Map
from limelight_models.data import loads
from limelight_models.data.dataset import DataError, Dataset
from limelight_models.data.folder import SERIES
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, preset, tiny
from limelight_models.tasks.forecast import Forecast, numbers_of
from limelight_models.zoo.graph.gated import SLOPE, GatedAggregator, GatedSizes, HeadGate, OpenGate
from limelight_models.zoo.graph.nodes import ends

OF_INPUTS, OF_STATES = "inputs", "states"


class GgruConfig(GatedSizes):
    """Sizes; the embedding's is that of the authors' program.

    features: steps that are sent. horizon: steps that are forecast. mean, deviation: of the signal. d_embedded: of what
    comes into a cell at the bottom.
    """

    features: int
    horizon: int
    mean: float = 0.0
    deviation: float = 1.0
    layers: int = 2
    d_state: int = 64
    d_embedded: int = 16
    max_nodes: int = 2000
    max_edges: int = 20_000


class GraphGru(nn.Module):
    """A cell: a GRU whose linear maps are graph aggregators Γ (paper eq. 5).

    u = σ(Γ_xu(x, x) + Γ_hu(x ⊕ h, h));  r = σ(Γ_xr(x, x) + Γ_hr(x ⊕ h, h))
    h' = φ(Γ_xh(x, x) + r ∘ Γ_hh(x ⊕ h, h));  new state (1 - u) ∘ h' + u ∘ h;  φ is LeakyReLU

    Γ(y, z) looks from the nodes' y at the neighbours' z.

    Shapes: inputs x [node, d_in], state h [node, d_state], sources and targets int64 [edge] -> new state, weights of
        both aggregators [edge, head].
    """

    def __init__(self, config: GgruConfig, *, d_in: int, gate: type[nn.Module]) -> None:
        super().__init__()
        d, made = config.d_state, partial(GatedAggregator, config, d_out=3 * config.d_state, gate=gate, linear=True)
        self.of_inputs, self.of_states = made(d_in=d_in, d_around=d_in), made(d_in=d_in + d, d_around=d)

    def forward(
        self, inputs: Tensor, state: Tensor, sources: Tensor, targets: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        of_inputs, input_weights, _ = self.of_inputs(inputs, inputs, sources, targets)
        of_states, state_weights, _ = self.of_states(torch.cat([inputs, state], -1), state, sources, targets)
        (u_x, r_x, new_x), (u_h, r_h, new_h) = of_inputs.chunk(3, -1), of_states.chunk(3, -1)
        u, r = (u_x + u_h).sigmoid(), (r_x + r_h).sigmoid()
        new = leaky_relu(new_x + r * new_h, SLOPE)
        return (1 - u) * new + u * state, {OF_INPUTS: input_weights, OF_STATES: state_weights}


class Ggru(Network):
    """Graph with a signal of each node -> its next steps, with the weight of each edge in every cell and step.

    gate: of every aggregator.

    Shapes: nodes float32 [node, step]; sources, targets int64 [edge] -> forecast [node, step], maps
        `<stack>.<layer>.inputs.<step>` and `<stack>.<layer>.states.<step>` [edge, head], of the stacks `encoder` and
        `decoder`; steps are counted from the first that is sent, and of the decoder from the first that it says.
    """

    def __init__(self, config: GgruConfig, *, gate: type[nn.Module] = HeadGate) -> None:
        super().__init__()
        self.config = config
        sizes = (config.d_embedded, *[config.d_state] * (config.layers - 1))
        self.embed = nn.ModuleDict({stack: nn.Linear(1, config.d_embedded) for stack in ("encoder", "decoder")})
        self.cells = nn.ModuleDict(
            {
                f"{stack}_{layer}": GraphGru(config, d_in=d_in, gate=gate)
                for stack in self.embed
                for layer, d_in in enumerate(sizes)
            }
        )
        self.say = nn.Linear(config.d_state, 1)

    def forward(self, **tensors: Tensor) -> Answer:
        config, edges = self.config, (tensors["sources"], tensors["targets"])
        signal = (tensors["nodes"] - config.mean) / config.deviation
        states = [signal.new_zeros(signal.shape[0], config.d_state) for _ in range(config.layers)]
        maps: dict[str, Tensor] = {}
        for step, value in enumerate(signal.unbind(-1)):
            self.step("encoder", step, value.unsqueeze(-1), states, edges, maps)
        said = [self.say(states[-1])]
        for step in range(config.horizon - 1):
            self.step("decoder", step, said[-1], states, edges, maps)
            said.append(self.say(states[-1]))
        forecast = torch.cat(said, -1) * config.deviation + config.mean
        return Answer({"forecast": forecast}, {name: maps[name] for name in names(config)}, edges=ends(*edges))

    def step(
        self,
        stack: str,
        step: int,
        value: Tensor,
        states: list[Tensor],
        edges: tuple[Tensor, Tensor],
        maps: dict[str, Tensor],
    ) -> None:
        """Read a value of each node [node, 1]: changes `states`, and adds what was looked at to `maps`."""
        inputs = leaky_relu(self.embed[stack](value), SLOPE)
        for layer in range(self.config.layers):
            states[layer], looks = self.cells[f"{stack}_{layer}"](inputs, states[layer], *edges)
            inputs = states[layer]
            maps |= {f"{stack}.{layer}.{kind}.{step}": weights for kind, weights in looks.items()}


def names(config: GgruConfig) -> list[str]:
    """Names of the maps, step by step of each aggregator."""
    return [
        f"{stack}.{layer}.{kind}.{step}"
        for stack, steps in (("encoder", config.features), ("decoder", config.horizon - 1))
        for layer in range(config.layers)
        for kind in (OF_INPUTS, OF_STATES)
        for step in range(steps)
    ]


def card(network: Ggru, blueprint: Blueprint[GgruConfig]) -> Card:
    """Describe the network."""
    config = network.config
    graph = GraphInput(
        summary=f"Nodes with the last {config.features} values of a signal, the newest last, and edges; none is added.",
        features=config.features,
        max_nodes=config.max_nodes,
        max_edges=config.max_edges,
        self_loops=False,
        both_ways=False,
    )
    maps = {}
    for name in names(config):
        stack, layer, kind, step = name.split(".")
        weights, _ = weights_of(network.get_submodule(f"cells.{stack}_{layer}.of_{kind}"))
        maps[name] = Map(
            weights=weights,
            kind="graph",
            queries=graph.nodes,
            keys=graph.nodes,
            edges=graph.edges,
            summary=f"How much of the {kind} of its neighbours each node takes in step {step}, layer {layer}.",
        )
    forecast = model_pb2.OutputDescription(
        name="forecast",
        data_type=values_pb2.DATA_TYPE_FLOAT32,
        dimensions=[graph.nodes.axis, model_pb2.Dimension(name="step", size=config.horizon)],
        summary="The next values of each node, in the unit of those that were sent.",
    )
    return blueprint.card(
        network,
        title="Graph GRU",
        summary="Forecasts a signal on the nodes of a graph; what comes in and what is known flow along its edges.",
        inputs=[graph],
        outputs=[forecast],
        maps=maps,
        taxonomy="multiplicative, self-attentive, multi-head",
        citation="Zhang, Shi, Xie, Ma, King, Yeung (2018): GaAN: Gated Attention Networks for Learning on Large "
        "and Spatiotemporal Graphs. UAI",
    )


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[GgruConfig]:
    """Steps, mean and deviation of the training part."""
    graphs = [each.instance["graph"] for each in dataset.train]
    signals = [each.nodes for each in graphs if isinstance(each, Graph)]
    if len(signals) != len(graphs):
        raise DataError("an example has no graph")
    whole = np.concatenate([each.ravel() for each in signals])
    config = GgruConfig(
        features=signals[0].shape[1],
        horizon=numbers_of(dataset.train[0]).shape[1],
        mean=float(whole.mean()),
        deviation=float(whole.std()) or 1.0,
        **preset.sizes,
    )
    return Blueprint(config, (), {})


PRESETS = {
    "tiny": tiny(layers=1, heads=2, d_state=4, d_embedded=3, d_score=3, d_value=3, d_pooled=3),
    "demo": preset(40, 8, 5e-3, patience=8).sized(
        layers=1, heads=2, d_state=16, d_embedded=8, d_score=8, d_value=8, d_pooled=8
    ),
    "full": preset(50, 16, 5e-3, patience=8).sized(heads=4, d_state=32, d_score=16, d_value=16, d_pooled=16),
    "paper": preset(100, 64, 1e-3, weight_decay=0.0, patience=10).sized(heads=4, d_score=16, d_value=16),
}

GGRU = Recipe(GgruConfig, Ggru, card, prepare, PRESETS, task=Forecast(), data=SERIES, builtin=loads.dataset)
# What the gates are compared with: every head counts in full.
GGRU_UNGATED = GGRU.with_parts(gate=OpenGate)
