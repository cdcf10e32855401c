"""Maps and label sets read from messages small enough to check by hand."""

import numpy as np
import pytest

from limelight.labels import read_label_sets
from limelight.maps import read_map
from limelight.tensors import to_tensor
from limelight.v1 import attention_pb2 as attention
from limelight.v1 import values_pb2
from limelight.values import to_instance

WORDS = attention.LabelSet(
    name="words",
    kind="LABEL_KIND_TOKENS",
    size=3,
    tokens=[
        attention.Token(text="[CLS]", special=True),
        attention.Token(text="big", start=0, end=3),
        attention.Token(text="cat", start=4, end=7),
    ],
)

ONE = to_tensor(np.array([0], np.int32))


def message(weights: np.ndarray, **fields: object) -> attention.AttentionMap:
    labels = {"query_labels": "words", "key_labels": "words"}
    return attention.AttentionMap(name="m", weights=to_tensor(weights), **(labels | fields))  # type: ignore[arg-type]


def labels() -> dict:
    return read_label_sets([WORDS])


def test_a_dense_map_keeps_its_axes_and_labels():
    weights = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    each = read_map(message(weights, heads=[0, 1], kind="MAP_KIND_SELF", layer=0, normalised=True), labels())
    assert (each.axes, each.kind, each.layer, each.normalised, each.signed) == (
        ("head", "query", "key"),
        "self",
        0,
        True,
        False,
    )
    assert each.query.labels == each.key.labels == ("[CLS]", "big", "cat")
    assert each.key.special == (True, False, False)
    assert each.key.offsets == ((0, 0), (0, 3), (4, 7))
    np.testing.assert_array_equal(each.head(1), weights[1])
    np.testing.assert_array_equal(each.mean_over_heads(), weights.mean(axis=0))
    assert read_map(message(weights), labels()).layer is None


def test_a_selection_labels_what_is_there():
    weights = np.array([[[0.25, 0.75]]], np.float32)
    each = read_map(message(weights, heads=[5], queries=[2], keys=[0, 1]), labels())
    assert each.query.labels == ("cat",)
    assert each.key.labels == ("[CLS]", "big")
    assert each.key.indices == (0, 1)
    assert each.head(5).tolist() == [[0.25, 0.75]]
    with pytest.raises(IndexError, match=r"\[5\].*not 0"):
        each.head(0)


def test_edges_are_densified_with_zeros_elsewhere():
    index = [np.array(values, np.int32) for values in ([0, 0, 2], [1, 2, 0])]
    each = read_map(
        message(
            np.array([[0.25, 0.75, 1.0]], np.float32),
            heads=[0],
            query_index=to_tensor(index[0]),
            key_index=to_tensor(index[1]),
        ),
        labels(),
    )
    assert each.axes == ("head", "edge")
    assert each.edges is not None and len(each.edges) == 3
    assert each.dense().tolist() == [[[0, 0.25, 0.75], [0, 0, 0], [1, 0, 0]]]


def test_edges_of_a_selection_point_along_the_selected_axes():
    each = read_map(
        message(
            np.array([[0.25, 0.75]], np.float32),
            queries=[1, 2],
            keys=[2],
            query_index=to_tensor(np.array([1, 2], np.int32)),
            key_index=to_tensor(np.array([2, 2], np.int32)),
        ),
        labels(),
    )
    assert each.edges is not None
    assert each.edges.query_index.tolist() == [0, 1]
    assert each.edges.key_index.tolist() == [0, 0]
    assert each.dense().tolist() == [[[0.25], [0.75]]]


def test_half_precision_comes_as_float32():
    weights = np.full((1, 3, 3), 0.5, np.float16)
    each = read_map(message(weights), labels())
    assert each.weights.dtype == np.float32
    assert each.weights.tolist() == weights.tolist()


def test_bytes_are_scaled_by_row():
    weights = np.array([[[255, 0, 51], [0, 255, 0], [0, 0, 0]]], np.uint8)
    scales = np.array([[1 / 255, 0.5 / 255, 0]], np.float32)
    each = read_map(message(weights, scales=to_tensor(scales)), labels())
    np.testing.assert_allclose(each.weights, [[[1, 0, 0.2], [0, 0.5, 0], [0, 0, 0]]], rtol=1e-6)


def test_bytes_of_edges_are_scaled_by_the_row_of_their_query():
    weights = np.array([[255, 51, 255]], np.uint8)
    each = read_map(
        message(
            weights,
            scales=to_tensor(np.array([[1 / 255, 7, 0.5 / 255]], np.float32)),
            query_index=to_tensor(np.array([0, 0, 2], np.int32)),
            key_index=to_tensor(np.array([0, 1, 2], np.int32)),
        ),
        labels(),
    )
    np.testing.assert_allclose(each.weights, [[1, 0.2, 0.5]], rtol=1e-6)


def test_multidimensional_maps_have_a_feature_axis_and_scales_spread_over_it():
    weights = np.full((1, 3, 3, 2), 100, np.uint8)
    each = read_map(message(weights, scales=to_tensor(np.array([[0.01, 0.02, 0.03]], np.float32))), labels())
    assert each.axes == ("head", "query", "key", "feature")
    np.testing.assert_allclose(each.weights[0, :, 0, 1], [1, 2, 3], rtol=1e-6)
    assert each.mean_over_heads().shape == (3, 3)


@pytest.mark.parametrize(
    ("weights", "fields", "says"),
    [
        (np.zeros((1, 2, 3), np.float32), {}, "weights"),
        (np.zeros((3, 3), np.float32), {}, "axes"),
        (np.zeros((1, 3, 3), np.float32), {"key_labels": "nowhere"}, "nowhere"),
        (np.zeros((1, 1, 3), np.float32), {"queries": [3]}, "3"),
        (np.zeros((1, 2), np.float32), {"query_index": ONE, "key_index": ONE}, "1 edges"),
        (np.zeros((1, 3, 3), np.uint8), {"scales": to_tensor(np.ones((1, 2), np.float32))}, "scales"),
    ],
)
def test_a_map_whose_parts_do_not_fit_is_refused(weights: np.ndarray, fields: dict, says: str):
    with pytest.raises(ValueError, match=says):
        read_map(message(weights, **fields), labels())


def test_an_edge_to_nowhere_is_refused():
    edges = {"query_index": to_tensor(np.array([0], np.int32)), "key_index": to_tensor(np.array([9], np.int32))}
    with pytest.raises(ValueError, match="entry 9"):
        read_map(message(np.ones((1, 1), np.float32), **edges), labels())


def test_arrays_of_an_answer_cannot_be_written():
    each = read_map(message(np.zeros((1, 3, 3), np.float32)), labels())
    with pytest.raises(ValueError, match="read-only"):
        each.weights[0] = 1


SENTENCES = attention.LabelSet(
    name="sentences",
    kind="LABEL_KIND_SENTENCES",
    size=2,
    tokens=[attention.Token(start=0, end=4), attention.Token(start=5, end=9)],
)
CHILDREN = attention.LabelSet(
    name="inside",
    kind="LABEL_KIND_TOKENS",
    size=3,
    parent="sentences",
    tokens=[
        attention.Token(text="Ça", parent=0),
        attention.Token(text="va", parent=1),
        attention.Token(text="!", parent=1),
    ],
)


@pytest.mark.parametrize(
    ("inputs", "texts"),
    [
        # Offsets count code points: the emoji is one.
        ({"document": "Ça 🙂. Oui."}, ("Ça 🙂", " Oui")),
        ({"document": ["First.", "Second."]}, ("First.", "Second.")),
        ({"title": "one", "body": "two"}, ("Ça", "va !")),
        ({"ids": np.zeros(2, np.int32)}, ("Ça", "va !")),
    ],
)
def test_sentences_are_named_by_their_text(inputs: dict, texts: tuple[str, ...]):
    found = read_label_sets([SENTENCES, CHILDREN], to_instance(inputs))
    assert found["sentences"].labels == texts


def test_a_grid_names_its_cells_after_the_leading_entries():
    grid = attention.Grid(rows=2, columns=2, leading=["[class]"])
    found = read_label_sets([attention.LabelSet(name="patches", kind="LABEL_KIND_GRID", size=5, grid=grid)])["patches"]
    assert found.labels == ("[class]", "r0c0", "r0c1", "r1c0", "r1c1")
    assert found.special == (True, False, False, False, False)
    assert found.take([1, 2]).grid is None


def test_entries_without_names_are_counted():
    sets = [
        attention.LabelSet(name="hops", kind="LABEL_KIND_HOPS", size=2),
        attention.LabelSet(name="whole", kind="LABEL_KIND_ONE", size=1),
        attention.LabelSet(name="classes", kind="LABEL_KIND_CLASSES", size=2, names=["a", "b"]),
        attention.LabelSet(name="new", kind=99, size=1),  # type: ignore[arg-type]
    ]
    found = read_label_sets(sets)
    assert [found[name].labels for name in ("hops", "whole", "classes")] == [("hop 0", "hop 1"), ("whole",), ("a", "b")]
    assert found["new"].kind == "unknown 99"


def test_a_label_set_that_lists_too_few_entries_is_refused():
    with pytest.raises(ValueError, match="3 entries"):
        read_label_sets([attention.LabelSet(name="classes", size=3, names=["a"])])


def test_an_instance_is_passed_through():
    instance = values_pb2.Instance()
    assert to_instance(instance) is instance
