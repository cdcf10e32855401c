"""Searches on distributions that a reader checks by hand, and against exhaustive search."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_service.engine.decoding.search import (
    BeamSearch,
    Ending,
    ForcedSearch,
    Hypothesis,
    Search,
    SingleSearch,
    greedy,
    log_softmax,
    probabilities,
    sampler,
)
from limelight_service.engine.types import FinishReason, GenerationSettings, Strategy

END = 0


def table(seed: int, tokens: int = 4) -> dict[tuple[int, ...], np.ndarray]:
    """A language: log-probabilities of the next token after every sequence of up to 4 tokens."""
    random = np.random.default_rng(seed)
    return {
        prefix: log_softmax(random.normal(size=(1, tokens)) * 2)[0]
        for length in range(5)
        for prefix in itertools.product(range(tokens), repeat=length)
    }


def play(search: Search, language: dict[tuple[int, ...], np.ndarray]) -> list[Hypothesis]:
    """Run a search to its end, as a batch of one row would."""
    live: tuple[Hypothesis, ...] = (Hypothesis(),)
    ended: list[Hypothesis] = []
    while live:
        move = search.advance(live, np.stack([language[tuple(each.token_ids())] for each in live]))
        for each in move.live:
            assert each.parent == live[each.place]
        live = move.live
        ended += move.ended
    return search.best(ended)


def complete(
    language: dict[tuple[int, ...], np.ndarray], limit: int, ends: frozenset[int]
) -> dict[tuple[int, ...], float]:
    """Every sequence that ends, with its total; at the limit, its most probable next token decides."""
    found = {}
    for length in range(limit + 1):
        for tokens in itertools.product(sorted(set(range(4)) - ends), repeat=length):
            total = sum(language[tokens[:place]][token] for place, token in enumerate(tokens))
            following = language[tokens]
            for end in ends if length < limit else ends & {int(following.argmax())}:
                found[(*tokens, end)] = total + following[end]
            if length == limit and following.argmax() not in ends:
                found[tokens] = total
    return found


def beams_by_sorting(
    language: dict[tuple[int, ...], np.ndarray], settings: GenerationSettings, ending: Ending
) -> list[tuple[int, ...]]:
    """Beam search as its description says, with every continuation sorted at each step, and no early end."""
    live: list[Hypothesis] = [Hypothesis()]
    ended: list[Hypothesis] = []
    for _ in range(ending.limit):
        following = [each.then(token, p) for each in live for token, p in enumerate(language[tuple(each.token_ids())])]
        live = []
        for each in sorted(following, key=lambda one: -one.total):
            each = ending.apply(each)
            if len(live) < settings.beams:
                (ended if each.finish else live).append(each)
    for each in live:
        following = language[tuple(each.token_ids())]
        ended.append(ending.apply(each.then(int(following.argmax()), float(following.max()))))
    ended.sort(key=lambda each: -each.total / each.length**settings.length_penalty)
    return [tuple(each.token_ids()) for each in ended[: settings.hypotheses]]


end_tokens = st.sets(st.integers(0, 3), min_size=1, max_size=3).map(frozenset)
penalties = st.sampled_from([0.0, 0.7, 1.0, 3.0])


@given(st.integers(0, 200), penalties, end_tokens)
def test_a_beam_as_wide_as_the_tree_finds_the_best_sequences(seed: int, penalty: float, ends: frozenset[int]) -> None:
    language, limit = table(seed), 3
    settings = GenerationSettings(Strategy.BEAM, beams=200, length_penalty=penalty, hypotheses=5)
    found = play(BeamSearch(settings, Ending(ends, limit)), language)
    expected = sorted(
        (total / max(len(s), 1) ** penalty for s, total in complete(language, limit, ends).items()), reverse=True
    )
    np.testing.assert_allclose([h.total / h.length**penalty for h in found], expected[:5])


@given(st.integers(0, 2000), penalties, end_tokens, st.integers(1, 3), st.sets(st.integers(0, 3), max_size=1))
def test_a_narrow_beam_is_filled_whatever_ends_beside_it(
    seed: int, penalty: float, ends: frozenset[int], beams: int, stops: set[int]
) -> None:
    settings = GenerationSettings(Strategy.BEAM, beams=beams, length_penalty=penalty, hypotheses=beams)
    ending = Ending(ends, 4, (lambda each: each.token in stops) if stops else None)
    likelier = np.isin(np.arange(4), [*ends]) * 3.0
    language = {prefix: log_softmax((row + likelier)[np.newaxis])[0] for prefix, row in table(seed).items()}
    found = play(BeamSearch(settings, ending), language)
    assert [tuple(each.token_ids()) for each in found] == beams_by_sorting(language, settings, ending)


def test_the_best_tokens_may_all_be_end_tokens() -> None:
    """[2, 0] has log(0.31 x 0.98) / 2 = -0.596, where [0] has log(0.36) = -1.022."""
    language = {(): np.log([0.36, 0.33, 0.31])} | {(2,) * n: np.log([0.98, 0.01, 0.01]) for n in range(1, 5)}
    settings = GenerationSettings(Strategy.BEAM, beams=1, length_penalty=1.0)
    (found,) = play(BeamSearch(settings, Ending(frozenset({0, 1}), 4)), language)
    assert found.token_ids() == [2, 0]


def test_a_narrow_beam_finds_what_greedy_misses() -> None:
    # Greedy takes 1 (0.6) and can then at best reach 0.6 * 0.4; 2 (0.4) leads on with certainty.
    language = {(): np.log([1e-9, 0.6, 0.4]), (1,): np.log([0.4, 0.3, 0.3]), (2,): np.log([0.99, 0.005, 0.005])}
    language |= {(1, 1): language[(1,)], (1, 2): language[(1,)], (2, 1): language[(2,)], (2, 2): language[(2,)]}
    ending = Ending(frozenset({END}), 2)
    assert play(SingleSearch(greedy, ending), language)[0].token_ids() == [1, END]
    beam = BeamSearch(GenerationSettings(Strategy.BEAM, beams=2, hypotheses=2, length_penalty=0.0), ending)
    best = play(beam, language)
    assert best[0].token_ids() == [2, END]
    assert best[0].total == pytest.approx(np.log(0.4 * 0.99))
    assert best[0].total >= best[1].total


def test_one_beam_is_greedy() -> None:
    for seed in range(20):
        language, ending = table(seed), Ending(frozenset({END}), 3)
        (single,) = play(SingleSearch(greedy, ending), language)
        (beam,) = play(BeamSearch(GenerationSettings(Strategy.BEAM, beams=1), ending), language)
        assert beam.token_ids() == single.token_ids()


def test_the_end_token_does_not_count_towards_the_limit() -> None:
    ends = {(): np.log([0.1, 0.9]), (1,): np.log([0.9, 0.1])}
    goes_on = {(): np.log([0.1, 0.9]), (1,): np.log([0.1, 0.9])}
    search = SingleSearch(greedy, Ending(frozenset({END}), 1))
    assert (play(search, ends)[0].token_ids(), play(search, ends)[0].finish) == ([1, END], FinishReason.END)
    assert (play(search, goes_on)[0].token_ids(), play(search, goes_on)[0].finish) == ([1], FinishReason.LENGTH)


def test_a_stop_text_ends_a_sequence() -> None:
    language = {(1,) * n: np.log([0.1, 0.9]) for n in range(5)}
    (found,) = play(SingleSearch(greedy, Ending(frozenset({END}), 4, lambda h: h.length == 2)), language)
    assert (found.token_ids(), found.finish) == ([1, 1], FinishReason.STOP)


def test_a_target_is_followed_whatever_its_probability() -> None:
    language = table(3)
    (found,) = play(ForcedSearch((2, 0, 1)), language)
    assert (found.token_ids(), found.finish) == ([2, 0, 1], FinishReason.TARGET)
    assert found.total == pytest.approx(language[()][2] + language[(2,)][0] + language[(2, 0)][1])


def test_tokens_in_front_of_a_target_are_the_most_probable() -> None:
    language = table(3)
    (found,) = play(ForcedSearch((2, 1), before=1), language)
    first = int(np.argmax(language[()]))
    assert (found.token_ids(), found.finish) == ([first, 2, 1], FinishReason.TARGET)
    search = ForcedSearch((2, 1), before=1, behind=SingleSearch(greedy, Ending(frozenset(), 3)))
    (found,) = play(search, language)
    assert (found.token_ids(), found.finish, search.forced) == ([first, 2, 1], FinishReason.LENGTH, 3)


@given(
    st.integers(0, 200), penalties, end_tokens, st.lists(st.integers(0, 3), min_size=1, max_size=2), st.integers(1, 4)
)
def test_a_search_behind_a_target_is_that_of_a_language_that_begins_there(
    seed: int, penalty: float, ends: frozenset[int], target: list[int], beams: int
) -> None:
    language, settings = table(seed), GenerationSettings(Strategy.BEAM, beams=beams, length_penalty=penalty)
    begun = {prefix: language[(*target, *prefix)] for prefix in language if len(prefix) + len(target) <= 4}
    for make, limit in ((lambda most: BeamSearch(settings, Ending(ends, most)), 2), (one_by_one(ends), 2)):
        (found,) = play(ForcedSearch(tuple(target), behind=make(limit + len(target))), language)
        (wanted,) = play(make(limit), begun)
        assert (found.token_ids(), found.finish) == ([*target, *wanted.token_ids()], wanted.finish)
    search = ForcedSearch(tuple(target), behind=BeamSearch(settings, Ending(ends, limit + len(target))))
    (best,) = play(search, language)
    forced = sum(language[tuple(target[:place])][token] for place, token in enumerate(target))
    chosen = best.length - len(target)
    assert search.score(best) == pytest.approx((best.total - forced) / max(chosen, 1) ** penalty)


def one_by_one(ends: frozenset[int]) -> Callable[[int], Search]:
    """Make a search that takes the most probable token, up to a limit."""
    return lambda most: SingleSearch(greedy, Ending(ends, most))


def kept(settings: GenerationSettings, *values: float) -> list[int]:
    """Tokens that may be drawn."""
    return np.flatnonzero(probabilities(np.log(values), settings)).tolist()


def test_top_k_and_top_p_leave_the_most_probable() -> None:
    assert kept(GenerationSettings(top_k=2), 0.1, 0.5, 0.15, 0.25) == [1, 3]
    assert kept(GenerationSettings(top_p=0.5), 0.1, 0.5, 0.15, 0.25) == [1]
    assert kept(GenerationSettings(top_p=0.51), 0.1, 0.5, 0.15, 0.25) == [1, 3]
    assert kept(GenerationSettings(top_p=1e-9), 0.1, 0.5, 0.15, 0.25) == [1]
    # Of the two best, 0.5 / 0.75 is already over 0.6.
    assert kept(GenerationSettings(top_k=2, top_p=0.6), 0.1, 0.5, 0.15, 0.25) == [1]
    assert kept(GenerationSettings(top_k=9), 0.5, 0.5) == [0, 1]


def test_temperature_sharpens() -> None:
    cold = probabilities(np.log([0.2, 0.8]), GenerationSettings(temperature=0.5))
    np.testing.assert_allclose(cold / cold.sum(), [0.04 / 0.68, 0.64 / 0.68])


def test_draws_have_the_frequencies_of_the_distribution() -> None:
    scores = np.log([0.2, 0.5, 0.3])
    draws = [sampler(GenerationSettings(), seed)(scores, 0) for seed in range(4000)]
    np.testing.assert_allclose(np.bincount(draws) / 4000, [0.2, 0.5, 0.3], atol=0.03)


def test_a_draw_depends_on_seed_and_step_alone() -> None:
    scores = np.log(np.full(1000, 0.001))
    draw = sampler(GenerationSettings(), 5)
    assert draw(scores, 2) == sampler(GenerationSettings(), 5)(scores, 2)
    assert draw(scores, 2) not in {draw(scores, 3), sampler(GenerationSettings(), 6)(scores, 2)}


def test_log_softmax_does_not_overflow() -> None:
    np.testing.assert_allclose(log_softmax(np.array([[1e4, -1e4, 1e4]], np.float32))[0, [0, 2]], np.log(0.5))
