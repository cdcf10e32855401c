"""Which maps, heads, queries and keys a selection chooses, and what a wrong one gets."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_bundle.errors import InputError
from limelight_service.attention.options import Selection
from limelight_service.attention.select import IndexList, IndexUnion, SelectedMap, indices, matches, select_maps
from tests.service.attention.descriptions import encoder, map_of


def names(chosen: tuple[SelectedMap, ...]) -> list[str]:
    return [each.description.name for each in chosen]


def test_no_selection_chooses_every_map_whole() -> None:
    chosen = select_maps(encoder(), [])
    assert names(chosen) == ["encoder.0.self", "encoder.1.self", "encoder.2.self", "decoder.0.cross"]
    assert all(tuple(each.heads) == (0, 1) and each.queries is None and each.keys is None for each in chosen)


def test_a_star_crosses_dots() -> None:
    assert names(select_maps(encoder(), [Selection(names=("enc*self",))])) == [
        "encoder.0.self",
        "encoder.1.self",
        "encoder.2.self",
    ]


def test_a_misspelt_map_is_answered_with_the_closest_name() -> None:
    with pytest.raises(InputError, match=r"matches no map; the model has .*; did you mean 'encoder\.1\.self'\?$"):
        select_maps(encoder(), [Selection(names=("encodr.1.self",))])


def test_a_dot_and_brackets_stand_for_themselves() -> None:
    assert not matches("encoder.?.self", "encoder.0.self")
    assert not matches("encoder[.]0", "encoder.0")
    assert not matches("a.b", "a-b")


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_a_glob_matches_what_the_regular_expression_of_its_meaning_matches(pattern: str, name: str) -> None:
    meaning = ".*".join(map(re.escape, pattern.split("*")))
    assert matches(pattern, name) == (re.fullmatch(meaning, name) is not None)


def test_a_negative_layer_counts_from_the_last_of_each_stack() -> None:
    assert names(select_maps(encoder(), [Selection(layers=(-1,))])) == ["encoder.2.self", "decoder.0.cross"]
    assert names(select_maps(encoder(), [Selection(layers=(-3,))])) == ["encoder.0.self"]


def test_a_map_without_layers_is_in_no_layer() -> None:
    maps = [map_of("word"), map_of("encoder.0.self")]
    assert names(select_maps(maps, [Selection(layers=(0,))])) == ["encoder.0.self"]
    with pytest.raises(InputError) as caught:
        select_maps(maps, [Selection(names=("word",), layers=(0,))])
    assert caught.value.field == "attention.selections[0].layers[0]"


def test_selections_of_one_map_are_a_union_in_every_axis() -> None:
    (chosen,) = select_maps(
        [map_of("word", heads=4)],
        [Selection(heads=(3,), queries=(0,), keys=(1,)), Selection(heads=(-4, 1), queries=(-1,), keys=(1, 2))],
    )
    assert chosen.heads == (0, 1, 3)
    assert indices(chosen.queries, 5, "queries").tolist() == [0, 4]  # type: ignore[union-attr]
    assert indices(chosen.keys, 5, "keys").tolist() == [1, 2]  # type: ignore[union-attr]


def test_the_union_of_some_and_all_is_all() -> None:
    (chosen,) = select_maps([map_of("word")], [Selection(queries=(1,)), Selection(heads=(0,)), Selection(queries=(2,))])
    assert chosen.queries is None
    assert tuple(chosen.heads) == (0, 1)


def test_a_model_without_maps_has_nothing_to_select() -> None:
    with pytest.raises(InputError, match="no attention maps"):
        select_maps([], [])


@given(st.integers(1, 20), st.data())
def test_indices_are_ascending_unique_and_those_that_python_would_take(size: int, data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.integers(-size, size - 1), min_size=1))
    found = indices(IndexUnion((IndexList(("f",), tuple(asked)),)), size, "things")
    assert found is not None
    assert found.tolist() == sorted({list(range(size))[index] for index in asked})
