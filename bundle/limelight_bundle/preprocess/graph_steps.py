"""The step that turns a graph into tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from limelight.base.counts import counted
from limelight.v1 import attention_pb2, values_pb2
from limelight_bundle.errors import BundleError, InputError, OutOfRangeError, Path
from limelight_bundle.preprocess.step_types import (
    DataFormat,
    DataKind,
    PreprocessedInput,
    RunOptions,
    Step,
    StepContext,
)
from limelight_bundle.preprocess.tensor_checks import check_tensor
from limelight_bundle.rows import BoundTensor, Labels
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array, Graph
from limelight_bundle.wire import input_path

_INT64 = values_pb2.DATA_TYPE_INT64


@dataclass(frozen=True)
class ReadGraph(Step):
    """Turns a graph into node features, source and target of each edge, and edge features.

    Added edges follow those sent: first opposite edges, then self loops.
    """

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.GRAPH})
    produces: ClassVar[DataKind] = DataKind.TENSORS
    context: StepContext
    nodes: BoundTensor
    sources: BoundTensor
    targets: BoundTensor
    edge_features: BoundTensor | None
    self_loops: bool
    both_ways: bool
    tensors: tuple[str, ...]

    @classmethod
    def make(
        cls,
        message: bundle_pb2.ReadGraph,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        nodes = context.tensor(message.nodes_tensor, 2)
        sources = context.tensor(message.sources_tensor, 1, _INT64)
        targets = context.tensor(message.targets_tensor, 1, _INT64)
        features = context.tensor(message.edge_features_tensor, 2) if message.edge_features_tensor else None
        if features is not None and (message.self_loops or message.both_ways):
            raise BundleError("adds edges, which would have no features")
        edge = {each.description.dimensions[0].name for each in (sources, targets, features) if each is not None}
        if len(edge) > 1 or nodes.description.dimensions[0].name in edge:
            raise BundleError("outputs edges along different axes, or along the nodes' axis")
        for each in (sources, targets):
            if each.joined and each.indexes != nodes.description.dimensions[0].name:
                raise BundleError(f"outputs {each.name!r}, which is joined but does not index the nodes")
        tensors = tuple(each.name for each in (nodes, sources, targets, features) if each is not None)
        return cls(context, nodes, sources, targets, features, message.self_loops, message.both_ways, tensors)

    def run(self, value: Graph, options: RunOptions) -> PreprocessedInput:
        """Check a graph, and turn it into tensors.

        Raises:
            InputError: wrong type or shape, no node, NaN, a repeated edge, unexpected edge features, or a number of
                names that differs from the number of nodes.
            OutOfRangeError: an edge to a node that does not exist.
        """
        field = (*options.field, "graph")
        check_tensor(value.nodes, self.nodes.description, (*field, "nodes"))
        count = len(value.nodes)
        if value.names and len(value.names) != count:
            raise InputError(
                (*field, "node_names"),
                f"has {counted(len(value.names), 'name')}; the graph has {counted(count, 'node')}",
            )
        _check_shape(value.edges, (*field, "edges"))
        _check_edges(value.edges[0], value.edges[1], count, (*field, "edges", "data"))
        sources, targets = self._add_edges(value.edges, count)
        most = self.sources.description.dimensions[0].maximum
        if most and len(sources) > most:
            added = "" if len(sources) == value.edges.shape[1] else ", with those that the model adds"
            raise InputError(
                (*field, "edges", "shape"), f"has {counted(len(sources), 'edge')}{added}; at most {most} are allowed"
            )
        tensors: dict[str, Array] = {
            self.nodes.name: value.nodes,
            self.sources.name: sources,
            self.targets.name: targets,
        }
        if self.edge_features is not None:
            features = self._features(value.edge_features, len(sources), (*field, "edge_features"))
            tensors[self.edge_features.name] = features
        elif value.edge_features is not None:
            raise InputError((*field, "edge_features"), "are not used by the model; remove them")
        sizes = {
            dimension.name: size
            for name, array in tensors.items()
            for dimension, size in zip(self.context.tensors[name].description.dimensions, array.shape, strict=True)
        }
        return PreprocessedInput(self.context.input.name, tensors, sizes, self._labels(count, value.names))

    def check_sent_tensors(self, tensors: Mapping[str, Array], options: RunOptions) -> dict[str, Labels]:
        """Check edges that were sent as tensors. Nodes get no names."""
        sources, targets = tensors[self.sources.name], tensors[self.targets.name]
        count = len(tensors[self.nodes.name])
        _check_ends(sources, count, (*input_path(options.field, self.sources.name), "tensor", "data"))
        _check_ends(targets, count, (*input_path(options.field, self.targets.name), "tensor", "data"))
        _check_twice(sources, targets, count, (*input_path(options.field, self.targets.name), "tensor", "data"))
        return self._labels(count, ())

    def _add_edges(self, edges: Array, count: int) -> tuple[Array, Array]:
        if self.both_ways:
            there = edges[0] * count + edges[1]
            opposite = edges[::-1]
            new = ~np.isin(opposite[0] * count + opposite[1], there, assume_unique=True)
            edges = np.concatenate([edges, opposite[:, new]], axis=1)
        if self.self_loops:
            has_loop = np.zeros(count, bool)
            has_loop[edges[0][edges[0] == edges[1]]] = True
            without_loop = np.flatnonzero(~has_loop)
            edges = np.concatenate([edges, np.stack([without_loop, without_loop])], axis=1)
        return np.ascontiguousarray(edges[0]), np.ascontiguousarray(edges[1])

    def _features(self, features: Array | None, edges: int, field: Path) -> Array:
        assert self.edge_features is not None
        if features is None:
            raise InputError(field, "are missing; the model needs edge features")
        check_tensor(features, self.edge_features.description, field, may_be_empty=True)
        if len(features) != edges:
            raise InputError(
                (*field, "shape"), f"has {counted(len(features), 'row')}; the graph has {counted(edges, 'edge')}"
            )
        return features

    def _labels(self, count: int, names: Sequence[str]) -> dict[str, Labels]:
        return {
            each.name: Labels(each.name, each.kind, count, names, inputs=(self.context.input.name,))
            for each in self.context.label_sets
            if each.tensor == self.nodes.name and each.kind == attention_pb2.LABEL_KIND_NODES
        }


def _check_shape(edges: Array, field: Path) -> None:
    if edges.dtype != np.int64:
        raise InputError((*field, "data_type"), "is not INT64")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError((*field, "shape"), f"is {list(edges.shape)}; expected [2, edge], sources above targets")


def _check_edges(sources: Array, targets: Array, count: int, field: Path) -> None:
    for row, ends in enumerate((sources, targets)):
        _check_ends(ends, count, field, row)
    _check_twice(sources, targets, count, field)


def _check_ends(ends: Array, count: int, field: Path, row: int | None = None) -> None:
    outside = (ends < 0) | (ends >= count)
    if outside.any():
        place = int(np.argmax(outside))
        where = [place] if row is None else [row, place]
        raise OutOfRangeError(field, f"has {int(ends[place])} at {where}; nodes are 0 to {count - 1}")


def _check_twice(sources: Array, targets: Array, count: int, field: Path) -> None:
    numbers = sources * count + targets
    order = np.argsort(numbers, kind="stable")  # unlike NumPy's set functions, argsort releases the interpreter's lock
    repeated = order[1:][numbers[order[1:]] == numbers[order[:-1]]]
    if len(repeated):
        again = int(repeated.min())
        raise InputError(field, f"has the edge from {int(sources[again])} to {int(targets[again])} twice")
