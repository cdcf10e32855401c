"""Generation: NumPy's tokens, probabilities and maps, whatever else is in the batch and whenever the others end."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1.attention_pb2 import QUANTITY_SCORES, QUANTITY_WEIGHTS
from limelight_bundle.maps import WEIGHTS, map_key
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row
from limelight_service.engine.decoding.continuous_batch import Generation
from limelight_service.engine.decoding.search import Hypothesis
from limelight_service.engine.decoding.trace import Trace
from limelight_service.engine.model import Model
from limelight_service.engine.types import Answer, FinishReason, GenerationSettings, Query, Sequence, Step, Strategy
from tests.kit import bundles
from tests.service.engine.conftest import jobs_of, run_together, weights_of
from tests.service.engine.test_forward import assert_map

MAPS = weights_of("encoder.0.self", "decoder.0.cross", "decoder.0.self")
CROSS, OWN = ("decoder.0.cross", WEIGHTS), ("decoder.0.self", WEIGHTS)
LONGEST = bundles.MOST_NEW_TOKENS
SPECIAL = {bundles.PAD, bundles.BEGIN, bundles.END}
ids = st.lists(st.integers(1, bundles.VOCABULARY - 1), min_size=1, max_size=10)
ranks = st.integers(1, 20)


@pytest.fixture(scope="session")
def model(models: dict[str, Model]) -> Model:
    """The model that generates."""
    return models["echo"]


def rows_of(folders: dict[str, BundleFolder], *batch: list[int]) -> tuple[Row, ...]:
    """Rows of sources."""
    return tuple(bundles.row(folders["echo"], ids=each) for each in batch)


def assert_sequence(answer: Answer, source: list[int], sequence: Sequence) -> None:
    """Check probabilities, maps and labels of a sequence against NumPy, whatever chose its tokens."""
    tokens = sequence.token_ids
    for place, (token, found) in enumerate(zip(tokens, sequence.log_probabilities, strict=True)):
        expected = bundles.log_probabilities(np.array(source), tokens[:place])[token]
        assert found == pytest.approx(expected, abs=1e-3)
    expected_maps = bundles.echo_maps(np.array(source), tokens)
    for name, quantity in answer.maps:
        assert_map(answer.maps[name, quantity], expected_maps[map_key(name, quantity)])
    labels = answer.labels["output"]
    assert labels.size == len(tokens) == len(labels.texts) == len(labels.starts) == len(labels.ends)
    assert tuple(labels.ids) == tokens
    special = [token in SPECIAL for token in tokens]
    assert list(labels.special) == (special if any(special) else [])


@settings(max_examples=25, deadline=None)
@given(batch=st.lists(ids, min_size=1, max_size=5))
def test_greedy_gives_numpys_tokens_and_maps_in_any_batch(
    model: Model, folders: dict[str, BundleFolder], batch: list[list[int]]
) -> None:
    for source, answer in zip(batch, run_together(model, Query(rows_of(folders, *batch), MAPS)), strict=True):
        expected = bundles.echo_answer(np.array(source), LONGEST)
        (sequence,) = answer.sequences
        assert sequence.token_ids == expected.token_ids
        ended = sequence.token_ids[-1] == bundles.END
        assert sequence.finish_reason is (FinishReason.END if ended else FinishReason.LENGTH)
        assert_sequence(answer, source, sequence)


def test_the_small_generator_ends_some_sequences_and_cuts_others() -> None:
    ended = {
        bundles.echo_answer(np.array(each), LONGEST).token_ids[-1] == bundles.END
        for each in itertools.product(range(1, bundles.VOCABULARY), repeat=2)
    }
    assert ended == {True, False}


@settings(max_examples=15, deadline=None)
@given(batch=st.lists(ids, min_size=2, max_size=4), seed=st.integers(0, 2**64 - 1), beam=st.booleans())
def test_sampling_and_beams_give_the_same_alone_and_together(
    model: Model, folders: dict[str, BundleFolder], batch: list[list[int]], seed: int, beam: bool
) -> None:
    generation = (
        GenerationSettings(Strategy.BEAM, beams=3, hypotheses=2) if beam else GenerationSettings(Strategy.SAMPLE)
    )
    seeds = tuple((seed + place) % 2**64 for place in range(len(batch)))
    together = run_together(model, Query(rows_of(folders, *batch), MAPS, seeds, generation=generation))
    again = run_together(model, Query(rows_of(folders, *batch[::-1]), MAPS, seeds[::-1], generation=generation))[::-1]
    for index, (source, answer) in enumerate(zip(batch, together, strict=True)):
        assert_sequence(answer, source, answer.sequences[0])
        if beam:
            # Rows of a batch do not see each other; what differs by rounding may only swap equals.
            assert [each.score for each in answer.sequences] == pytest.approx(
                [each.score for each in again[index].sequences], abs=1e-4
            )
            assert answer.sequences[0].score >= answer.sequences[-1].score
        else:
            assert again[index].sequences[0].token_ids == answer.sequences[0].token_ids
            assert answer.seed == seeds[index]
    (last,) = run_together(model, Query(rows_of(folders, batch[-1]), MAPS, seeds[-1:], generation=generation))
    assert last.sequences[0].token_ids == together[-1].sequences[0].token_ids


@pytest.mark.parametrize(("sequences", "told"), [(1, 0), (2, 1), (3, 2), (9, 2)])
def test_the_maps_of_other_hypotheses_are_those_of_their_own_tokens(
    model: Model, folders: dict[str, BundleFolder], sequences: int, told: int
) -> None:
    generation = GenerationSettings(Strategy.BEAM, beams=4, hypotheses=3)
    query = Query(rows_of(folders, [4, 5], [6, 7, 8, 9]), MAPS, generation=generation, sequences=sequences)
    for source, answer in zip(([4, 5], [6, 7, 8, 9]), run_together(model, query), strict=True):
        assert len(answer.sequences) == 3 and len(answer.other_sequences) == told
        for sequence, other in zip(answer.sequences[1:], answer.other_sequences, strict=False):
            expected = bundles.echo_maps(np.array(source), sequence.token_ids)
            assert set(other.maps) == {CROSS, OWN}  # the encoder's are the same for all
            for name, _ in other.maps:
                assert_map(other.maps[name, WEIGHTS], expected[name])
            assert tuple(other.labels["output"].ids) == sequence.token_ids


def test_keys_that_were_not_there_yet_have_the_lowest_score(model: Model, folders: dict[str, BundleFolder]) -> None:
    assert isinstance(model.runner, Generation)
    (row,) = rows_of(folders, [4])
    bound = model.runner.decoder.tracer.start(row, Query((row,), weights_of("decoder.0.self"))).maps[OWN]
    for quantity, absent in ((QUANTITY_WEIGHTS, 0.0), (QUANTITY_SCORES, np.finfo(np.float32).min)):
        key = ("decoder.0.self", quantity)
        trace = Trace(row, {key: replace(bound, quantity=quantity)}, [])
        trace.add({"own": np.array([[1.0, 9.0, 9.0]], np.float32)}, [0], 1)
        trace.add({"own": np.array([[8.0, 8.0, 8.0], [2.0, 3.0, 9.0]], np.float32)}, [1], 2)
        found = trace.sequence_maps(Hypothesis().then(5, 0.0).then(6, 0.0))[key]
        assert found.weights.tolist() == [[[1.0, absent], [2.0, 3.0]]]


def test_a_beam_finds_at_least_what_greedy_finds(model: Model, folders: dict[str, BundleFolder]) -> None:
    for source in ([3], [4, 5], [6, 7, 8], [9, 10, 11, 3]):
        rows = rows_of(folders, source)
        (single,) = run_together(model, Query(rows))[0].sequences
        generation = GenerationSettings(Strategy.BEAM, beams=12, length_penalty=0.0)
        (best,) = run_together(model, Query(rows, generation=generation))[0].sequences
        assert sum(best.log_probabilities) == pytest.approx(best.score, abs=1e-6)
        assert best.score >= sum(single.log_probabilities) - 1e-6


def test_a_target_is_followed_with_its_own_attention(model: Model, folders: dict[str, BundleFolder]) -> None:
    source, target = [3, 4, 5], [7, 8, 2, 9]
    forced = bundles.row(folders["echo"], ids=source, target_ids=target)
    free = bundles.row(folders["echo"], ids=source)
    answers = run_together(model, Query((forced, free), MAPS))
    (sequence,) = answers[0].sequences
    assert (sequence.token_ids, sequence.finish_reason) == (tuple(target), FinishReason.TARGET)
    assert_sequence(answers[0], source, sequence)
    assert answers[1].sequences[0].token_ids == bundles.echo_answer(np.array(source), LONGEST).token_ids


@settings(max_examples=25, deadline=None)
@given(
    source=ids, target=st.lists(st.integers(4, bundles.VOCABULARY - 1), min_size=1, max_size=4), k=st.integers(1, 20)
)
def test_a_target_is_gone_on_from_in_company_as_numpy_does_alone(
    model: Model, folders: dict[str, BundleFolder], source: list[int], target: list[int], k: int
) -> None:
    """Also where the target ends with the end token, which is left out."""
    generation = GenerationSettings(continue_target=True, max_new_tokens=3, top_logprobs=k)
    begun = bundles.row(folders["echo"], ids=source, target_ids=[*target, bundles.END])
    rows = (*rows_of(folders, [5, 6, 7]), begun, bundles.row(folders["echo"], ids=source, target_ids=[bundles.END]))
    free, answer, from_the_start = run_together(model, Query(rows, MAPS, generation=generation))
    for each, forced in ((free, []), (answer, target), (from_the_start, [])):
        (sequence,) = each.sequences
        own = [5, 6, 7] if each is free else source
        tokens = list(forced)
        while len(tokens) < len(forced) + 3 and bundles.END not in tokens:
            tokens.append(int(bundles.log_probabilities(np.array(own), tokens).argmax()))
        if sequence.token_ids[-1] == bundles.END and bundles.END not in tokens:
            tokens.append(bundles.END)
        assert (list(sequence.token_ids), sequence.forced) == (tokens, len(forced))
        assert_sequence(each, own, sequence)
        assert sequence.top is not None and sequence.top.per_step == min(k, bundles.VOCABULARY)
        tops = np.reshape(sequence.top.token_ids, (len(tokens), -1))
        for place, found in enumerate(tops):
            wanted = bundles.log_probabilities(np.array(own), tokens[:place])
            np.testing.assert_allclose(wanted[found], np.sort(wanted)[::-1][: len(found)], atol=1e-4)
        assert [bundles.WORDS[each] for each in sequence.top.token_ids] == list(sequence.top.texts)


def test_a_stop_text_counts_where_it_ends_behind_the_target(model: Model, folders: dict[str, BundleFolder]) -> None:
    source = next(
        list(each)
        for each in itertools.product(range(3, bundles.VOCABULARY), repeat=2)
        if len(set(bundles.echo_answer(np.array(each), LONGEST).token_ids[:3]) - SPECIAL) == 3
    )
    expected = bundles.echo_answer(np.array(source), LONGEST).token_ids[:3]
    words = [bundles.WORDS[each] for each in expected]
    begun = bundles.row(folders["echo"], ids=source, target_ids=expected[:1])
    for stop, text in ((words[0], None), (words[2], words[:2]), (f"{words[0]} {words[1]}", [])):
        generation = GenerationSettings(continue_target=True, stop=(stop,), max_new_tokens=2)
        (sequence,) = run_together(model, Query((begun,), generation=generation))[0].sequences
        assert sequence.finish_reason is (FinishReason.LENGTH if text is None else FinishReason.STOP)
        assert sequence.text.split() == (words if text is None else text)


def test_a_stop_text_is_left_out(model: Model, folders: dict[str, BundleFolder]) -> None:
    source = next(
        list(each)
        for each in itertools.product(range(3, bundles.VOCABULARY), repeat=2)
        if len(set(bundles.echo_answer(np.array(each), LONGEST).token_ids[:3]) - SPECIAL) == 3
    )
    expected = bundles.echo_answer(np.array(source), LONGEST).token_ids[:3]
    (free,) = run_together(model, Query(rows_of(folders, source)))[0].sequences
    words = free.text.split()
    generation = GenerationSettings(stop=("never", words[2]))
    (sequence,) = run_together(model, Query(rows_of(folders, source), generation=generation))[0].sequences
    assert (sequence.token_ids, sequence.finish_reason) == (expected, FinishReason.STOP)
    assert sequence.text.split() == words[:2]


def test_labels_point_into_the_text(model: Model, folders: dict[str, BundleFolder]) -> None:
    (answer,) = run_together(model, Query(rows_of(folders, [3, 4])))
    text = answer.sequences[0].text
    labels = answer.labels["output"]
    for place, (token, piece) in enumerate(zip(labels.ids, labels.texts, strict=True)):
        special = token in SPECIAL
        assert piece == bundles.WORDS[token]
        assert text[labels.starts[place] : labels.ends[place]] == ("" if special else piece)


def test_max_new_tokens_lowers_the_models_limit_and_cannot_raise_it(
    model: Model, folders: dict[str, BundleFolder]
) -> None:
    source = next(
        list(each)
        for each in itertools.product(range(1, bundles.VOCABULARY), repeat=2)
        if bundles.END not in bundles.echo_answer(np.array(each), LONGEST).token_ids
    )
    for wanted, got in ((3, 3), (0, LONGEST), (1000, LONGEST)):
        query = Query(rows_of(folders, source), generation=GenerationSettings(max_new_tokens=wanted))
        (sequence,) = run_together(model, query)[0].sequences
        assert (len(sequence.token_ids), sequence.finish_reason) == (got, FinishReason.LENGTH)


def test_steps_are_told_one_by_one_and_are_the_rows_of_the_answer(
    model: Model, folders: dict[str, BundleFolder]
) -> None:
    query = Query(rows_of(folders, [3, 4, 5]), MAPS)
    told = [event for happened in model.runner.run(jobs_of(model, query, steps=True)) for _, event in happened]
    steps, answer = [each for each in told if isinstance(each, Step)], told[-1]
    assert isinstance(answer, Answer)
    assert tuple(each.token_id for each in steps) == answer.sequences[0].token_ids
    assert [each.index for each in steps] == list(range(len(steps)))
    for place, step in enumerate(steps):
        np.testing.assert_allclose(step.maps[CROSS].weights, answer.maps[CROSS].weights[:, place : place + 1])
        assert step.maps[OWN].weights.shape == (1, 1, place + 1)
        assert step.text == ("" if step.token_id in SPECIAL else answer.labels["output"].texts[place])
