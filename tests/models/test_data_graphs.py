"""Graphs whose nodes have classes: read from archives, cut to neighbourhoods, made up."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight_bundle.values import Array, Graph
from limelight_models.data import citations, graphs, loads
from limelight_models.data.dataset import DataError, known
from limelight_models.zoo.graph.gat import GatConfig, GraphAttentionNetwork


def arrays(**changes: Array) -> dict[str, Array]:
    """Three papers of two classes, one of which is not known."""
    made = {
        "feat_indptr": np.array([0, 2, 2, 3]),
        "feat_indices": np.array([0, 3, 1]),
        "feat_shape": np.array([3, 4]),
        "edge_index": np.array([[0, 2], [1, 0]]),
        "labels": np.array([1, -1, 0]),
        "train_mask": np.array([True, False, False]),
        "val_mask": np.array([False, False, False]),
        "test_mask": np.array([False, False, True]),
    }
    return {**made, **changes}


def written(folder: Path, content: dict[str, Array]) -> Path:
    path = folder / "graph.npz"
    np.savez(path, **content)  # type: ignore[arg-type]
    return path


def test_a_graph_is_read_as_it_was_written(tmp_path: Path) -> None:
    read = graphs.read(written(tmp_path, arrays()))
    assert read.graph.nodes.tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert read.graph.nodes.dtype == np.float32 and read.graph.edges.dtype == np.int64
    assert read.graph.edges.tolist() == [[0, 2], [1, 0]]
    assert read.graph.names == ("paper 0", "paper 1", "paper 2")
    assert read.labels == ("class 1", "", "class 0")
    assert [read.labels_of(part) for part in graphs.PARTS] == [("class 1", "", ""), ("",) * 3, ("", "", "class 0")]


def test_names_are_taken_where_there_are_any(tmp_path: Path) -> None:
    names = {"class_names": np.array(["theory", "practice"]), "node_names": np.array(["a", "b", "c"])}
    read = graphs.read(written(tmp_path, arrays(**names)))
    assert read.labels == ("practice", "", "theory") and read.graph.names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"edge_index": np.array([[0, 3], [1, 0]])}, "edge_index has 0 to 3; 0 to 2 are possible"),
        ({"edge_index": np.array([0, 1])}, r"edge_index has shape \[2\]; \[2, edge\] is wanted"),
        ({"feat_indices": np.array([0, 4, 1])}, "feat_indices has 0 to 4; 0 to 3 are possible"),
        ({"feat_indptr": np.array([0, 2, 3])}, "do not fit together"),
        ({"labels": np.array([0, 1])}, "labels has 2 entries for 3 nodes"),
        ({"labels": np.array([0, 1, -2])}, "labels has -2 to 1; -1 to 1 are possible"),
        ({"test_mask": np.array([True])}, "test has 1 entries for 3 nodes"),
        ({"node_names": np.array(["a"])}, "node_names has 1 entries for 3 nodes"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, changes: dict[str, Array], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        graphs.read(written(tmp_path, arrays(**changes)))


def test_what_is_missing_or_no_archive_is_refused(tmp_path: Path) -> None:
    content = arrays()
    del content["labels"]
    with pytest.raises(DataError, match="has no array labels"):
        graphs.read(written(tmp_path, content))
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(DataError, match=r"broken\.npz: cannot be read"):
        graphs.read(broken)
    with pytest.raises(DataError, match="cannot be read"):
        graphs.read(written(tmp_path, arrays(labels=np.array([object()] * 3))))


def test_as_a_data_set_every_part_is_the_whole_graph_and_knows_its_own_nodes_only(tmp_path: Path) -> None:
    masks = {f"{part}_mask": np.arange(6) // 2 == place for place, part in enumerate(graphs.PARTS)}
    ring = np.arange(6)
    content = arrays(
        feat_indptr=np.arange(7),
        feat_indices=ring,
        feat_shape=np.array([6, 6]),
        edge_index=np.stack([np.concatenate([ring, ring]), np.concatenate([(ring + 1) % 6, (ring - 1) % 6])]),
        labels=ring % 2,
        **masks,
    )
    made = graphs.dataset(written(tmp_path, content), name="ring", licence="mine")
    assert (made.name, made.licence, made.labels) == ("ring", "mine", ("class 0", "class 1"))
    assert [known(part) for part in (made.train, made.dev, made.test)] == [2, 2, 2]
    (example,) = made.test
    assert example.labels == ("", "", "", "", "class 0", "class 1")
    assert [each["graph"].names for each in made.shown] == [  # type: ignore[union-attr]
        tuple(f"paper {node}" for node in nodes) for nodes in ([4, 0, 2, 3, 5], [5, 0, 1, 3, 4])
    ]
    with pytest.raises(DataError, match="val_mask has no node whose class is known"):
        graphs.dataset(written(tmp_path, arrays()))


@st.composite
def drawn(draw: st.DrawFn) -> Graph:
    """A directed graph in which every node has an edge to itself."""
    nodes = draw(st.integers(1, 9))
    node = st.integers(0, nodes - 1)
    edges = draw(st.sets(st.tuples(node, node), max_size=14)) | {(each, each) for each in range(nodes)}
    features = np.random.default_rng(draw(st.integers(0, 1000))).random((nodes, 3), np.float32)
    return Graph(features, np.array(sorted(edges)).T.copy(), None, tuple(f"n{each}" for each in range(nodes)))


@settings(max_examples=40, deadline=None)
@given(drawn(), st.integers(0, 8), st.integers(1, 2))
def test_a_network_answers_for_a_node_from_its_neighbourhood_alone(graph: Graph, node: int, layers: int) -> None:
    node %= len(graph.nodes)
    torch.manual_seed(0)
    network = GraphAttentionNetwork(GatConfig(features=3, classes=2, hidden_layers=layers - 1)).double().eval()

    def answer(part: Graph) -> torch.Tensor:
        sources, targets = torch.from_numpy(part.edges)
        tensors = {"nodes": torch.from_numpy(part.nodes).double(), "sources": sources, "targets": targets}
        with torch.no_grad():
            return network(**tensors).outputs["logits"]

    part = graphs.neighbourhood(graph, node, layers)
    assert part.names[0] == f"n{node}" and len(part.nodes) <= len(graph.nodes)
    assert torch.allclose(answer(part)[0], answer(graph)[node], atol=1e-12)


def test_made_up_citations_are_the_same_for_the_same_seed_and_cite_what_came_before() -> None:
    made, again = citations.dataset(seed=5, training=4, held_out=2), citations.dataset(seed=5, training=4, held_out=2)
    assert (len(made.train), len(made.dev), len(made.test)) == (4, 2, 2)
    assert made.fingerprint == again.fingerprint != citations.dataset(seed=6, training=4, held_out=2).fingerprint
    for example in (*made.train, *made.dev, *made.test):
        graph = example.instance["graph"]
        assert isinstance(graph, Graph)
        assert len(graph.names) == len(graph.nodes) == len(example.labels)
        assert (graph.edges[0] < graph.edges[1]).all() and len(set(map(tuple, graph.edges.T))) == graph.edges.shape[1]
        digests = graph.nodes[:, citations.DIGEST] == 1
        assert digests.tolist() == [not label for label in example.labels]
    labels = Counter(label for each in citations.dataset(seed=0).train for label in each.labels if label)
    assert set(labels) == set(citations.TOPICS) and min(labels.values()) > 0.2 * sum(labels.values())


def test_a_load_follows_its_own_and_that_of_the_fullest_station_before_it() -> None:
    made = loads.dataset(seed=3, training=20, held_out=2)
    assert made.fingerprint == loads.dataset(seed=3, training=20, held_out=2).fingerprint
    more = []
    for example in made.train:
        graph = example.instance["graph"]
        assert isinstance(graph, Graph) and example.numbers is not None
        series = np.concatenate([graph.nodes, example.numbers], 1)
        for target in range(len(series)):
            before = series[graph.edges[0, graph.edges[1] == target]].max(0)
            more += (series[target, 1:] - 0.5 * series[target, :-1] - 0.45 * before[:-1]).tolist()
    new = [each for each in more if abs(each) > 1e-4]
    assert 0.01 < len(new) / len(more) < 0.03 and min(new) >= 10 and max(new) <= 40


def test_a_series_on_one_graph_is_cut_into_windows_that_do_not_reach_over_its_parts(tmp_path: Path) -> None:
    series, path = np.arange(120.0).reshape(60, 2), tmp_path / "road.npz"
    np.savez(path, series=series, edge_index=np.array([[0], [1]]), steps=np.array([3, 2]))
    made = loads.read(path)
    assert [len(part) for part in (made.train, made.dev, made.test)] == [38, 2, 8]
    first, last = made.dev[0], made.test[-1]
    assert first.instance["graph"].nodes.tolist() == [[84, 86, 88], [85, 87, 89]]  # type: ignore[union-attr]
    assert last.numbers is not None and last.numbers.tolist() == [[116, 118], [117, 119]]
    for changes, complaint in (
        ({"edge_index": np.array([[0], [2]])}, "nodes from 0 to 1"),
        ({"node_names": np.array(["a"])}, "node_names has 1 entries for 2 nodes"),
        ({"series": series[:, 0]}, r"series has shape \[60\]"),
        ({"steps": np.array([4, 3])}, "a tenth of 60 steps holds no window of 4 and 3 steps"),
        ({"steps": np.array([4])}, "series, edge_index and steps as they should be"),
    ):
        np.savez(path, **{"series": series, "edge_index": np.array([[0], [1]]), **changes})  # type: ignore[arg-type]
        with pytest.raises(DataError, match=complaint):
            loads.read(path)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "features", "edges", "sizes", "counts"),
    [
        ("cora", 2708, 1433, 10556, (140, 500, 1000), [351, 217, 418, 818, 426, 298, 180]),
        ("citeseer", 3327, 3703, 9104, (120, 500, 1000), [249, 590, 668, 701, 596, 508]),
    ],
)
def test_the_citation_graphs_are_those_of_the_papers(
    data: Path, name: str, nodes: int, features: int, edges: int, sizes: tuple[int, ...], counts: list[int]
) -> None:
    read = graphs.read(data / "citation_graphs" / f"{name}.npz")
    assert read.graph.nodes.shape == (nodes, features) and read.graph.edges.shape == (2, edges)
    assert tuple(int(read.parts[part].sum()) for part in graphs.PARTS) == sizes
    shown = graphs.dataset(data / "citation_graphs" / f"{name}.npz").shown
    assert len(shown) == 3 and all(3 <= len(each["graph"].nodes) <= 12 for each in shown)  # type: ignore[union-attr]
    classes = Counter(label for label in read.labels if label)
    assert [classes[f"class {number}"] for number in range(len(counts))] == counts
