"""Generation behind a given output, and the most probable tokens of each step, by every door."""

from typing import Any

import numpy as np
import pytest

from limelight.v1 import service_pb2, values_pb2
from limelight_bundle.wire import to_tensor
from tests.kit import bundles
from tests.kit.serving import Running, generate, predict, text
from tests.service.every_door import DOORS, ask

SOURCE, TARGET = "the cat sat", [5, 6]
IDS = bundles.ids_of(SOURCE)


def begun() -> values_pb2.Instance:
    instance = text(SOURCE)
    instance.inputs["target_ids"].tensor.CopyFrom(to_tensor(np.array(TARGET)))
    return instance


def options(**fields: Any) -> service_pb2.GenerationOptions:
    return service_pb2.GenerationOptions(continue_target=True, max_new_tokens=3, top_logprobs=4, **fields)


def check_top(top: service_pb2.TopTokens, steps: int, tokens: list[int]) -> None:
    """Check the most probable tokens of the last steps of a sequence against NumPy."""
    assert top.tokens_per_step == 4 and len(top.token_ids) == 4 * steps
    for place in range(steps):
        wanted = bundles.log_probabilities(IDS, tokens[: len(tokens) - steps + place])
        found = slice(4 * place, 4 * place + 4)
        np.testing.assert_allclose(top.log_probabilities[found], np.sort(wanted)[:-5:-1], atol=1e-4)
        np.testing.assert_allclose(wanted[list(top.token_ids[found])], np.sort(wanted)[:-5:-1], atol=1e-4)
        assert list(top.texts[found]) == [bundles.WORDS[each] for each in top.token_ids[found]]


@pytest.mark.parametrize("door", DOORS)
def test_forced_tokens_are_counted_and_the_most_probable_are_told(running: Running, door: str) -> None:
    (answer,) = ask(running, door, predict("echo", begun(), generation=options())).predictions
    (sequence,) = answer.results[0].sequences.sequences
    tokens = list(sequence.token_ids)
    assert tokens[:2] == TARGET and 2 < len(tokens) <= 6 and sequence.forced_tokens == 2
    assert sequence.finish_reason != service_pb2.FINISH_REASON_TARGET
    check_top(sequence.top, len(tokens), tokens)
    start, *events, end = ask(running, door, generate("echo", begun(), generation=options()))
    assert start.HasField("start") and end.end.sequences[0] == sequence
    assert [each.token.forced for each in events] == [True, True, *[False] * (len(tokens) - 2)]
    for place, each in enumerate(events, 1):
        check_top(each.token.top, 1, tokens[:place])
    (plain,) = ask(running, door, predict("echo", begun())).predictions
    (forced,) = plain.results[0].sequences.sequences
    assert (forced.forced_tokens, list(forced.token_ids), forced.HasField("top")) == (2, TARGET, False)


@pytest.mark.parametrize("door", DOORS)
def test_drawn_tokens_behind_a_target_follow_the_seed_and_beams_are_ranked_by_them(running: Running, door: str) -> None:
    drawn = options(strategy=service_pb2.STRATEGY_SAMPLE, temperature=3.0)
    request = predict("echo", *[begun()] * 3, generation=drawn)
    for each in request.instances:
        each.seed = 7
    found = [each.results[0].sequences.sequences[0] for each in ask(running, door, request).predictions]
    assert found[0] == found[1] == found[2] and list(found[0].token_ids[:2]) == TARGET
    wide = options(strategy=service_pb2.STRATEGY_BEAM, beams=4, hypotheses=4)
    (answer,) = ask(running, door, predict("echo", begun(), generation=wide)).predictions
    sequences = answer.results[0].sequences.sequences
    scores = [sum(each.log_probabilities[2:]) / len(each.log_probabilities[2:]) for each in sequences]
    np.testing.assert_allclose([each.score for each in sequences], scores, atol=1e-4)
    assert scores == sorted(scores, reverse=True)
    for each in sequences:
        check_top(each.top, len(each.token_ids), list(each.token_ids))
