"""Graphs whose nodes have classes: read from an archive of arrays, and cut to what a node depends on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limelight_bundle.values import Array, Graph
from limelight_models.data.archives import arrays
from limelight_models.data.dataset import DataError, Dataset, Example

PARTS = ("train", "val", "test")
# Instances that are sent with every description, so they are few and small.
_SHOWN, _SHOWN_HOPS, _SHOWN_NEIGHBOURS, _SHOWN_NODES = 3, 2, 2, 12


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph with a class for each node (empty where it is not known), and which nodes are learned from.

    parts: bool [node] for `train`, `val` and `test`.
    """

    graph: Graph
    labels: tuple[str, ...]
    parts: dict[str, Array]

    def labels_of(self, part: str) -> tuple[str, ...]:
        """The classes of one part's nodes; empty at all others."""
        kept = self.parts[part]
        return tuple(label if keep else "" for label, keep in zip(self.labels, kept.tolist(), strict=True))


def read(path: Path) -> LabelledGraph:
    """Read a graph from an .npz archive, without pickles.

    feat_indptr, feat_indices, feat_shape: features of 0 and 1 [node, feature] as compressed sparse rows; edge_index
    [2, edge], the source and the target of each; labels [node], the number of a class or -1; train_mask, val_mask and
    test_mask bool [node]; class_names and node_names where there are any.
    Raises: DataError naming the file, and the array that is missing or does not fit.
    """
    try:
        return _graph(arrays(path))
    except KeyError as error:
        raise DataError(f"{path}: has no array {error.args[0]}") from error
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def dataset(path: Path, *, name: str = "", licence: str = "") -> Dataset:
    """Take a graph as a data set: every part is the whole graph, with the classes of that part's nodes alone.

    What is shown is the smallest neighbourhoods of held-out nodes, of different classes.
    Raises: DataError where the file cannot be read, or a part has no node whose class is known.
    """
    read_ = read(path)
    parts = {part: Example({"graph": read_.graph}, labels=read_.labels_of(part)) for part in PARTS}
    for part, example in parts.items():
        if not any(example.labels):
            raise DataError(f"{path}: {part}_mask has no node whose class is known")
    return Dataset(
        name=name or path.resolve().name.split(".")[0],
        licence=licence or "not stated",
        summary="One graph: all nodes and edges are seen in training, classes of the training part's nodes alone.",
        train=(parts["train"],),
        dev=(parts["val"],),
        test=(parts["test"],),
        shown=tuple({"graph": each} for each in _shown(read_, parts["test"].labels)),
    )


def _shown(read_: LabelledGraph, labels: Sequence[str]) -> list[Graph]:
    """Small neighbourhoods of nodes of different classes, but with some neighbours."""
    degree = np.bincount(read_.graph.edges[1], minlength=len(labels))
    found: dict[str, Graph] = {}
    for node in np.argsort(degree, kind="stable").tolist():
        if labels[node] and labels[node] not in found and degree[node] >= _SHOWN_NEIGHBOURS:
            around = neighbourhood(read_.graph, node, _SHOWN_HOPS)
            if len(around.nodes) <= _SHOWN_NODES:
                found[labels[node]] = around
        if len(found) == _SHOWN:
            break
    return list(found.values()) or [neighbourhood(read_.graph, labels.index(next(filter(None, labels))), 1)]


def _graph(found: dict[str, Array]) -> LabelledGraph:
    nodes, features = (int(size) for size in found["feat_shape"])
    dense = np.zeros((nodes, features), np.float32)
    counts = np.diff(found["feat_indptr"])
    if len(counts) != nodes or counts.sum() != len(found["feat_indices"]):
        raise ValueError("feat_indptr, feat_indices and feat_shape do not fit together")
    _check_range(found["feat_indices"], 0, features, "feat_indices")
    dense[np.repeat(np.arange(nodes), counts), found["feat_indices"]] = 1
    edges = found["edge_index"]
    if edges.ndim != 2 or len(edges) != 2:
        raise ValueError(f"edge_index has shape {list(edges.shape)}; [2, edge] is wanted")
    _check_range(edges, 0, nodes, "edge_index")
    numbers = found["labels"]
    if "class_names" in found:
        classes = [str(name) for name in found["class_names"]]
    else:
        classes = [f"class {number}" for number in range(int(numbers.max(initial=-1)) + 1)]
    _check_range(numbers, -1, len(classes), "labels")
    names = found.get("node_names", np.array([f"paper {number}" for number in range(nodes)]))
    for kind, texts in (("class_names", classes), ("node_names", names)):
        for place, text in enumerate(map(str, texts)):
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise ValueError(f"{kind}[{place}] holds half of a surrogate pair, which is no character")
    parts = {part: found[f"{part}_mask"].astype(bool) for part in PARTS}
    for name, array in {"labels": numbers, "node_names": names, **parts}.items():
        if len(array) != nodes:
            raise ValueError(f"{name} has {len(array)} entries for {nodes} nodes")
    graph = Graph(dense, np.ascontiguousarray(edges, np.int64), None, tuple(map(str, names)))
    return LabelledGraph(graph, tuple("" if n < 0 else classes[n] for n in numbers.tolist()), parts)


def _check_range(array: Array, least: int, below: int, name: str) -> None:
    if array.size and not least <= array.min() <= array.max() < below:
        raise ValueError(f"{name} has {int(array.min())} to {int(array.max())}; {least} to {below - 1} are possible")


def neighbourhood(graph: Graph, node: int, hops: int) -> Graph:
    """Cut out a node with what it depends on in so many layers: sources of edges to it, sources of edges to those, …

    The node comes first, and all edges between the nodes are kept: what a network of `hops` layers answers for the node
    is what it answers in the whole graph.
    """
    reached = np.zeros(len(graph.nodes), bool)
    reached[node] = True
    sources, targets = graph.edges
    for _ in range(hops):
        reached[sources[reached[targets]]] = True
    order = np.array([node, *(each for each in np.flatnonzero(reached).tolist() if each != node)])
    place = np.full(len(graph.nodes), -1, np.int64)
    place[order] = np.arange(len(order))
    kept = reached[sources] & reached[targets]
    return Graph(
        graph.nodes[order],
        place[graph.edges[:, kept]],
        None if graph.edge_features is None else graph.edge_features[kept],
        tuple(graph.names[each] for each in order) if graph.names else (),
    )
