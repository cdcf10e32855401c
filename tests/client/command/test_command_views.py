"""Layout of maps that no small server has, for people and programs."""

from typing import Any

import numpy as np

import limelight
from limelight.base.tensors import to_tensor
from limelight.base.values import to_instance
from limelight.cli.render_terminal import plain as plain_text
from limelight.figures import figures, lines_of
from limelight.labels import LabelSet, plain, read_label_sets
from limelight.maps import AttentionMap, Edges, read_map
from limelight.v1 import attention_pb2, values_pb2


def message(name: str, weights: np.ndarray, **fields: Any) -> attention_pb2.AttentionMap:
    return attention_pb2.AttentionMap(
        name=name,
        query_labels="words",
        key_labels="words",
        heads=range(len(weights)),
        weights=to_tensor(weights),
        **fields,
    )


WORDS = attention_pb2.LabelSet(
    name="words", kind="LABEL_KIND_TOKENS", size=3, texts=["un", "happy", "cats"], starts=[0, 2, 8], ends=[2, 7, 12]
)


def test_scores_are_shown_as_such_and_impossible_places_have_none():
    lowest = np.finfo(np.float32).min
    weights = np.array([[[1.0, lowest, lowest], [3.0, -2.0, lowest], [2.0, 2.0, 4.0]]], np.float32)
    each = read_map(message("m", weights, quantity="QUANTITY_SCORES", signed=True), read_label_sets([WORDS]))
    (figure,) = figures([each])
    assert list(plain_text(figure)) == [
        "m · scores · mean over 3 queries",
        "words(score)",
        "un(2.0000) happy(0.0000) cats(4.0000)",
    ]
    (figure,) = figures([each], each_query=True)
    assert list(plain_text(figure))[1:] == [
        "words  words(score)",
        "un     un(1.0000) happy(-) cats(-)",
        "happy  un(3.0000) happy(-2.0000) cats(-)",
        "cats   un(2.0000) happy(2.0000) cats(4.0000)",
    ]
    assert figure.rows[0].gaps == ("", "", " "), "two tokens of one word stand together"


def test_a_pooled_map_has_a_row_a_range():
    sets = [
        attention_pb2.LabelSet(
            name=f"words.{side}_ranges", kind="LABEL_KIND_RANGES", size=2, starts=[0, 2], ends=[2, 3], parent="words"
        )
        for side in ("query", "key")
    ]
    sent = message("m", np.array([[[0.5, 0.25], [0.125, 0.75]]], np.float32))
    sent.query_labels, sent.key_labels = "words.query_ranges", "words.key_ranges"
    (figure,) = figures([read_map(sent, read_label_sets([WORDS, *sets]))])
    assert list(plain_text(figure)) == [
        "m",
        "words.query_ranges  words.key_ranges(weight)",
        "un … happy  un … happy(0.5000) cats(0.2500)",
        "cats        un … happy(0.1250) cats(0.7500)",
    ]
    assert figure.rows[0].gaps == ("", " ")


def test_a_group_is_shown_by_its_name_and_a_head_by_its_label():
    groups = attention_pb2.LabelSet(
        name="words.key_groups", kind="LABEL_KIND_GROUPS", size=2, texts=["subject", "rest"], parent="words"
    )
    heads = attention_pb2.LabelSet(name="who", kind="LABEL_KIND_REPRESENTATIONS", size=2, texts=["letters", "sounds"])
    weights = np.array([[[0.25, 0.75]] * 3, [[0.5, 0.5]] * 3], np.float32)
    sent = message("m", weights, head_labels="who")
    sent.key_labels = "words.key_groups"
    each = read_map(sent, read_label_sets([WORDS, groups, heads]))
    first, second = figures([each], each_head=True)
    assert list(plain_text(first)) == [
        "m · letters",
        "words  words.key_groups(weight)",
        "un     subject(0.2500) rest(0.7500)",
        "happy  subject(0.2500) rest(0.7500)",
        "cats   subject(0.2500) rest(0.7500)",
    ]
    assert second.title == "m · sounds"


def test_json_of_a_selection_of_edges_counts_in_the_whole_label_set():
    words = plain("words", "tokens", ["a", "b", "c", "d"])
    edges = Edges(np.array([0, 1]), np.array([1, 0]))
    weights = np.array([[0.25, 0.75]], np.float32)
    each = AttentionMap(
        name="m",
        kind="graph",
        heads=(0,),
        weights=weights,
        query=words.take([1, 3]),
        key=words.take([0, 2]),
        edges=edges,
    )
    document = each.to_dict()
    assert document["edges"] == {"query_index": [1, 3], "key_index": [2, 0]}
    assert (document["queries"], document["keys"]) == ([1, 3], [0, 2])


CODE = "def f(x):\n\n    if x == 1:\n\treturn  x\n"


def nested(own: list[float], inside: list[float], source: str = CODE) -> tuple[list[AttentionMap], values_pb2.Instance]:
    """The maps of a document read by lines: of each line two words, its first and its last."""
    starts, ends, lines, at = [], [], [], 0
    for line in source.splitlines(keepends=True):
        if line.strip():
            begin = at + len(line) - len(line.lstrip())
            lines.append((begin, at + len(line.rstrip())))
            first = len(line.split()[0])
            starts += [begin, begin + first]
            ends += [begin + first, lines[-1][1]]
        at += len(line)
    words = LabelSet(
        "words",
        "tokens",
        tuple(source[start:end] for start, end in zip(starts, ends, strict=True)),
        starts=np.array(starts, np.int32),
        ends=np.array(ends, np.int32),
        parents=np.repeat(np.arange(len(lines), dtype=np.int32), 2),
        parent="lines",
        inputs=("document",),
    )
    rows = LabelSet(
        "lines",
        "sentences",
        tuple(source[start:end] for start, end in lines),
        starts=np.array([start for start, _ in lines], np.int32),
        ends=np.array([end for _, end in lines], np.int32),
        inputs=("document",),
    )
    edges = Edges(words.parents.astype(np.int64), np.arange(len(words)))
    word = AttentionMap(
        name="word", kind="pool", heads=(0,), query=rows, key=words, edges=edges, weights=np.array([inside], np.float32)
    )
    line = AttentionMap(
        name="line",
        kind="pool",
        heads=(0,),
        query=plain("document", "one", ["document"]),
        key=rows,
        weights=np.array([[own]], np.float32),
    )
    return [word, line], to_instance({"document": limelight.Document(source)})


def test_words_of_lines_are_shaded_by_the_product_with_their_line():
    maps, sent = nested([0.0, 0.25, 0.75], [0.0, 1.0, 0.5, 0.5, 0.25, 0.75])
    figure, _ = figures(maps, sent=sent)
    assert [each.tolist() for each in figure.shaded] == [[0, 0], [0.125, 0.125], [0.1875, 0.5625]]
    assert (figure.largest, figure.signed) == (0.5625, False)
    (alone,) = figures(maps[:1], sent=sent)
    assert alone.largest == 1.0 and "is not here" in alone.notes[0]
    (shown,) = figures(maps, sent=sent, names=["wo*"])
    assert shown.title == "word" and shown.largest == 0.5625, "the level above counts where it is not shown"


def test_source_is_shown_as_it_was_sent_with_indentation_and_empty_lines():
    maps, sent = nested([0.0, 0.25, 0.75], [0.5] * 6)
    for figure in figures(maps, sent=sent):
        lines = [
            "".join(text for text, _ in parts) for row in figure.rows for parts in lines_of(row, [0.0] * len(row.words))
        ]
        assert lines == ["def f(x):", "", "    if x == 1:", "    return  x"]
    word, line = (list(plain_text(figure)) for figure in figures(maps, sent=sent))
    assert word[3] == "0.2500      if(0.1250)  x == 1:(0.1250)", "times the weight of the line"
    assert line[1:] == ["weight  lines", "0.0000  def f(x):", "0.2500      if x == 1:", "0.7500      return x"]


def test_a_sign_stands_only_for_what_cannot_be_seen():
    maps, sent = nested([1.0], [0.5] * 2, source="a\x1b[2J b")
    figure, _ = figures(maps, sent=sent)
    assert figure.rows[0].pieces == ("a␣[2J", " b")


def test_every_picture_has_one_scale():
    weights = np.array([[[0.9, 0.1, 0.0], [0.3, 0.3, 0.4], [-0.5, 0.5, 0.0]]], np.float32)
    each = read_map(message("m", weights, signed=True), read_label_sets([WORDS]))
    for shape in ({"each_query": True}, {"matrices": True}):
        (figure,) = figures([each], **shape)
        assert (round(figure.largest, 6), figure.signed) == (0.9, True)
