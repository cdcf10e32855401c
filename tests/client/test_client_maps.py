"""Maps and label sets read from messages small enough to check by hand."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import limelight
import limelight.figures
from limelight.base.tensors import to_array, to_tensor
from limelight.base.values import to_instance
from limelight.labels import read_label_sets
from limelight.maps import read_map
from limelight.v1 import attention_pb2 as attention
from limelight.v1 import values_pb2

WORDS = attention.LabelSet(
    name="words",
    kind="LABEL_KIND_TOKENS",
    size=3,
    texts=["[CLS]", "big", "cat"],
    starts=[0, 0, 4],
    ends=[0, 3, 7],
    ids=[101, 7, 8],
    special=[True, False, False],
    inputs=["text"],
)

NAMES = ("[CLS]", "big", "cat", "sat", "here")
SIZE = len(NAMES)
ONE = to_tensor(np.array([0], np.int32))


def message(weights: np.ndarray, **fields: object) -> attention.AttentionMap:
    labels = {"query_labels": "words", "key_labels": "words", "heads": range(len(weights))}
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
    assert each.key.special.tolist() == [True, False, False]
    assert each.key.offsets == ((0, 0), (0, 3), (4, 7))
    assert each.key.ids.tolist() == [101, 7, 8]
    assert each.key.origins == ("text",) * 3
    assert (each.quantity, each.head_reduction, each.left_out) == ("weights", None, None)
    assert read_map(message(weights), labels()).layer is None


@st.composite
def sent(draw: st.DrawFn) -> tuple[attention.AttentionMap, np.ndarray]:
    """A map of any form, encoding and selection; and its matrix [head, query, key] (feature), NaN where it has none."""
    axis = st.none() | st.lists(st.integers(0, SIZE - 1), min_size=1, unique=True)
    form, dtype = draw(st.sampled_from(["dense", "edges", "top_k"])), draw(st.sampled_from("f4 f2 u1".split()))
    queries, keys = draw(axis), draw(axis)
    heads = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True))
    features = (2,) * (form != "top_k" and draw(st.booleans()))
    rows, columns = (range(SIZE) if each is None else each for each in (queries, keys))
    shape = (len(heads), len(rows), len(columns))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    numbers = random.integers(0, 256, (*shape, *features)).astype(np.float32)
    scales = random.choice(np.array([0.5, 0.25, 2.0], np.float32), shape[:2])
    whole = numbers * scales.reshape(*scales.shape, 1, *(1 for _ in features)) if dtype == "u1" else numbers / 256
    fields: dict[str, object] = {"heads": heads, "queries": queries or [], "keys": keys or []}
    if dtype == "u1":
        fields["scales"] = to_tensor(scales)
    values, there = (numbers if dtype == "u1" else whole), random.random(shape) < 0.6
    if form == "edges":
        there[:] = there[0]
        edges = np.argwhere(there[0])
        values = values[:, edges[:, 0], edges[:, 1]]
        fields["query_index"] = to_tensor(np.array([rows[query] for query in edges[:, 0]], np.int32))
        fields["key_index"] = to_tensor(np.array([columns[key] for key in edges[:, 1]], np.int32))
    elif form == "top_k":
        most = max(1, int(there.sum(axis=2).max()))
        order = np.argsort(~there, axis=2, kind="stable")[..., :most]
        values, kept = np.take_along_axis(values, order, 2), np.take_along_axis(there, order, 2)
        fields["key_index"] = to_tensor(np.where(kept, np.array(columns)[order], -1).astype(np.int32))
        fields["left_out"] = to_tensor(np.where(there, 0, whole).sum(axis=2))
    else:
        there[:] = True
    made = message(values.astype(dtype), **fields)
    return made, np.where(there.reshape(*shape, *(1 for _ in features)), whole, np.nan)


@given(sent())
def test_a_map_of_any_form_encoding_and_selection_has_its_values_where_they_belong(drawn: tuple) -> None:
    made, whole = drawn
    each = read_map(made, read_label_sets([attention.LabelSet(name="words", size=SIZE, texts=NAMES)]))
    np.testing.assert_array_equal(each.dense(absent=np.nan), whole)
    np.testing.assert_array_equal(each.dense(), np.nan_to_num(whole))
    values = whole if whole.ndim == 3 else whole[..., 0]
    assert each.present().tolist() == (~np.isnan(values)).tolist()
    assert each.weights.dtype == np.float32 and not each.weights.flags.writeable
    np.testing.assert_array_equal(each.head(made.heads[-1]), np.nan_to_num(whole[-1]))
    mean = np.nan_to_num(whole if whole.ndim == 3 else whole.mean(axis=3)).mean(axis=0)
    np.testing.assert_allclose(each.mean_over_heads(), mean, rtol=1e-5)
    form = ("edge",) if made.HasField("query_index") else ("query", "place" if made.HasField("key_index") else "key")
    assert each.axes == ("head", *form, *("feature",) * (whole.ndim - 3))
    for labels, chosen in ((each.query, made.queries), (each.key, made.keys)):
        assert labels.labels == tuple(NAMES[number] for number in chosen or range(SIZE))
    document = each.to_dict()
    indices = [name for name in ("query_index", "key_index") if made.HasField(name)]
    places = {name: to_array(getattr(made, name)).tolist() for name in indices}
    assert document["edges"] == (places if len(places) == 2 else None)
    assert document["key_index"] == (places["key_index"] if len(places) == 1 else None)
    if each.left_out is not None:
        assert each.left_out.shape == whole.shape[:2]


def test_a_head_that_is_not_there_is_named() -> None:
    with pytest.raises(IndexError, match=r"\[5\].*not 0"):
        read_map(message(np.zeros((1, 3, 3), np.float32), heads=[5]), labels()).head(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_scores_are_absent_where_no_attention_is_possible(dtype: type):
    impossible = np.finfo(dtype).min
    weights = np.array([[[-1.5, impossible, 2.0]] * 3], dtype)
    each = read_map(message(weights, quantity="QUANTITY_SCORES", signed=True), labels())
    assert (each.quantity, each.signed) == ("scores", True)
    assert each.present()[0].tolist() == [[True, False, True]] * 3
    assert each.weights[0, 0, 1] == np.finfo(np.float32).min


def test_values_have_no_query_axis(tmp_path: Path):
    vectors = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    fields = {"quantity": "QUANTITY_VALUES", "query_labels": "", "signed": True}
    each = read_map(message(vectors, **fields), labels())
    assert each.summary == "'m': values [head 2, key 3, feature 4], of 'words'"
    assert each.dense().shape == (2, 1, 3, 4) and each.present().shape == (2, 1, 3) and len(each.query) == 1
    np.testing.assert_array_equal(np.asarray(each), vectors)
    np.testing.assert_array_equal(each.head(1), vectors[1])
    np.testing.assert_allclose(each.mean_over_heads(), np.linalg.norm(vectors, axis=2).mean(0)[None], rtol=1e-6)
    (drawn,) = limelight.figures.figures([each])
    assert drawn.title == "m · lengths of values · mean of 2 heads" and drawn.value == "value"
    np.testing.assert_allclose(drawn.rows[0].weights, each.mean_over_heads()[0], rtol=1e-6)
    frame = each.to_pandas()
    assert len(frame) == 24 and frame["value"].tolist() == vectors.ravel().tolist()
    assert each.to_xarray().dims == ("head", "query", "key", "feature")
    each.save(tmp_path / "values.npz")
    np.testing.assert_array_equal(limelight.load(tmp_path / "values.npz").weights, vectors)
    for what in (each.by_words, each.hide_special):
        with pytest.raises(ValueError, match="of values"):
            what()
    part = read_map(message(vectors[:, 1:], keys=[1, 2], **fields), labels())
    assert part.key.labels == ("big", "cat")
    for wrong in (vectors[:, :2], vectors[0], vectors[:, None]):
        with pytest.raises(ValueError, match="has values"):
            read_map(message(wrong, **fields), labels())


def test_a_reduction_over_heads_is_stated_and_keeps_the_heads_that_went_into_it():
    weights = np.full((1, 3, 3), 0.5, np.float32)
    each = read_map(message(weights, heads=[2, 5], head_reduction="HEAD_REDUCTION_MAX"), labels())
    assert (each.head_reduction, each.heads) == ("max", (2, 5))
    with pytest.raises(IndexError, match=r"the max of the heads \[2, 5\] alone"):
        each.head(2)
    alone = read_map(message(weights, heads=[2], head_reduction="HEAD_REDUCTION_MEAN"), labels())
    assert alone.head(2).tolist() == weights[0].tolist()


def test_heads_and_features_can_have_names():
    sets = [
        WORDS,
        attention.LabelSet(name="who", kind="LABEL_KIND_REPRESENTATIONS", size=2, texts=["letters", "sounds"]),
        attention.LabelSet(name="what", kind="LABEL_KIND_CLASSES", size=1, texts=["place"]),
    ]
    weights = np.zeros((2, 3, 3, 1), np.float32)
    each = read_map(message(weights, head_labels="who", feature_labels="what"), read_label_sets(sets))
    assert each.head_labels is not None and each.head_labels.labels == ("letters", "sounds")
    assert each.feature_labels is not None and each.feature_labels.labels == ("place",)


@pytest.mark.parametrize(
    ("weights", "fields", "says"),
    [
        (np.zeros((1, 2, 3), np.float32), {}, "weights"),
        (np.zeros((3, 3), np.float32), {}, "axes"),
        (np.zeros((1, 3, 3), np.float32), {"key_labels": "nowhere"}, "nowhere"),
        (np.zeros((1, 1, 3), np.float32), {"queries": [3]}, "3"),
        (np.zeros((1, 2), np.float32), {"query_index": ONE, "key_index": ONE}, "1 edges"),
        (np.zeros((1, 3, 2), np.float32), {"key_index": ONE}, "at keys"),
        (np.zeros((1, 2, 1), np.float32), {"key_index": to_tensor(np.zeros((1, 2, 1), np.int32))}, "at keys"),
        (np.zeros((1, 3, 1), np.float32), {"key_index": to_tensor(np.full((1, 3, 1), 3, np.int32))}, "entry 3"),
        (np.zeros((1, 3, 1), np.float32), {"key_index": to_tensor(np.full((1, 3, 1), -2, np.int32))}, "entry -2"),
        (np.zeros((1, 3, 3), np.uint8), {"scales": to_tensor(np.ones((1, 2), np.float32))}, "scales"),
        (np.zeros((1, 3, 3), np.float32), {"left_out": to_tensor(np.ones((1, 2), np.float32))}, "left out"),
        (np.zeros((2, 3, 3), np.float32), {"head_reduction": "HEAD_REDUCTION_MEAN"}, "heads"),
        (np.zeros((2, 3, 3), np.float32), {"heads": [0]}, "heads"),
        (np.ones((1, 1), np.float32), {"query_index": ONE, "key_index": to_tensor(np.array([9], np.int32))}, "entry 9"),
        (np.ones((1, 1), np.float32), {"queries": [1], "query_index": ONE, "key_index": ONE}, "not selected"),
    ],
)
def test_a_map_whose_parts_do_not_fit_is_refused(weights: np.ndarray, fields: dict, says: str):
    with pytest.raises(ValueError, match=says):
        read_map(message(weights, **fields), labels())


SENTENCES = attention.LabelSet(name="sentences", kind="LABEL_KIND_SENTENCES", size=2, starts=[0, 5], ends=[4, 9])
CHILDREN = attention.LabelSet(
    name="inside",
    kind="LABEL_KIND_TOKENS",
    size=3,
    parent="sentences",
    texts=["Ça", "va", "!"],
    parents=[0, 1, 1],
)


@pytest.mark.parametrize(
    ("inputs", "texts"),
    [
        # Offsets count code points: the emoji is one.
        ({"document": "Ça 🙂. Oui."}, ("Ça 🙂", " Oui")),
        ({"document": ["First.", "Second."]}, ("First.", "Second.")),
        ({"question": "Who?", "document": ["First.", "Second."]}, ("First.", "Second.")),
        # Cut to the model's limits: the first ones are left.
        ({"document": ["First.", "Second.", "Third."]}, ("First.", "Second.")),
        ({"title": "one", "body": "two"}, ("Ça", "va !")),
        ({"ids": np.zeros(2, np.int32)}, ("Ça", "va !")),
    ],
)
def test_sentences_are_named_by_their_text(inputs: dict, texts: tuple[str, ...]):
    named = attention.LabelSet(inputs=["document"] if "question" in inputs else [])
    named.MergeFrom(SENTENCES)
    found = read_label_sets([named, CHILDREN], to_instance(inputs))
    assert found["sentences"].labels == texts


def test_a_grid_names_its_cells_after_the_leading_entries():
    grid = attention.Grid(rows=2, columns=2, leading=["[class]"])
    found = read_label_sets([attention.LabelSet(name="patches", kind="LABEL_KIND_GRID", size=5, grid=grid)])["patches"]
    assert found.labels == ("[class]", "r0c0", "r0c1", "r1c0", "r1c1")
    assert found.special.tolist() == [True, False, False, False, False]
    assert found.take([0, 2]).special.tolist() == [True, False]
    assert found.region(1) is None, "tensors were sent, and no image"
    assert found.grid is not None
    with pytest.raises(ValueError, match="no image"):
        found.grid.cell(0, 0)


def test_a_cell_has_its_rectangle_in_the_image_that_was_sent():
    region = attention.Region(left=20, top=0, right=120, bottom=50)
    grid = attention.Grid(rows=2, columns=4, leading=["[class]"], region=region)
    found = read_label_sets([attention.LabelSet(name="patches", kind="LABEL_KIND_GRID", size=9, grid=grid)])["patches"]
    assert found.region(0) is None, "the class token has no place in the image"
    # Entry 7 is the third cell of the second row.
    assert found.region(7) == limelight.Region(70, 25, 95, 50)
    assert found.region(-1) == limelight.Region(95, 25, 120, 50)
    part = found.take([7, 8])
    assert [part.region(index) for index in (0, 1)] == [found.region(7), found.region(8)]
    assert found.grid is not None and found.grid.cell(0, 0).box == (20, 0, 45, 25)
    with pytest.raises(IndexError, match="2, 0"):
        found.grid.cell(2, 0)


def test_entries_without_names_are_counted():
    sets = [
        attention.LabelSet(name="hops", kind="LABEL_KIND_HOPS", size=2),
        attention.LabelSet(name="whole", kind="LABEL_KIND_ONE", size=1),
        attention.LabelSet(name="classes", kind="LABEL_KIND_CLASSES", size=2, texts=["a", "b"]),
        attention.LabelSet(name="new", kind=99, size=1),  # type: ignore[arg-type]
    ]
    found = read_label_sets(sets)
    assert [found[name].labels for name in ("hops", "whole", "classes")] == [("hop 0", "hop 1"), ("whole",), ("a", "b")]
    assert found["new"].kind == "unknown 99"
    assert not found["hops"].special.any()
    assert len(found["hops"].offsets) == len(found["hops"].ids) == len(found["hops"].origins) == 0


def test_the_entries_of_a_pair_say_which_text_they_are_of():
    found = read_label_sets(
        [
            attention.LabelSet(
                name="tokens",
                kind="LABEL_KIND_TOKENS",
                size=3,
                texts=["Why", "[SEP]", "Rain"],
                inputs=["pair.first", "pair.second"],
                input_indices=[0, 0, 1],
            )
        ]
    )["tokens"]
    assert found.origins == ("pair.first", "pair.first", "pair.second")
    assert found.take([2]).origins == ("pair.second",)


def test_ranges_are_named_by_their_first_and_last_entry():
    ranges = attention.LabelSet(
        name="words.key_ranges", kind="LABEL_KIND_RANGES", size=2, starts=[0, 2], ends=[2, 3], parent="words"
    )
    assert read_label_sets([WORDS, ranges])["words.key_ranges"].labels == ("[CLS] … big", "cat")
    assert read_label_sets([ranges], shared=read_label_sets([WORDS]))["words.key_ranges"].labels[1] == "cat"
    assert read_label_sets([ranges])["words.key_ranges"].labels == ("range 0", "range 1")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"texts": ["a"]}, "size 3 but 1 entries"),
        ({"ids": [1, 2]}, "3 entries and 2 ids"),
        ({"starts": [0, 0, 0]}, "starts without ends"),
        ({"inputs": ["text"], "input_indices": [0, 0, 1]}, "does not name"),
    ],
)
def test_a_label_set_whose_columns_do_not_fit_is_refused(fields: dict, says: str):
    with pytest.raises(ValueError, match=f"'classes'.*{says}"):
        read_label_sets([attention.LabelSet(name="classes", size=3, **fields)])


@given(
    st.lists(st.tuples(st.text(), st.integers(0, 99), st.integers(0, 99), st.booleans()), min_size=1, max_size=20),
    st.data(),
)
def test_what_is_taken_from_a_label_set_is_what_stands_there(entries: list[tuple], data: st.DataObject):
    texts, starts, ends, special = (list(column) for column in zip(*entries, strict=True))
    columns = {"texts": texts, "starts": starts, "ends": ends, "ids": starts, "special": special, "parents": ends}
    whole = read_label_sets([attention.LabelSet(name="w", size=len(entries), **columns)])["w"]  # type: ignore[arg-type]
    first = data.draw(st.lists(st.integers(0, len(entries) - 1)))
    second = data.draw(st.lists(st.integers(0, max(0, len(first) - 1)), max_size=len(first)))
    part = whole.take(first).take(second)
    numbers = [first[place] for place in second]
    assert part.indices == tuple(numbers)
    assert part.labels == tuple(texts[number] for number in numbers)
    assert part.offsets == tuple((starts[number], ends[number]) for number in numbers)
    assert part.special.tolist() == [special[number] for number in numbers]
    assert (part.ids.tolist(), part.parents.tolist()) == tuple(
        [column[number] for number in numbers] for column in (starts, ends)
    )


def test_an_instance_is_passed_through():
    instance = values_pb2.Instance()
    assert to_instance(instance) is instance
