"""A plan carried out on weights: what comes out, in which order, and how large it is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.maps import MapWeights
from limelight_service.attention.options import Encoding, HeadReduction, Options, Selection
from limelight_service.attention.plan import AttentionPlan, check_instance, parts_of, plan_attention
from limelight_service.attention.size import AxisSizes, attention_bytes, fitting
from limelight_service.engine.attention.apply import apply
from limelight_service.engine.attention.part import Finished
from tests.service.attention.descriptions import encoder, framed, keyed, labels_of, map_of

SIZES = {"tokens": 3, "output": 2, "word": 4, "sentence": 2}
LABELS = labels_of(SIZES)


def softmax_maps(descriptions: list[model_pb2.MapDescription], sizes: dict[str, int]) -> dict[str, MapWeights]:
    """Draw weights whose rows sum to 1."""
    random = np.random.default_rng(0)
    maps = {}
    for each in descriptions:
        shape = (each.heads, sizes[each.query_labels], sizes[each.key_labels])
        weights = random.random(shape, dtype=np.float32)
        maps[each.name] = MapWeights(weights / weights.sum(axis=-1, keepdims=True))
    return maps


def one(
    description: model_pb2.MapDescription, weights: MapWeights, options: Options, step: int | None = None
) -> Finished:
    (finished,) = apply(plan_attention([description], options), keyed({description.name: weights}), LABELS, step).maps
    return finished


def word_edges() -> tuple[model_pb2.MapDescription, MapWeights]:
    """Make a map of edges: words 0 and 1 in sentence 0, words 2 and 3 in sentence 1."""
    description = map_of("word", heads=1, query_labels="sentence", key_labels="word", form=model_pb2.MAP_FORM_EDGES)
    query, key = np.array([0, 0, 1, 1], np.int32), np.arange(4, dtype=np.int32)
    return description, MapWeights(np.array([[0.25, 0.75, 1.0, 0.0]], np.float32), query, key)


def test_everything_whole_is_the_models_own_weights_in_the_models_order() -> None:
    descriptions = encoder()
    maps = softmax_maps(descriptions, SIZES)
    finished = apply(plan_attention(descriptions, Options()), keyed(maps), LABELS).maps
    assert [each.part.description.name for each in finished] == [each.name for each in descriptions]
    for each in finished:
        np.testing.assert_array_equal(each.weights, maps[each.part.description.name].weights)
        assert (tuple(each.part.heads), each.part.queries, each.part.keys, each.scales) == ((0, 1), None, None, None)


def test_a_selection_cuts_every_axis_and_says_which_indices_are_left() -> None:
    description = map_of("encoder.0.self")
    weights = MapWeights(np.arange(18, dtype=np.float32).reshape(2, 3, 3))
    finished = one(description, weights, Options((Selection(heads=(-1,), queries=(0, 2), keys=(-1,)),)))
    assert finished.weights.tolist() == [[[11.0], [17.0]]]
    assert finished.part.heads == (1,)
    assert finished.part.queries is not None and finished.part.queries.tolist() == [0, 2]
    assert finished.part.keys is not None and finished.part.keys.tolist() == [2]


def test_edges_are_cut_to_the_queries_and_keys_selected() -> None:
    description, weights = word_edges()
    finished = one(description, weights, Options((Selection(queries=(-1,)),)))
    assert finished.weights.tolist() == [[1.0, 0.0]]
    assert finished.part.query_index is not None and finished.part.query_index.tolist() == [1, 1]
    assert finished.part.key_index is not None and finished.part.key_index.tolist() == [2, 3]
    assert one(description, weights, Options((Selection(keys=(1, 2)),))).weights.tolist() == [[0.75, 1.0]]


def test_edges_in_uint8_have_a_scale_for_each_query_selected() -> None:
    description, weights = word_edges()
    finished = one(description, weights, Options((Selection(queries=(1,)),), encoding=Encoding.UINT8))
    assert finished.weights.tolist() == [[255, 0]]
    np.testing.assert_allclose(finished.scales, [[1 / 255]])  # type: ignore[arg-type]


def test_what_top_k_keeps_of_a_selection_points_into_the_whole_axis() -> None:
    description = map_of("encoder.0.self", heads=1)
    weights = MapWeights(np.array([[[1, 0, 0], [0, 0, 1], [0, 0.6, 0.4]]], np.float32))
    finished = one(description, weights, Options((Selection(queries=(1, 2), keys=(1, 2)),), top_k=1))
    assert finished.part.queries is not None and finished.part.queries.tolist() == [1, 2]
    assert finished.part.key_index is not None and finished.part.key_index.tolist() == [[[2], [1]]]
    np.testing.assert_allclose(finished.weights, [[[1.0], [0.6]]], rtol=1e-6)


def test_what_top_k_keeps_of_edges_points_into_the_whole_axis() -> None:
    description, weights = word_edges()
    finished = one(description, weights, Options((Selection(queries=(-1,)),), top_k=1, encoding=Encoding.UINT8))
    assert not finished.part.has_edges and finished.part.query_index is None
    assert finished.part.key_index is not None and finished.part.key_index.tolist() == [[[2]]]
    assert finished.weights.tolist() == [[[255]]]
    np.testing.assert_allclose(finished.scales, [[1 / 255]])  # type: ignore[arg-type]


def test_heads_are_reduced_after_they_are_selected() -> None:
    description = map_of("encoder.0.self", heads=3, query_labels="one")
    weights = MapWeights(np.array([[[1, 0, 0]], [[0, 1, 0]], [[0, 0, 1]]], np.float32))
    options = Options((Selection(heads=(0, 1)),), reduce_heads=HeadReduction.MEAN)
    finished = one(description, weights, options)
    assert finished.weights.tolist() == [[[0.5, 0.5, 0.0]]]
    assert (finished.part.heads, finished.part.head_reduction) == ((0, 1), HeadReduction.MEAN)
    assert finished.part.normalised


def test_the_largest_over_heads_does_not_claim_to_sum_to_one() -> None:
    description = map_of("encoder.0.self")
    finished = one(
        description, softmax_maps([description], SIZES)["encoder.0.self"], Options(reduce_heads=HeadReduction.MAX)
    )
    assert not finished.part.normalised
    assert description.normalised


def test_a_rollout_replaces_the_self_maps_of_a_stack_and_leaves_the_others() -> None:
    descriptions = encoder()
    maps = softmax_maps(descriptions, SIZES)
    finished = apply(plan_attention(descriptions, Options(rollout=True)), keyed(maps), LABELS).maps
    assert [each.part.description.name for each in finished] == ["encoder.rollout", "decoder.0.cross"]
    expected = np.eye(3)
    for layer in range(3):  # in float64, row by row, as the paper writes it
        mixed = 0.5 * maps[f"encoder.{layer}.self"].weights.astype(np.float64).mean(axis=0) + 0.5 * np.eye(3)
        expected = (mixed / mixed.sum(axis=-1, keepdims=True)) @ expected
    np.testing.assert_allclose(finished[0].weights, expected[np.newaxis], atol=1e-6)


def test_a_rollout_of_some_layers_takes_those_alone() -> None:
    descriptions = encoder()
    maps = softmax_maps(descriptions, SIZES)
    plan = plan_attention(descriptions, Options((Selection(("enc*",), (1,)),), rollout=True))
    (finished,) = apply(plan, keyed(maps), LABELS).maps
    mixed = 0.5 * maps["encoder.1.self"].weights.mean(axis=0) + 0.5 * np.eye(3)
    np.testing.assert_allclose(finished.weights[0], mixed, atol=1e-6)


@pytest.mark.parametrize(
    ("description", "options", "field"),
    [
        (map_of("word", kind=attention_pb2.MAP_KIND_POOL), Options(rollout=True), "rollout"),
        (map_of("e.0.self", key_labels="other"), Options(rollout=True), "rollout"),
        (map_of("e.0.self", form=model_pb2.MAP_FORM_EDGES), Options(rollout=True), "rollout"),
        (map_of("e.0.self", signed=True), Options(rollout=True), "rollout"),
        (map_of("e.0.self"), Options((Selection(queries=(0,)),), rollout=True), "rollout"),
        (map_of("e.0.self", signed=True), Options(encoding=Encoding.UINT8), "encoding"),
        (map_of("e.0.self", features=4), Options(top_k=1), "top_k"),
    ],
)
def test_what_cannot_be_done_to_a_map_is_refused_before_anything_runs(
    description: model_pb2.MapDescription, options: Options, field: str
) -> None:
    with pytest.raises(InputError) as caught:
        plan_attention([description], options)
    assert caught.value.field == f"attention.{field}"


def test_indices_are_checked_as_far_as_sizes_are_known() -> None:
    plan = plan_attention(encoder(), Options((Selection(("decoder.*",), queries=(9,), keys=(2,)),)))
    check_instance(plan, labels_of({"tokens": 3}))  # how many steps there will be is not known yet
    with pytest.raises(InputError, match=r"there are 2 queries of decoder\.0\.cross"):
        check_instance(plan, labels_of({"tokens": 3, "output": 2}))
    with pytest.raises(InputError, match="there are 2 keys"):
        check_instance(plan, labels_of({"tokens": 2}))


def test_a_map_of_one_step_stands_for_that_step() -> None:
    description = map_of("decoder.0.cross", heads=1, query_labels="output")
    weights = MapWeights(np.array([[[0.1, 0.7, 0.2]]], np.float32))
    whole = one(description, weights, Options(), step=5)
    assert whole.part.queries is not None and whole.part.queries.tolist() == [5]
    best = one(description, weights, Options(top_k=1, encoding=Encoding.UINT8), step=5)
    assert best.part.queries is not None and best.part.queries.tolist() == [5]
    assert best.part.key_index is not None and best.part.key_index.tolist() == [[[1]]]
    assert best.scales is not None and best.scales.shape == (1, 1)


selections = st.builds(
    Selection,
    layers=st.sampled_from([(), (0,), (-1,)]),
    heads=st.sampled_from([(), (0,), (-1, 0)]),
    queries=st.sampled_from([(), (0,), (0, -1)]),
    keys=st.sampled_from([(), (0,), (0, 1, -1)]),
)
some_options = st.builds(
    Options,
    st.lists(selections, max_size=2).map(tuple),
    reduce_heads=st.sampled_from(HeadReduction),
    top_k=st.sampled_from([0, 1, 3, 100]),
    encoding=st.sampled_from(Encoding),
)


@given(some_options, st.integers(3, 40), st.integers(3, 40))
def test_the_size_known_beforehand_is_never_too_small_and_tight_for_rectangles(
    options: Options, tokens: int, output: int
) -> None:
    descriptions = encoder(heads=4)
    sizes = {"tokens": tokens, "output": output}
    plan = plan_attention(descriptions, options)
    bound = attention_bytes(plan, AxisSizes(sizes, {}))
    finished = apply(plan, keyed(softmax_maps(descriptions, sizes)), labels_of(sizes)).maps
    size = sum(framed(each).size for each in finished)
    assert size <= bound
    if not options.top_k:
        assert bound <= 1.05 * size + 130 * len(finished)


@given(some_options, st.sampled_from(list(Encoding)))
def test_where_a_plan_says_that_halves_are_enough_it_makes_the_same_of_them(
    options: Options, encoding: Encoding
) -> None:
    options = replace(options, encoding=encoding)
    descriptions, labels = encoder(), labels_of({"tokens": 5, "output": 4})
    plan = plan_attention(descriptions, options)
    maps = softmax_maps(descriptions, {"tokens": 5, "output": 4})
    enough = [key[0] for key, part in parts_of(plan, labels).items() if part.half]
    if not any(selection.keys for selection in options.selections):
        plain = options.reduce_heads is HeadReduction.NONE and not options.top_k
        assert bool(enough) == (plain and encoding is Encoding.FLOAT16)
    rounded = {
        name: replace(each, weights=each.weights.astype(np.float16)) if name in enough else each
        for name, each in maps.items()
    }
    for found, expected in zip(
        apply(plan, keyed(rounded), labels).maps, apply(plan, keyed(maps), labels).maps, strict=True
    ):
        np.testing.assert_array_equal(found.weights, expected.weights)


def test_the_size_of_edges_is_bounded_too() -> None:
    description, weights = word_edges()
    for encoding in Encoding:
        plan = plan_attention([description], Options(encoding=encoding))
        (finished,) = apply(plan, keyed({"word": weights}), LABELS).maps
        assert framed(finished).size <= attention_bytes(plan, AxisSizes(SIZES, {}))


@given(st.integers(400, 600_000))
def test_what_is_said_to_fit_does_fit(limit: int) -> None:
    descriptions = encoder(layers=4, heads=8)
    sizes = AxisSizes({"tokens": 64, "output": 10}, {})

    def measure(plan: AttentionPlan) -> int:
        return attention_bytes(plan, sizes)

    words = fitting(descriptions, Options(), limit, measure)
    if words:
        assert int(words.rsplit("(", 1)[1].split()[0]) <= limit
    else:
        assert limit < 1000  # even one row of the last layer is larger


def test_the_mildest_change_that_fits_is_named() -> None:
    descriptions = encoder(layers=4, heads=8)
    sizes = AxisSizes({"tokens": 64, "output": 10}, {})
    whole = attention_bytes(plan_attention(descriptions, Options()), sizes)
    words = fitting(descriptions, Options(), whole - 1, lambda plan: attention_bytes(plan, sizes))
    assert words.startswith("encoding FLOAT16 would fit")
