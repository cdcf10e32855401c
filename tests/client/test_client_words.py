"""Maps by words: pieces are joined, special tokens kept or left out."""

import numpy as np
import pytest

from limelight.labels import Grid, LabelSet
from limelight.maps import AttentionMap, Edges

# "undo it" in the tokens [CLS] un do it [SEP] [SEP].
TOKENS = LabelSet(
    "tokens",
    "tokens",
    ("[CLS]", "un", "do", "it", "[SEP]", "[SEP]"),
    starts=np.array([0, 0, 2, 5, 7, 7]),
    ends=np.array([0, 2, 4, 7, 7, 7]),
    flags=np.array([True, False, False, False, True, True]),
    words=np.array([-1, 0, 0, 1, -1, -1]),
)
ONE = LabelSet("one", "one", ("one",))


def attention(weights: np.ndarray, query: LabelSet = TOKENS, **changes: object) -> AttentionMap:
    fields = {"name": "encoder.0.self", "kind": "self", "heads": (0,), "normalised": True, **changes}
    return AttentionMap(weights=np.asarray(weights, np.float32)[None], query=query, key=TOKENS, **fields)  # type: ignore[arg-type]


def test_keys_of_a_word_are_summed_and_its_queries_averaged():
    weights = np.array(
        [
            [0.5, 0.1, 0.1, 0.1, 0.1, 0.1],
            [0.2, 0.4, 0.2, 0.1, 0.1, 0.0],
            [0.0, 0.0, 0.0, 0.8, 0.2, 0.0],
            [0.1, 0.3, 0.1, 0.1, 0.2, 0.2],
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    joined = attention(weights).by_words()
    assert joined.key.labels == ("[CLS]", "undo", "it", "[SEP]", "[SEP]")
    assert joined.key.offsets[1:3] == ((0, 4), (5, 7))
    np.testing.assert_allclose(joined.weights[0, 0], [0.5, 0.2, 0.1, 0.1, 0.1], atol=1e-6)
    np.testing.assert_allclose(joined.weights[0, 1], [0.1, 0.3, 0.45, 0.15, 0.0], atol=1e-6)
    np.testing.assert_allclose(joined.weights.sum(2), 1, atol=1e-6)
    assert joined.normalised
    plain = attention(weights).by_words(special_queries=False, special_keys=False)
    assert (plain.query.labels, plain.key.labels) == (("undo", "it"), ("undo", "it"))
    np.testing.assert_allclose(plain.weights[0], [[0.3, 0.45], [0.4, 0.1]], atol=1e-6)
    np.testing.assert_allclose(plain.left_out, [[0.25, 0.5]], atol=1e-6)
    np.testing.assert_allclose(plain.weights.sum(2) + plain.left_out, 1, atol=1e-6)
    assert plain.normalised


def test_pieces_that_overlap_are_joined_to_the_text_as_it_was_sent():
    # "Thé 🙂" as SentencePiece divides it, with a mark of a new word, and a byte-level tokenizer.
    pieces = LabelSet(
        "tokens",
        "tokens",
        ("T", "T", "hé", "é", "", "🙂", "🙂"),
        starts=np.array([0, 0, 1, 2, 4, 4, 4]),
        ends=np.array([1, 1, 3, 3, 4, 5, 5]),
        words=np.array([0, 0, 0, 0, 1, 1, 1]),
    )
    joined = attention(np.full((7, 6), 1 / 6), query=pieces).by_words().query
    assert (joined.labels, joined.offsets) == (("Thé", "🙂"), ((0, 3), (4, 5)))


def test_an_axis_without_words_stays_as_it_is():
    joined = attention(np.full((1, 6), 0.25), query=ONE).by_words()
    assert joined.query.labels == ("one",)
    np.testing.assert_allclose(joined.weights[0, 0], [0.25, 0.5, 0.25, 0.25, 0.25], atol=1e-6)


def test_a_selection_of_keys_is_joined_as_far_as_it_goes():
    joined = AttentionMap(
        name="x", kind="self", heads=(0,), weights=np.ones((1, 1, 2), np.float32), query=ONE, key=TOKENS.take([2, 3])
    ).by_words()
    assert joined.key.labels == ("do", "it")


def test_special_tokens_are_hidden_and_their_sum_is_stated():
    weights = np.random.default_rng(0).dirichlet(np.ones(6), 6)
    hidden = attention(weights).hide_special()
    assert hidden.query.labels == hidden.key.labels == ("un", "do", "it")
    assert hidden.query.indices is None
    assert hidden.left_out is not None
    np.testing.assert_allclose(hidden.weights[0], weights[1:4, 1:4], atol=1e-6)
    np.testing.assert_allclose(hidden.left_out[0], weights[1:4][:, [0, 4, 5]].sum(1), atol=1e-6)
    keys = attention(weights).hide_special(queries=False)
    assert keys.query.labels == TOKENS.labels
    np.testing.assert_allclose(keys.weights.sum(2) + keys.left_out, 1, atol=1e-6)


def test_a_grid_is_shown_without_its_class_token():
    grid = LabelSet("cells", "grid", ("class", "a", "b"), grid=Grid(1, 2, ("class",)))
    row = AttentionMap(name="x", kind="self", heads=(0,), weights=np.ones((1, 1, 3), np.float32), query=ONE, key=grid)
    hidden = row.hide_special()
    assert (hidden.key.labels, hidden.key.grid, hidden.weights.shape) == (("a", "b"), Grid(1, 2), (1, 1, 2))
    assert not hidden.key.special.any()


def test_scores_of_special_tokens_have_no_sum():
    assert attention(np.ones((6, 6)), quantity="scores").hide_special().left_out is None


def test_a_map_that_is_not_whole_weights_is_refused():
    sparse = attention(np.ones(6), edges=Edges(np.zeros(6, np.int64), np.arange(6)))
    with pytest.raises(ValueError, match="cannot be joined by words: it is of edges, of values, or cut by top_k"):
        sparse.by_words()
    with pytest.raises(
        ValueError, match="cannot be shown without special tokens: it is of edges, of values, or cut by top_k"
    ):
        sparse.hide_special()
    with pytest.raises(ValueError, match="it is of scores"):
        attention(np.ones((6, 6)), quantity="scores").by_words()
