"""Groups as people write them, and what goes onto the wire."""

from typing import Any

import numpy as np
import pytest

import limelight
from limelight.groups import Groupings, grouping_messages
from limelight.requests import Attention
from limelight.v1 import attention_pb2, values_pb2


def group(members: Any) -> values_pb2.Group:
    (grouping,) = grouping_messages({"g": members})
    (made,) = grouping.groups
    assert made.name == "g"
    made.name = ""
    return made


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (3, {"indices": [3]}),
        (np.int64(3), {"indices": [3]}),
        ([0, 3, -1], {"indices": [0, 3, -1]}),
        ((), {}),
        (range(12), {"ranges": [{"start": 0, "end": 12}]}),
        (range(3, 3), {}),
        (slice(2, 5), {"ranges": [{"start": 2, "end": 5}]}),
        (slice(-4, -1), {"ranges": [{"start": -4, "end": -1}]}),
        # 0 as an end is the end of the axis.
        (slice(5, None), {"ranges": [{"start": 5, "end": 0}]}),
        (slice(None, 5), {"ranges": [{"start": 0, "end": 5}]}),
        (limelight.TextSpan(0, 12), {"spans": [{"start": 0, "end": 12}]}),
        (limelight.TextSpan(0, 12, sentence=0), {"spans": [{"start": 0, "end": 12, "sentence": 0}]}),
        (limelight.TextSpan(0, 12, part="second"), {"spans": [{"start": 0, "end": 12, "part": "second"}]}),
        (limelight.Span("a", 4, 5, 0.5), {"spans": [{"start": 4, "end": 5}]}),
        (limelight.Span("a", 4, 5, 0.5, "first"), {"spans": [{"start": 4, "end": 5, "part": "first"}]}),
        (limelight.Span("a", 4, 5, 0.5, sentence=0), {"spans": [{"start": 4, "end": 5, "sentence": 0}]}),
        ("pair.first", {"inputs": ["pair.first"]}),
        (
            ["text", 0, slice(1, 3), limelight.TextSpan(8, 9)],
            {"inputs": ["text"], "indices": [0], "ranges": [{"start": 1, "end": 3}], "spans": [{"start": 8, "end": 9}]},
        ),
    ],
)
def test_a_group_is_entries_by_number_place_or_input(members: Any, expected: dict[str, Any]):
    assert group(members) == values_pb2.Group(**expected)


def test_only_a_sentence_that_is_named_is_set():
    assert not group(limelight.TextSpan(0, 1)).spans[0].HasField("sentence")
    assert group(limelight.TextSpan(0, 1, sentence=0)).spans[0].HasField("sentence")


@pytest.mark.parametrize(
    ("members", "error", "says"),
    [
        (1.5, TypeError, "'g': a float cannot be a member of a group"),
        (None, TypeError, "NoneType"),
        ([0, [1]], TypeError, "list"),
        (range(0, 6, 2), ValueError, "gaps"),
        (range(-3, 2), ValueError, "counts from the end"),
        (slice(0, 6, 2), ValueError, "gaps"),
        (slice(0, 0), ValueError, "no entries"),
    ],
)
def test_what_is_no_group_is_refused_by_its_name(members: Any, error: type[Exception], says: str):
    with pytest.raises(error, match=says):
        grouping_messages({"g": members})


def test_groupings_name_their_label_set_and_reduction():
    both = [
        limelight.Grouping(groups={"a": 0, "b": "text"}, label_set="words", reduction="mean"),
        limelight.Grouping(groups={"c": [1]}, label_set="sentences"),
    ]
    first, second = grouping_messages(both)
    assert (first.label_set, first.reduction, [each.name for each in first.groups]) == (
        "words",
        attention_pb2.GROUP_REDUCTION_MEAN,
        ["a", "b"],
    )
    assert (second.label_set, second.reduction) == ("sentences", attention_pb2.GROUP_REDUCTION_UNSPECIFIED)
    assert grouping_messages(both[1]) == [second]
    with pytest.raises(ValueError, match="'sum', 'mean', not 'max'"):
        grouping_messages(limelight.Grouping(groups={"a": 0}, reduction="max"))  # type: ignore[arg-type]


@pytest.mark.parametrize("nothing", [(), {}, []])
def test_no_groups_are_no_grouping(nothing: Groupings):
    assert grouping_messages(nothing) == []


def test_a_pool_is_a_size_or_says_more():
    assert Attention(pool=32).options().pool == attention_pb2.Pool(size=32, reduction="POOL_REDUCTION_MAX")
    mean = Attention(pool=limelight.Pool(8, "mean")).options().pool
    assert mean == attention_pb2.Pool(size=8, reduction="POOL_REDUCTION_MEAN")
    assert not Attention().options().HasField("pool")
