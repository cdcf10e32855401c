"""How maps that no small server has are laid out for people and programs."""

from typing import Any

import numpy as np

from limelight.cli import as_json
from limelight.cli.render_terminal import plain as plain_text
from limelight.cli.views import blocks
from limelight.labels import plain, read_label_sets
from limelight.maps import AttentionMap, Edges, read_map
from limelight.tensors import to_tensor
from limelight.v1 import attention_pb2


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
    (block,) = blocks([each])
    assert list(plain_text(block)) == [
        "m · scores · mean over 3 queries",
        "un(2.0000) happy(0.0000) cats(4.0000)",
    ]
    (block,) = blocks([each], each_query=True)
    assert list(plain_text(block))[1:] == [
        "un     un(1.0000) happy cats",
        "happy  un(3.0000) happy(-2.0000) cats",
        "cats   un(2.0000) happy(2.0000) cats(4.0000)",
    ]
    assert block.rows[0].joined == (False, True, False), "two tokens of one word stand together"


def test_a_pooled_map_has_a_row_a_range():
    sets = [
        attention_pb2.LabelSet(
            name=f"words.{side}_ranges", kind="LABEL_KIND_RANGES", size=2, starts=[0, 2], ends=[2, 3], parent="words"
        )
        for side in ("query", "key")
    ]
    sent = message("m", np.array([[[0.5, 0.25], [0.125, 0.75]]], np.float32))
    sent.query_labels, sent.key_labels = "words.query_ranges", "words.key_ranges"
    (block,) = blocks([read_map(sent, read_label_sets([WORDS, *sets]))])
    assert list(plain_text(block)) == [
        "m",
        "un … happy  un … happy(0.5000) cats(0.2500)",
        "cats        un … happy(0.1250) cats(0.7500)",
    ]
    assert block.rows[0].joined == (False, False)


def test_a_group_is_shown_by_its_name_and_a_head_by_its_label():
    groups = attention_pb2.LabelSet(
        name="words.key_groups", kind="LABEL_KIND_GROUPS", size=2, texts=["subject", "rest"], parent="words"
    )
    heads = attention_pb2.LabelSet(name="who", kind="LABEL_KIND_REPRESENTATIONS", size=2, texts=["letters", "sounds"])
    weights = np.array([[[0.25, 0.75]] * 3, [[0.5, 0.5]] * 3], np.float32)
    sent = message("m", weights, head_labels="who")
    sent.key_labels = "words.key_groups"
    each = read_map(sent, read_label_sets([WORDS, groups, heads]))
    first, second = blocks([each], each_head=True)
    assert list(plain_text(first)) == [
        "m · letters",
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
    document = as_json.attention_map(each)
    assert document["edges"] == {"query_index": [1, 3], "key_index": [2, 0]}
    assert (document["queries"], document["keys"]) == ([1, 3], [0, 2])
