"""The layout that bertviz's `head_view(attention, tokens)` and its encoder-decoder form take."""

import numpy as np
import pytest

import limelight
from limelight import bertviz
from limelight.labels import plain
from limelight.maps import AttentionMap
from tests.client.served import DOCUMENT, TEXT, echo, steps


def make(name: str, weights: np.ndarray, query: str, key: str) -> AttentionMap:
    kinds = {"output": "output_steps", "input": "input_steps"}
    axes = [
        plain(
            side,
            kinds.get(side, "tokens"),
            [f"{side}{index}" for index in range(size)],
        )
        for side, size in zip((query, key), weights.shape[1:], strict=True)
    ]
    return AttentionMap(
        name=name, kind="self", heads=(0, 1), weights=weights.astype(np.float32), query=axes[0], key=axes[1]
    )


def test_self_attention_is_a_list_of_layers_with_its_tokens(client: limelight.Client):
    answer = client.attend("tiny", TEXT, maps="encoder.*")
    drawn = answer.to_bertviz()
    assert set(drawn) == {"attention", "tokens"}
    assert drawn["tokens"] == TEXT.split()
    assert [layer.shape for layer in drawn["attention"]] == [(1, 2, 3, 3)] * 2
    np.testing.assert_array_equal(drawn["attention"][1][0], answer["encoder.1.self"].weights)
    drawn["attention"][0][:] = 0  # a copy: torch.from_numpy wants writable memory
    assert len(answer.to_bertviz("encoder.1.*")["attention"]) == 1


def test_two_sequences_are_encoder_decoder_and_cross():
    maps = [
        make("encoder.0.self", np.zeros((2, 3, 3)), "source", "source"),
        make("decoder.0.self", np.zeros((2, 2, 2)), "output", "input"),
        make("decoder.0.cross", np.ones((2, 2, 3)), "output", "source"),
    ]
    drawn = bertviz.arguments(maps)
    assert [drawn[f"{part}_attention"][0].shape for part in ("encoder", "decoder", "cross")] == [
        (1, 2, 3, 3),
        (1, 2, 2, 2),
        (1, 2, 2, 3),
    ]
    assert drawn["encoder_tokens"] == ["source0", "source1", "source2"]
    assert drawn["decoder_tokens"] == ["output0", "output1"]
    assert set(drawn) == {f"{part}_attention" for part in ("encoder", "decoder", "cross")} | {
        "encoder_tokens",
        "decoder_tokens",
    }


def test_a_cross_map_alone_brings_both_lists_of_tokens(client: limelight.Client):
    drawn, words = client.attend("echo", TEXT).to_bertviz("decoder.0.cross"), list(steps(echo()))
    assert set(drawn) == {"cross_attention", "encoder_tokens", "decoder_tokens"}
    assert drawn["encoder_tokens"] == TEXT.split()
    assert drawn["decoder_tokens"] == words
    assert drawn["cross_attention"][0].shape == (1, 1, len(words), 3)


def test_edges_are_drawn_dense_and_maps_that_do_not_fit_are_named(client: limelight.Client):
    answer = client.attend("paper", DOCUMENT)
    assert answer.to_bertviz("word")["cross_attention"][0].shape == (1, 1, 2, 8)
    with pytest.raises(ValueError, match="'word' and 'sentence'"):
        answer.to_bertviz()
    with pytest.raises(ValueError, match="there are word, sentence"):
        answer.to_bertviz("encoder.*")
