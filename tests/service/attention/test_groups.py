"""Groups, pooling and top k against loops over every place, and what an answer may claim of its numbers."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.maps import MapWeights
from limelight_bundle.wire import labels_to_wire
from limelight_service.attention.options import (
    Encoding,
    Group,
    Grouping,
    GroupReduction,
    HeadReduction,
    Options,
    Pooling,
    PoolReduction,
    Selection,
)
from limelight_service.attention.plan import plan_attention
from limelight_service.attention.size import AxisSizes, attention_bytes, derived_label_bytes
from limelight_service.engine.attention import grouping
from limelight_service.engine.attention.apply import Applied, apply
from limelight_service.engine.attention.grouping import group_axis
from limelight_service.engine.attention.heads import Floats
from limelight_service.engine.attention.part import Part
from limelight_service.engine.attention.pooling import ranges
from tests.service.attention.descriptions import framed, keyed, labels_of, map_of

SUM, MEAN = GroupReduction.SUM, GroupReduction.MEAN
QUERIES, KEYS, HEADS = 4, 5, 2
SIZES = {"queries": QUERIES, "keys": KEYS}
LOWEST = float(np.finfo(np.float32).min)


def groups(axis: str, members: list[list[int]], reduction: GroupReduction) -> tuple[Grouping, ...]:
    named = tuple(Group(f"group {place}", tuple(each)) for place, each in enumerate(members))
    return (Grouping(("attention", f"{axis}_groups", 0), named, reduction),)


def a_map(form: int = model_pb2.MAP_FORM_DENSE, features: int = 0, **fields: object) -> model_pb2.MapDescription:
    return map_of(
        "layer.0", heads=HEADS, query_labels="queries", key_labels="keys", form=form, features=features, **fields
    )


def whole(seed: int, *, features: int = 0, empty: bool = True, signed: bool = False) -> Floats:
    """Weights [head, query, key, …] whose rows sum to 1; some attend to nothing, some keys get nothing."""
    random = np.random.default_rng(seed)
    shape = (HEADS, QUERIES, KEYS, *([features] if features else []))
    weights = random.random(shape) * (random.random(shape) > 0.3)
    if empty:
        weights[random.random((HEADS, QUERIES)) < 0.2] = 0
    total = weights.sum(axis=2, keepdims=True)
    weights = weights / np.where(total > 0, total, 1)
    return (weights * np.sign(random.random(shape) - 0.5) if signed else weights).astype(np.float32)


def as_edges(weights: Floats) -> MapWeights:
    """The same map as edges; places where no head attends are no edge."""
    there = (weights != 0).any(axis=(0, *range(3, weights.ndim)))
    query, key = np.nonzero(there)
    return MapWeights(weights[:, query, key], query.astype(np.int32), key.astype(np.int32))


def run(weights: Floats, options: Options, *, edges: bool = False, **fields: object) -> Part:
    (part,) = [each.part for each in applied(weights, options, edges=edges, **fields).maps]
    return part


def applied(weights: Floats, options: Options, *, edges: bool = False, **fields: object) -> Applied:
    description = a_map(
        model_pb2.MAP_FORM_EDGES if edges else model_pb2.MAP_FORM_DENSE,
        weights.shape[3] if weights.ndim > 3 else 0,
        **fields,
    )
    plan = plan_attention([description], options)
    maps = keyed({"layer.0": as_edges(weights) if edges else MapWeights(weights)}, options.quantity)
    return apply(plan, maps, labels_of(SIZES))


def some_groups(size: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(-size, size - 1), min_size=1, max_size=size), min_size=1, max_size=4)


maybe = st.none()
seeds = st.integers(0, 1000)
reductions = st.sampled_from(GroupReduction)


def naive_groups(weights: Floats, members: list[list[int]], axis: int, reduction: GroupReduction) -> Floats:
    """Loop over groups and their members."""
    parts = []
    for group in members:
        own = sorted({index % weights.shape[axis] for index in group})
        total = sum(np.take(weights.astype(np.float64), index, axis=axis) for index in own)
        parts.append(total / (len(own) if reduction is MEAN else 1))
    return np.stack(parts, axis=axis)


@settings(max_examples=60, deadline=None)
@given(
    seeds,
    st.none() | some_groups(QUERIES),
    st.none() | some_groups(KEYS),
    reductions,
    reductions,
    st.sampled_from([0, 2]),
    st.booleans(),
)
def test_groups_are_what_loops_over_their_members_give(
    seed: int,
    of_queries: list[list[int]] | None,
    of_keys: list[list[int]] | None,
    query_reduction: GroupReduction,
    key_reduction: GroupReduction,
    features: int,
    edges: bool,
) -> None:
    weights = whole(seed, features=features)
    expected = weights.astype(np.float64)
    options = Options()
    if of_queries is not None:
        expected = naive_groups(expected, of_queries, 1, query_reduction)
        options = replace(options, query_groups=groups("query", of_queries, query_reduction))
    if of_keys is not None:
        expected = naive_groups(expected, of_keys, 2, key_reduction)
        options = replace(options, key_groups=groups("key", of_keys, key_reduction))
    answer = applied(weights, options, edges=edges)
    part = answer.maps[0].part
    if of_queries is None and of_keys is None:
        assert part.has_edges is edges
        return
    np.testing.assert_allclose(part.weights, expected, atol=1e-6)
    assert not part.has_edges and part.queries is None and part.keys is None
    assert part.query_labels == ("queries" if of_queries is None else "queries.query_groups")
    assert part.key_labels == ("keys" if of_keys is None else "keys.key_groups")
    for name, labels in answer.labels.items():
        assert list(labels.texts) == [f"group {place}" for place in range(labels.size)]
        assert labels.parent == name.split(".")[0]


@pytest.mark.parametrize("features", [0, 2])
def test_groups_of_many_edges_are_the_same_a_few_at_a_time(features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = whole(5, features=features)
    members = [[0, 1], [2], [3, 4, 0], [-1], [1, 2]]
    for options in (
        Options(key_groups=groups("key", members, SUM)),
        Options(query_groups=groups("query", [[0], [1, 2], [3, 0]], MEAN)),
        Options(key_groups=groups("key", members, MEAN), query_groups=groups("query", [[0, 3], [1, 2]], SUM)),
    ):
        monkeypatch.undo()
        at_once = run(weights, options, edges=True).weights
        monkeypatch.setattr(grouping, "_MOST_AT_ONCE", 2 * QUERIES * HEADS * max(1, features))
        np.testing.assert_array_equal(run(weights, options, edges=True).weights, at_once)


@settings(max_examples=40, deadline=None)
@given(seeds, some_groups(KEYS), st.lists(st.integers(0, KEYS - 1), min_size=1), st.booleans(), reductions)
def test_members_that_a_selection_left_out_do_not_count(
    seed: int, members: list[list[int]], selected: list[int], edges: bool, reduction: GroupReduction
) -> None:
    weights = whole(seed)
    options = Options((Selection(keys=tuple(selected)),), key_groups=groups("key", members, reduction))
    part = run(weights, options, edges=edges)
    for place, group in enumerate(members):
        own = {index % KEYS for index in group} & set(selected)
        total = sum((weights[:, :, index].astype(np.float64) for index in own), np.zeros((HEADS, QUERIES)))
        divisor = max(1, len(own)) if reduction is MEAN else 1
        np.testing.assert_allclose(part.weights[:, :, place], total / divisor, atol=1e-6)
    assert not part.normalised


@settings(max_examples=40, deadline=None)
@given(seeds, st.lists(st.integers(0, 2), min_size=KEYS, max_size=KEYS), st.booleans())
def test_groups_that_part_the_keys_keep_the_sum_of_every_row(seed: int, owners: list[int], edges: bool) -> None:
    weights = whole(seed)
    members = [[key for key, owner in enumerate(owners) if owner == group] for group in sorted(set(owners))]
    part = run(weights, Options(key_groups=groups("key", members, SUM)), edges=edges)
    np.testing.assert_allclose(part.weights.sum(axis=2), weights.sum(axis=2), atol=1e-6)
    assert part.normalised


@given(seeds, some_groups(KEYS), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_groups_changes_nothing_but_their_order(
    seed: int, members: list[list[int]], random: object, edges: bool
) -> None:
    weights, order = whole(seed), list(range(len(members)))
    random.shuffle(order)  # type: ignore[attr-defined]
    straight = run(weights, Options(key_groups=groups("key", members, SUM)), edges=edges)
    shuffled = run(weights, Options(key_groups=groups("key", [members[place] for place in order], SUM)), edges=edges)
    np.testing.assert_array_equal(shuffled.weights, straight.weights[:, :, order])


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 100])
def test_ranges_part_an_axis_nearly_evenly(size: int) -> None:
    for most in (1, 3, 7, 8, 200):
        bounds = ranges(size, most)
        lengths = np.diff(bounds)
        assert (bounds[0], bounds[-1], len(lengths)) == (0, size, min(size, most))
        assert not len(lengths) or lengths.max() - lengths.min() <= 1


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 6), st.sampled_from(PoolReduction), st.sampled_from([0, 2]), st.booleans(), st.booleans())
def test_a_pooled_cell_is_the_largest_or_the_mean_of_what_it_covers(
    seed: int, most: int, reduction: PoolReduction, features: int, edges: bool, signed: bool
) -> None:
    weights = whole(seed, features=features, signed=signed)
    answer = applied(weights, Options(pool=Pooling(most, reduction)), edges=edges, signed=signed)
    part = answer.maps[0].part
    rows, columns = ranges(QUERIES, most).tolist(), ranges(KEYS, most).tolist()
    assert part.weights.shape[1:3] == (len(rows) - 1, len(columns) - 1) and not part.has_edges
    for (row, (top, bottom)), (column, (left, right)) in itertools.product(
        enumerate(itertools.pairwise(rows)), enumerate(itertools.pairwise(columns))
    ):
        cell = weights[:, top:bottom, left:right].astype(np.float64)
        expected = cell.max(axis=(1, 2)) if reduction is PoolReduction.MAX else cell.mean(axis=(1, 2))
        np.testing.assert_allclose(part.weights[:, row, column], expected, atol=1e-6)
    assert part.query_labels == ("queries.query_ranges" if most < QUERIES else "queries")
    assert part.key_labels == ("keys.key_ranges" if most < KEYS else "keys")
    for name, labels in answer.labels.items():
        bounds = rows if name.startswith("queries") else columns
        assert [list(labels.starts), list(labels.ends)] == [bounds[:-1], bounds[1:]]
        assert labels.parent == name.split(".")[0]


@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(key_groups=groups("key", [[0, 1], [2]], SUM)),
        Options(query_groups=groups("query", [[0, 1]], MEAN)),
        Options(query_groups=groups("query", [[0, 1]], MEAN), key_groups=groups("key", [[0]], MEAN)),
        Options(pool=Pooling(2)),
        Options(pool=Pooling(2, PoolReduction.MEAN)),
        Options(reduce_heads=HeadReduction.MEAN),
        Options(encoding=Encoding.UINT8),
        Options(top_k=2),
    ],
)
def test_a_map_without_any_edge_is_a_map_of_nothing(options: Options, features: int) -> None:
    if options.top_k and features:
        return
    (finished,) = applied(whole(1, features=features) * 0, options, edges=True).maps
    assert not finished.weights.any()
    assert not finished.part.has_edges or finished.weights.shape[1] == 0
    assert not options.top_k or finished.weights.shape == (HEADS, QUERIES, 0)


def test_a_pooled_cell_of_scores_without_an_edge_has_the_lowest() -> None:
    weights = np.zeros((HEADS, QUERIES, KEYS), np.float32)
    weights[:, 0, 0] = -3.0
    scores = attention_pb2.QUANTITY_SCORES
    part = run(weights, Options(quantity=scores, pool=Pooling(2)), edges=True, quantities=[scores])
    np.testing.assert_array_equal(part.weights[0], [[-3.0, LOWEST], [LOWEST, LOWEST]])


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 6), st.none() | some_groups(KEYS), st.booleans(), st.sampled_from(HeadReduction))
def test_what_is_kept_and_what_is_left_out_make_the_whole_row(
    seed: int, k: int, members: list[list[int]] | None, edges: bool, reduction: HeadReduction
) -> None:
    weights = whole(seed)
    options = Options(reduce_heads=reduction)
    if members is not None:
        options = replace(options, key_groups=groups("key", members, SUM))
    before = run(weights, options, edges=edges)
    after = run(weights, replace(options, top_k=k), edges=edges)
    assert after.left_out is not None and not after.has_edges
    kept = after.weights.sum(axis=2)
    if before.has_edges:
        rows = np.zeros_like(kept)
        np.add.at(rows, (slice(None), before.query_index), before.weights)
    else:
        rows = before.weights.sum(axis=2)
    np.testing.assert_allclose(kept + after.left_out, rows, atol=1e-5)


selections = st.sampled_from(
    [
        (),
        (),
        (Selection(heads=(1,)),),
        (Selection(queries=(0, 2)),),
        (Selection(keys=(0, 1, -1)),),
        (Selection(heads=(0,), keys=(2,)),),
    ]
)
partitions = st.sampled_from([[[0, 1], [2, 3, 4]], [[0], [1, 2, 3, 4]]])
in_groups = st.builds(
    Options,
    selections,
    query_groups=st.just(()) | st.builds(groups, st.just("query"), some_groups(QUERIES), reductions),
    key_groups=st.just(()) | st.builds(groups, st.just("key"), some_groups(KEYS) | partitions, reductions),
)
pooled = st.builds(Options, pool=st.builds(Pooling, st.integers(1, 6), st.sampled_from(PoolReduction)))
WEIGHTS, SCORES, NORMS = attention_pb2.QUANTITY_WEIGHTS, attention_pb2.QUANTITY_SCORES, attention_pb2.QUANTITY_NORMS
some_options = st.builds(
    replace,
    in_groups | pooled | st.builds(Options, selections),
    reduce_heads=st.sampled_from(HeadReduction),
    top_k=st.sampled_from([0, 0, 1, 3]),
    encoding=st.sampled_from(Encoding),
    quantity=st.sampled_from([WEIGHTS, WEIGHTS, SCORES, NORMS]),
)
OFFERED = [SCORES, NORMS]


@settings(max_examples=300, deadline=None)
@given(seeds, some_options, st.booleans(), st.sampled_from([0, 2]), st.booleans(), st.booleans())
def test_an_answer_claims_only_what_is_true_and_its_size_was_known(
    seed: int, options: Options, edges: bool, features: int, signed: bool, empty: bool
) -> None:
    """`normalised`: rows sum to 1, or to 0. Not `signed`: nothing is negative. Bytes: never more than foreseen."""
    scores = options.quantity == SCORES
    weights = whole(seed, features=features, empty=empty, signed=signed or scores)
    if options.quantity == NORMS:
        weights = np.abs(weights) * 3
    fields = {"quantities": OFFERED, "signed": signed, "normalised": not signed}
    form = model_pb2.MAP_FORM_EDGES if edges else model_pb2.MAP_FORM_DENSE
    description = a_map(form, features, **fields)
    try:
        plan = plan_attention([description], options)
    except InputError:
        return
    answer = applied(weights, options, edges=edges, **fields)
    (finished,) = answer.maps
    part = finished.part
    if part.normalised:
        assert options.quantity == WEIGHTS
        whole_rows = run(weights, replace(options, selections=_without_keys(options), top_k=0), edges=edges, **fields)
        sums = _row_sums(whole_rows)
        assert (np.isclose(sums, 1, atol=1e-5) | np.isclose(sums, 0, atol=1e-5)).all()
        if part.left_out is not None and not options.selections:
            total = _row_sums(part) + part.left_out
            assert (np.isclose(total, 1, atol=1e-5) | np.isclose(total, 0, atol=1e-5)).all()
    if not part.signed:
        assert (part.weights >= 0).all()
    if scores:
        assert part.signed and not part.normalised and part.left_out is None
    sizes = AxisSizes(SIZES, {"layer.0": len(as_edges(weights).key_index)} if edges else {})  # type: ignore[arg-type]
    assert framed(finished).size <= attention_bytes(plan, sizes)
    made = sum(labels_to_wire(each).ByteSize() + 4 for each in answer.labels.values())
    assert made <= derived_label_bytes(plan, sizes)


def test_keys_that_are_left_out_tell_as_well_whether_a_head_attends_to_nothing() -> None:
    weights = np.zeros((2, 1, 3), np.float32)
    weights[0, 0, 0] = 1  # the other head attends to nothing: their mean sums to a half
    options = Options((Selection(keys=(1,)),), reduce_heads=HeadReduction.MEAN)
    for edges in (False, True):
        assert not _of_three(weights, options, edges).normalised
        assert _of_three(weights[:1].repeat(2, axis=0), options, edges).normalised


def _of_three(weights: Floats, options: Options, edges: bool) -> Part:
    form = model_pb2.MAP_FORM_EDGES if edges else model_pb2.MAP_FORM_DENSE
    plan = plan_attention([a_map(form)], options)
    maps = keyed({"layer.0": as_edges(weights) if edges else MapWeights(weights)}, options.quantity)
    (finished,) = apply(plan, maps, labels_of({"queries": 1, "keys": 3})).maps
    return finished.part


def _without_keys(options: Options) -> tuple[Selection, ...]:
    return tuple(replace(each, keys=()) for each in options.selections)


def _row_sums(part: Part) -> Floats:
    if not part.has_edges:
        return part.weights.sum(axis=2)
    row, _ = part.edges()
    sums = np.zeros((part.weights.shape[0], part.query_count, *part.weights.shape[2:]), np.float32)
    np.add.at(sums, (slice(None), row), part.weights)
    return sums


@pytest.mark.parametrize(
    ("options", "normalised"),
    [
        (Options(key_groups=groups("key", [[0, 1], [2, 3, 4]], SUM)), True),
        (Options(key_groups=groups("key", [[0, 1], [2, 3, 4]], MEAN)), False),
        (Options(key_groups=groups("key", [[0, 1], [1, 2, 3, 4]], SUM)), False),
        (Options(key_groups=groups("key", [[0, 1], [2, 3]], SUM)), False),
        (Options(query_groups=groups("query", [[0, 1], [1, 2]], MEAN)), True),
        (Options(query_groups=groups("query", [[0, 1], [2]], SUM)), False),
        (Options(pool=Pooling(5)), True),
        (Options(pool=Pooling(4)), False),
        (Options((Selection(keys=(1,)),)), True),
        (Options((Selection(keys=(1,)),), top_k=1), True),
        (Options(reduce_heads=HeadReduction.MEAN), True),
        (Options(reduce_heads=HeadReduction.MAX), False),
        (Options((Selection(heads=(1,)),), reduce_heads=HeadReduction.MAX), True),
    ],
)
@pytest.mark.parametrize("edges", [False, True])
def test_what_still_sums_to_1_is_said_to(options: Options, normalised: bool, edges: bool) -> None:
    weights = np.full((HEADS, QUERIES, KEYS), 1 / KEYS, np.float32)
    assert run(weights, options, edges=edges).normalised is normalised


def test_a_mean_of_a_row_that_attends_to_nothing_and_one_that_does_is_not_said_to_sum_to_1() -> None:
    weights = np.zeros((2, 2, 2), np.float32)
    weights[0] = weights[1, 1] = [0.5, 0.5]
    description = map_of("layer.0", heads=2, query_labels="queries", key_labels="keys")
    sizes = labels_of({"queries": 2, "keys": 2})

    def normalised(options: Options) -> bool:
        plan = plan_attention([description], options)
        return apply(plan, keyed({"layer.0": MapWeights(weights)}), sizes).maps[0].part.normalised

    assert normalised(Options())
    assert not normalised(Options(reduce_heads=HeadReduction.MEAN))
    assert normalised(Options((Selection(queries=(1,)),), reduce_heads=HeadReduction.MEAN))
    assert not normalised(Options(query_groups=groups("query", [[0, 1]], MEAN)))
    assert normalised(Options(query_groups=groups("query", [[0], [1]], MEAN)))
    assert not normalised(Options((Selection(heads=(0,)),), query_groups=groups("query", [[0, 1]], SUM)))


def test_a_label_set_that_no_selected_map_has_there_is_named_with_those_there_are() -> None:
    maps = [a_map(), map_of("other.0", query_labels="queries", key_labels="words")]
    some = Group("", (0,))
    for asked, says in (
        (
            (Grouping(("attention", "key_groups", 0), (some,), SUM),),
            "is missing; the keys of the selected maps are of keys, words",
        ),
        ((Grouping(("attention", "key_groups", 0), (some,), SUM, "queries"),), "is 'queries'; the keys of the"),
    ):
        with pytest.raises(InputError) as caught:
            plan_attention(maps, Options(key_groups=asked))
        assert caught.value.field == "attention.key_groups[0].label_set"
        assert says in caught.value.message
    twice = tuple(Grouping(("attention", "query_groups", place), (some,), SUM, "queries") for place in (0, 1))
    with pytest.raises(InputError) as caught:
        plan_attention(maps, Options(query_groups=twice))
    assert caught.value.field == "attention.query_groups[1].label_set"


def test_a_quantity_that_some_maps_lack_leaves_them_out_unless_they_are_named() -> None:
    maps = [a_map(), map_of("other.0", quantities=OFFERED)]
    for selections in ((), (Selection(names=("*",)),), (Selection(names=("oth*",)),), (Selection(names=("other.0",)),)):
        plan = plan_attention(maps, Options(selections, quantity=2))
        assert [each.description.name for each in plan.selected] == ["other.0"]
        assert plan.keys == {("other.0", 2)}
    for selection in (Selection(names=("layer.0",)), Selection(names=("*", "layer.0")), Selection(names=("lay*",))):
        with pytest.raises(InputError) as caught:
            plan_attention(maps, Options((selection,), quantity=2))
        assert caught.value.field == "attention.quantity"
        assert "SCORES, which layer.0 lacks" in caught.value.message
    with pytest.raises(InputError, match="no map of the model has"):
        plan_attention(maps[:1], Options(quantity=2))


def test_maps_of_other_label_sets_stay_as_they_are() -> None:
    maps = [a_map(), map_of("other.0", query_labels="queries", key_labels="words")]
    everything = (Grouping(("attention", "key_groups", 0), (Group("all", ranges=((0, 0),)),), SUM, "words"),)
    weights = {"layer.0": MapWeights(whole(1)), "other.0": MapWeights(whole(2))}
    labels = labels_of({**SIZES, "words": KEYS})
    first, second = apply(plan_attention(maps, Options(key_groups=everything)), keyed(weights), labels).maps
    np.testing.assert_array_equal(first.weights, weights["layer.0"].weights)
    assert (first.part.key_labels, second.part.key_labels) == ("keys", "words.key_groups")
    assert second.weights.shape == (HEADS, QUERIES, 1)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("reduction", GroupReduction)
def test_what_is_not_finite_stays_in_its_own_groups(axis: int, reduction: GroupReduction) -> None:
    weights = np.random.default_rng(0).random((2, 6, 6), dtype=np.float32)
    np.moveaxis(weights, axis, 0)[2] = np.nan
    np.moveaxis(weights, axis, 0)[4, 0, 0] = np.inf
    groups = [np.array([0, 1, 3]), np.array([2]), np.array([3, 4]), np.array([], int)]
    found = np.moveaxis(group_axis(weights, axis, groups, reduction), axis, 0)
    take_in = np.sum if reduction is GroupReduction.SUM else np.mean
    for place, group in enumerate(groups[:3]):
        np.testing.assert_allclose(found[place], take_in(np.moveaxis(weights, axis, 0)[group], axis=0), rtol=1e-6)
    assert not found[3].any()
