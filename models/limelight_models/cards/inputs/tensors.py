"""Tensors and graphs as inputs, and noise that the server draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from limelight.base.enums import number_of
from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_models.cards.inputs.base import Input, TensorSpec
from limelight_models.cards.labels import LabelSet


@dataclass(frozen=True, kw_only=True)
class TensorInput(Input):
    """A tensor, sent as it is."""

    name: str
    summary: str
    tensor: TensorSpec
    kind = model_pb2.INPUT_KIND_TENSOR

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        return [self.tensor]


@dataclass(frozen=True, kw_only=True)
class GraphInput(Input):
    """A graph -> `nodes` [node, feature], `sources` and `targets` [edge]; a batch of graphs is one of several parts.

    self_loops: every node gets an edge to itself. both_ways: every edge gets its opposite.
    """

    name: str = "graph"
    summary: str
    features: int
    max_nodes: int
    max_edges: int
    self_loops: bool = True
    both_ways: bool = True
    kind = model_pb2.INPUT_KIND_GRAPH
    edges: ClassVar[tuple[str, str]] = ("edge_targets", "edge_sources")

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        dimensions = {"node": self.max_nodes, "feature": self.features}
        ends = (
            TensorSpec(
                name=name,
                data_type="int64",
                dimensions={"edge": self.max_edges},
                joined=True,
                indexes="node",
                minimum=0,
            )
            for name in ("sources", "targets")
        )
        return [TensorSpec(name="nodes", dimensions=dimensions, fixed="all but the first", joined=True), *ends]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        read = bundle_pb2.ReadGraph(
            nodes_tensor="nodes",
            sources_tensor="sources",
            targets_tensor="targets",
            self_loops=self.self_loops,
            both_ways=self.both_ways,
        )
        return [bundle_pb2.PreprocessingStep(read_graph=read)]

    @property
    def nodes(self) -> LabelSet:
        """Its nodes."""
        return LabelSet(name="nodes", kind="nodes", input=self.name, tensor="nodes", dimension="node")

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [self.nodes]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Numbers that the server draws for each row; without a seed 0.5, or 0 of normal ones.

    axes: name -> size where it is fixed; 0 for an axis that an input has as well.
    """

    name: str = "noise"
    axes: Mapping[str, int] = field(default_factory=dict)
    most: int = 0
    distribution: Literal["uniform", "normal"] = "uniform"

    def describe(self) -> bundle_pb2.NoiseInput:
        """As a bundle has it."""
        dimensions = [
            model_pb2.Dimension(name=name, size=size, maximum=0 if size else self.most)
            for name, size in self.axes.items()
        ]
        tensor = model_pb2.TensorDescription(
            name=self.name, data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=dimensions
        )
        drawn = number_of(bundle_pb2.Distribution, self.distribution, what="a distribution")
        return bundle_pb2.NoiseInput(tensor=tensor, distribution=drawn)
