"""Rows to batches and back: padding is put on and taken off without a trace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.errors import BundleError
from limelight_bundle.label_sets import fixed_labels
from limelight_bundle.maps import canonical, cut, nested_mask_name
from limelight_bundle.rows import BoundTensor, Labels, Row, bound_tensors, collate
from limelight_bundle.v1 import bundle_pb2
from tests.bundle import small

BATCH, HEAD, QUERY, KEY, FEATURE = (
    bundle_pb2.AXIS_BATCH,
    bundle_pb2.AXIS_HEAD,
    bundle_pb2.AXIS_QUERY,
    bundle_pb2.AXIS_KEY,
    bundle_pb2.AXIS_FEATURE,
)
IDS_DESCRIPTION = model_pb2.TensorDescription(
    name="ids",
    data_type=values_pb2.DATA_TYPE_INT64,
    dimensions=[model_pb2.Dimension(name="sentence"), model_pb2.Dimension(name="word")],
    fill=-7,
)
FRAMES_DESCRIPTION = model_pb2.TensorDescription(
    name="frames", data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=[model_pb2.Dimension(name="frame")]
)
IDS = BoundTensor(IDS_DESCRIPTION, pad_value=-7, mask="ids_mask")
FRAMES = BoundTensor(FRAMES_DESCRIPTION, pad_value=0.5)
DENSE = model_pb2.MapDescription(name="self", query_labels="q", key_labels="k", heads=2, form=model_pb2.MAP_FORM_DENSE)
EDGES = model_pb2.MapDescription(
    name="word", query_labels="sentences", key_labels="words", heads=1, form=model_pb2.MAP_FORM_EDGES
)


def row(lengths: list[int], frames: int, seed: int) -> Row:
    """A ragged row: a sentence of each length."""
    random = np.random.default_rng(seed)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = np.where(mask, random.integers(1, 99, mask.shape), -7)
    labels = {
        "sentences": Labels("sentences", attention_pb2.LABEL_KIND_SENTENCES, len(lengths)),
        "words": Labels("words", attention_pb2.LABEL_KIND_TOKENS, sum(lengths)),
    }
    tensors = {"ids": ids, "ids_mask": mask, "frames": random.random(frames).astype(np.float32)}
    return Row(tensors, {"sentence": len(lengths), "word": max(lengths), "frame": frames}, labels)


ROWS = st.lists(
    st.builds(row, st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 6), st.integers(0, 99)),
    min_size=1,
    max_size=5,
)


@given(ROWS)
def test_a_batch_holds_each_row_and_nothing_but_padding_beside_it(rows: list[Row]) -> None:
    batch = collate(rows, [IDS, FRAMES])
    assert batch["ids"].shape == (
        len(rows),
        max(each.sizes["sentence"] for each in rows),
        max(each.sizes["word"] for each in rows),
    )
    for name, padding in (("ids", -7), ("ids_mask", False), ("frames", 0.5)):
        for place, each in enumerate(rows):
            own = each.tensors[name]
            assert batch[name].dtype == own.dtype
            inside = tuple(slice(size) for size in own.shape)
            np.testing.assert_array_equal(batch[name][place][inside], own)
            outside = np.ones(batch[name].shape[1:], bool)
            outside[inside] = False
            assert (batch[name][place][outside] == padding).all()


@given(ROWS)
def test_cutting_a_batch_of_edges_gives_each_word_its_own_weight(rows: list[Row]) -> None:
    batch = collate(rows, [IDS])
    # Weights that tell where they come from; padding holds what nobody may see.
    weights = np.where(batch["ids_mask"], batch["ids"], -1).astype(np.float32)
    whole = canonical(weights, [BATCH, QUERY, KEY])
    for place, each in enumerate(rows):
        found = cut(whole[place], EDGES, each.labels, each, "ids_mask")
        np.testing.assert_array_equal(found.weights[0], each.tensors["ids"][each.tensors["ids_mask"]])
        lengths = each.tensors["ids_mask"].sum(1)
        np.testing.assert_array_equal(found.query_index, np.repeat(np.arange(len(lengths)), lengths))
        np.testing.assert_array_equal(found.key_index, np.arange(lengths.sum()))
        assert found.query_index is not None and found.query_index.dtype == np.int32


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4), st.integers(0, 3))
def test_cutting_a_dense_batch_undoes_its_padding(sizes: list[tuple[int, int]], features: int) -> None:
    random = np.random.default_rng(0)
    more = (features,) if features else ()
    own = [random.random((2, *size, *more)).astype(np.float32) for size in sizes]
    shape = (len(own), 2, max(q for q, _ in sizes), max(k for _, k in sizes), *more)
    padded = np.full(shape, np.nan, np.float32)
    for place, each in enumerate(own):
        padded[place][:, : each.shape[1], : each.shape[2]] = each
    for place, (queries, keys) in enumerate(sizes):
        kind = attention_pb2.LABEL_KIND_TOKENS
        labels = {"q": Labels("q", kind, queries), "k": Labels("k", kind, keys)}
        found = cut(padded[place], DENSE, labels, Row({}, {}))
        np.testing.assert_array_equal(found.weights, own[place])
        assert found.query_index is None


@given(st.permutations([BATCH, HEAD, QUERY, KEY, FEATURE]), st.sets(st.sampled_from([HEAD, QUERY, FEATURE])))
def test_axes_are_brought_into_order_and_filled_up(axes: list[int], missing: set[int]) -> None:
    present = [axis for axis in axes if axis not in missing]
    sizes = {BATCH: 2, HEAD: 3, QUERY: 4, KEY: 5, FEATURE: 6}
    array = np.arange(np.prod([sizes[axis] for axis in present])).reshape([sizes[axis] for axis in present])
    found = canonical(array, present)
    expected = [1 if axis in missing else sizes[axis] for axis in (BATCH, HEAD, QUERY, KEY)]
    assert list(found.shape) == [*expected, *([] if FEATURE in missing else [6])]
    index = {axis: size - 1 for axis, size in sizes.items()}
    place = tuple(0 if axis in missing else index[axis] for axis in (BATCH, HEAD, QUERY, KEY))
    place += () if FEATURE in missing else (index[FEATURE],)
    assert found[place] == array[tuple(index[axis] for axis in present)]


def test_a_tensor_that_no_row_has_is_left_out() -> None:
    made = collate([Row({"frames": np.zeros(2, np.float32)}, {"frame": 2})], [IDS, FRAMES])
    assert set(made) == {"frames"}


def test_the_mask_of_the_tensor_that_the_keys_come_from() -> None:
    description = small.description()
    tensors = bound_tensors(description.inputs, small.bundle().tensors)
    assert nested_mask_name(description, description.maps[0], tensors) == ""
    description.maps[0].form = model_pb2.MAP_FORM_EDGES
    with pytest.raises(BundleError, match="their tensor has no rows"):
        nested_mask_name(description, description.maps[0], tensors)
    description.inputs[0].tensors[0].dimensions.insert(0, model_pb2.Dimension(name="sentence"))
    tensors = bound_tensors(description.inputs, small.bundle().tensors)
    assert nested_mask_name(description, description.maps[0], tensors) == "ids_mask"


def test_label_sets_that_no_input_decides() -> None:
    description = model_pb2.ModelDescription(
        label_sets=[
            model_pb2.LabelSetDescription(name="one", kind=attention_pb2.LABEL_KIND_ONE),
            model_pb2.LabelSetDescription(name="hops", kind=attention_pb2.LABEL_KIND_HOPS, names=["first", "second"]),
            model_pb2.LabelSetDescription(
                name="cells",
                kind=attention_pb2.LABEL_KIND_GRID,
                grid=attention_pb2.Grid(rows=2, columns=3, leading=["class"]),
            ),
            model_pb2.LabelSetDescription(name="words", kind=attention_pb2.LABEL_KIND_TOKENS, tensor="ids"),
            model_pb2.LabelSetDescription(name="steps", kind=attention_pb2.LABEL_KIND_OUTPUT_STEPS),
        ]
    )
    assert {name: labels.size for name, labels in fixed_labels(description).items()} == {
        "one": 1,
        "hops": 2,
        "cells": 7,
    }
