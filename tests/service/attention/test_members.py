"""Which entries groups name: by index, range, part of a text, input; and what is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import attention_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.rows import Labels
from limelight_service.attention import members
from limelight_service.attention.members import AxisGroups
from limelight_service.attention.options import Group, Grouping, GroupReduction, Span

TOKENS = attention_pb2.LABEL_KIND_TOKENS
FIELD, PATH = "attention.key_groups[0]", ("attention", "key_groups", 0)

# "[CLS] the cats sat": a special token stands for no text, and "cat" and "s" are two tokens of a word.
TEXT = Labels(
    "tokens",
    TOKENS,
    5,
    texts=["[CLS]", "the", "cat", "s", "sat"],
    starts=[0, 0, 4, 7, 9],
    ends=[0, 3, 7, 8, 12],
    special=[True, False, False, False, False],
    inputs=("text",),
)
# Two texts in one sequence, and a separator between them.
PAIR = Labels(
    "tokens",
    TOKENS,
    5,
    starts=[0, 4, 0, 0, 3],
    ends=[3, 7, 0, 2, 7],
    special=[False, False, True, False, False],
    inputs=("text.first", "text.second"),
    input_indices=[0, 0, 0, 1, 1],
)
WORDS = Labels(
    "words",
    TOKENS,
    4,
    starts=[0, 3, 0, 2],
    ends=[2, 5, 1, 4],
    parents=[0, 0, 1, 1],
    parent="sentences",
    inputs=("text",),
)
AS_SENTENCES = Labels("sentences", attention_pb2.LABEL_KIND_SENTENCES, 2, starts=[0, 0], ends=[5, 4])
STEPS = Labels("output", attention_pb2.LABEL_KIND_OUTPUT_STEPS, 3, starts=[0, 2, 4], ends=[1, 3, 5])


def found(labels: Labels, *groups: Group, parent: Labels | None = None) -> list[list[int]]:
    sets = {each.name: each for each in (labels, parent) if each is not None}
    axis = AxisGroups(Grouping(PATH, groups, GroupReduction.SUM), labels.name)
    return [each.tolist() for each in axis.members(sets).groups]


def test_indices_and_ranges_count_from_either_end() -> None:
    groups = [
        Group("", indices=(-1, 0, 0)),
        Group("", ranges=((1, 3),)),
        Group("", ranges=((-2, 0),)),
        Group("", ranges=((0, 0),)),
        Group("", ranges=((1, -1),)),
        Group("", indices=(0,), ranges=((2, 4), (3, 5))),
    ]
    assert found(TEXT, *groups) == [[0, 4], [1, 2], [3, 4], [0, 1, 2, 3, 4], [1, 2, 3], [0, 2, 3, 4]]


def test_a_span_takes_every_token_that_shares_a_code_point_with_it() -> None:
    for span, expected in (
        (Span(4, 8), [2, 3]),  # a word of two tokens
        (Span(0, 1), [1]),  # a part of a token; the special token stands for no text
        (Span(2, 10), [1, 2, 3, 4]),
        (Span(3, 5), [2]),  # from the space before a token
    ):
        assert found(TEXT, Group("", spans=(span,))) == [expected]


def test_a_token_without_a_code_point_shares_none() -> None:
    labels = Labels("tokens", TOKENS, 3, starts=[0, 2, 2], ends=[2, 2, 4], inputs=("text",))
    assert found(labels, Group("", spans=(Span(0, 4),))) == [[0, 2]]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), min_size=1, max_size=4))
def test_spans_are_what_trying_every_code_point_gives(pairs: list[tuple[int, int]]) -> None:
    spans = [Span(start, start + length) for start, length in pairs]
    expected = set()
    for span in spans:
        for token, (start, end) in enumerate(zip(TEXT.starts, TEXT.ends, strict=True)):
            if set(range(start, end)) & set(range(span.start, span.end)):
                expected.add(token)
    try:
        assert set(found(TEXT, Group("", spans=tuple(spans)))[0]) == expected
    except InputError as error:
        place = int(error.field.removesuffix("]").rpartition("[")[2])
        own = range(spans[place].start, spans[place].end)
        assert not any(set(range(*each)) & set(own) for each in zip(TEXT.starts, TEXT.ends, strict=True))


def test_a_span_of_a_pair_says_of_which_text_it_is() -> None:
    assert found(PAIR, Group("", spans=(Span(0, 3, part="first"),))) == [[0]]
    assert found(PAIR, Group("", spans=(Span(0, 3, part="second"),))) == [[3]]


def test_a_span_of_a_document_sent_as_sentences_says_of_which() -> None:
    groups = [Group("", spans=(Span(0, 2, sentence=0),)), Group("", spans=(Span(0, 3, sentence=1),))]
    assert found(WORDS, *groups, parent=AS_SENTENCES) == [[0], [2, 3]]


def test_an_input_is_all_of_its_entries_but_special_tokens() -> None:
    assert found(TEXT, Group("", inputs=("text",))) == [[1, 2, 3, 4]]
    groups = [Group("", inputs=(name,)) for name in ("text.first", "text.second", "text")]
    assert found(PAIR, *groups) == [[0, 1], [3, 4], [0, 1, 3, 4]]
    grid = Labels("patches", attention_pb2.LABEL_KIND_GRID, 4, inputs=("image",))
    assert found(grid, Group("", inputs=("image",))) == [[0, 1, 2, 3]]
    cells = attention_pb2.Grid(rows=1, columns=3, leading=["class"])
    led = Labels("patches", attention_pb2.LABEL_KIND_GRID, 4, inputs=("image",), grid=cells)
    assert found(led, Group("", inputs=("image",))) == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("labels", "parent", "group", "field", "says"),
    [
        (TEXT, None, Group("", indices=(0, 5)), "indices[1]", "is 5; there are 5 tokens"),
        (TEXT, None, Group("", indices=(-6,)), "indices[0]", "is -6"),
        (TEXT, None, Group("", ranges=((0, 2), (3, 3))), "ranges[1]", "from 3 to 3"),
        (TEXT, None, Group("", ranges=((0, 6),)), "ranges[0]", "there are 5 tokens"),
        (TEXT, None, Group("", ranges=((-6, 0),)), "ranges[0]", "from -6"),
        (TEXT, None, Group("", spans=(Span(0, 3), Span(3, 4))), "spans[1]", "none of 5 tokens"),
        (TEXT, None, Group("", spans=(Span(100, 200),)), "spans[0]", "none of 5 tokens"),
        (TEXT, None, Group("", spans=(Span(4, 4),)), "spans[0]", "no part of a text"),
        (TEXT, None, Group("", spans=(Span(-1, 4),)), "spans[0]", "no part of a text"),
        (TEXT, None, Group("", spans=(Span(0, 4, part="first"),)), "spans[0].part", "one text"),
        (TEXT, None, Group("", spans=(Span(0, 4, sentence=0),)), "spans[0].sentence", "whole text"),
        (PAIR, None, Group("", spans=(Span(0, 4),)), "spans[0].part", "first, second"),
        (PAIR, None, Group("", spans=(Span(0, 4, part="third"),)), "spans[0].part", "first, second"),
        (WORDS, AS_SENTENCES, Group("", spans=(Span(0, 4),)), "spans[0].sentence", "2 sentences"),
        (WORDS, AS_SENTENCES, Group("", spans=(Span(0, 4, sentence=2),)), "spans[0].sentence", "is 2"),
        (STEPS, None, Group("", spans=(Span(0, 4),)), "spans[0]", "use indices or ranges"),
        (STEPS, None, Group("", inputs=("text",)), "inputs[0]", "no input"),
        (TEXT, None, Group("", inputs=("text", "title")), "inputs[1]", "come from text"),
    ],
)
def test_what_matches_nothing_is_named_with_what_there_is(
    labels: Labels, parent: Labels | None, group: Group, field: str, says: str
) -> None:
    with pytest.raises(InputError) as caught:
        found(labels, Group("", indices=(0,)), group, parent=parent)
    assert caught.value.field == f"{FIELD}.groups[1].{field}"
    assert says in caught.value.message


def test_groups_that_overlap_too_often_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MOST_MEMBERS", 12)
    monkeypatch.setattr(members, "MOST_TIMES", 2)
    every = Group("", ranges=((0, 0),))
    assert len(found(TEXT, every, every)) == 2
    with pytest.raises(InputError) as caught:
        found(TEXT, every, every, every)
    assert caught.value.field == f"{FIELD}.groups"


def test_groups_by_place_are_found_once_for_each_length() -> None:
    axis = AxisGroups(Grouping(PATH, (Group("", indices=(-1,)),), GroupReduction.SUM), "tokens")
    first, again = axis.members({"tokens": TEXT}), axis.members({"tokens": PAIR})
    other = axis.members({"tokens": Labels("tokens", TOKENS, 3)})
    assert first is again
    assert [each.groups[0].tolist() for each in (first, other)] == [[4], [2]]


def test_groups_by_span_are_found_once_for_all_maps_of_an_instance() -> None:
    axis = AxisGroups(Grouping(PATH, (Group("", spans=(Span(0, 3),)),), GroupReduction.SUM), "tokens")
    assert axis.members({"tokens": TEXT}) is axis.members({"tokens": TEXT})
    later = replace(TEXT, starts=[0, 9, 4, 7, 0], ends=[0, 12, 7, 8, 3])
    assert axis.members({"tokens": later}).groups[0].tolist() == [4]
