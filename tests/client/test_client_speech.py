"""Times of words from the weights of alignment heads."""

from dataclasses import replace

import numpy as np
import pytest

import limelight
from limelight.attended import Attended
from limelight.labels import LabelSet
from limelight.maps import AttentionMap
from limelight.predictions import Prediction, read_prediction
from limelight.v1 import service_pb2

TEXT = "the cat sat."
PIECES = [("<|en|>", 0, 0), ("the", 0, 3), ("ca", 4, 6), ("t", 6, 7), ("sat", 8, 11), (".", 11, 12), ("<end>", 12, 12)]
FRAMES, HEARD = 64, 56
# Frames of each written piece, and of the end.
SAID = [(0, 10), (10, 18), (18, 28), (28, 40), (40, 48), (48, 56)]


def answer(*, heads: int = 2, noise: float = 0.01, tokens: int = len(PIECES)) -> Attended:
    """Weights that look at the frames in which each piece is said."""
    random = np.random.default_rng(0)
    weights = random.uniform(0, noise, (heads, len(PIECES), FRAMES)).astype(np.float32)
    for place, (begin, end) in enumerate(SAID):
        weights[:, place + 1, begin:end] += 1
    weights[:, 0, HEARD:] += 1
    weights /= weights.sum(-1, keepdims=True)
    texts, starts, ends = zip(*PIECES[:tokens], strict=True)
    special = np.array([text.startswith("<") for text in texts])
    query = LabelSet("output", "output_steps", texts, np.array(starts), np.array(ends), flags=special)
    times = np.arange(FRAMES + 1) * 20
    key = LabelSet(
        "frames", "frames", tuple(map(str, times[:-1])), times[:-1], times[1:], flags=np.arange(FRAMES) >= HEARD
    )
    made = AttentionMap(
        name="alignment", kind="cross", heads=tuple(range(heads)), weights=weights[:, :tokens], query=query, key=key
    )
    return Attended(prediction(), (made,))


def prediction() -> Prediction:
    message = service_pb2.Prediction()
    message.results.add(name="text").sequences.sequences.add(text=TEXT)
    return read_prediction(message)


@pytest.mark.parametrize("heads", [1, 3])
def test_words_have_the_times_at_which_they_are_said(heads: int) -> None:
    words = limelight.word_times(answer(heads=heads))
    assert [each.text for each in words] == ["the", "cat", "sat."]
    assert [each.start for each in words] == pytest.approx([0, 0.2, 0.56])
    assert [each.end for each in words] == pytest.approx([0.2, 0.56, 0.96])


def test_the_last_word_of_an_output_that_was_cut_ends_with_the_recording() -> None:
    words = limelight.word_times(answer(tokens=len(PIECES) - 1))
    assert words[-1].text == "sat." and words[-1].end == pytest.approx(0.02 * HEARD)


def test_an_output_without_text_has_no_words() -> None:
    assert limelight.word_times(answer(tokens=1)) == ()


def test_a_selection_and_another_map_are_refused() -> None:
    whole = answer()["alignment"]
    part = replace(whole, query=whole.query.take([1, 2]), weights=whole.weights[:, 1:3])
    with pytest.raises(ValueError, match="'alignment' is a selection; ask for all of its queries and keys"):
        limelight.word_times(Attended(prediction(), (part,)))
    other = replace(whole, key=replace(whole.key, kind="tokens"))
    with pytest.raises(ValueError, match="is from output_steps to tokens; it must be from output_steps to frames"):
        limelight.word_times(Attended(prediction(), (other,)))
