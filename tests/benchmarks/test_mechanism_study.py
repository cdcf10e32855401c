"""The equal-terms study: what it counts, and that it resumes where it stopped."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.mechanism_study.configurations import Configuration, configurations, measured, refusal
from benchmarks.mechanism_study.data import Part, TaskData, batches, collate
from benchmarks.mechanism_study.measure import normalised_entropy
from benchmarks.mechanism_study.overlap import document_weights, marked, overlap
from benchmarks.mechanism_study.page import page
from benchmarks.mechanism_study.results import Results
from benchmarks.mechanism_study.summary import REFERENCE, Line, lines, smallest_difference
from models.catalogue.registry import MECHANISMS
from tests.models.small_texts import texts


def test_entropy_is_one_for_an_average_zero_for_one_word_and_ignores_padding() -> None:
    weights = np.array([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.2, 0.6]]]])
    real = np.array([[[[True, True, False]] * 3 + [[False, False, False]]]])
    np.testing.assert_allclose(normalised_entropy(weights, real), [1, 0], atol=1e-12)


def test_entropy_takes_signed_weights_by_their_size_and_each_feature_by_itself() -> None:
    weights = np.array([[[[[-0.5, 1.0], [0.5, 0.0]]]]])  # [batch, head, query, key, feature]
    real = np.ones((1, 1, 1, 2), dtype=bool)
    np.testing.assert_allclose(normalised_entropy(weights, real), [1, 0], atol=1e-12)


def study(sentences: list[str], evidence: list[list[list[int]]]) -> TaskData:
    part = Part([], np.array([0]), [{"sentences": sentences, "evidence": evidence}])
    return TaskData(texts(), part, part, "made up")


def test_marks_are_found_where_the_tokenizer_splits_what_annotators_counted_as_one_word() -> None:
    data = study(["the cat, sat", "a dog"], [[[0, 1, 2]], [[1, 1, 2]]])
    # the | cat , | sat; a | dog: the comma belongs to the annotators' second word.
    assert marked(data)[0].tolist() == [False, True, True, False, False, True]


def test_overlap_of_weights_that_are_all_on_marked_words() -> None:
    data = study(["the cat sat on"], [[[0, 1, 2]]])
    found = overlap(data, {0: np.array([0.0, 1.0, 0.0, 0.0])})
    assert (found.correctness, found.marked, found.precision) == (1.0, 0.25, 1.0)
    flat = overlap(data, {0: np.full(4, 0.25)})
    assert (flat.correctness, flat.precision, flat.correlation) == (0.25, 0.25, 0.0)


def test_a_words_weight_in_a_document_is_its_own_times_its_sentences() -> None:
    maps = {
        "word": np.array([[[[0.25, 0.75], [1.0, 0.0]]]]),
        "sentence": np.array([[[[0.4, 0.6]]]]),
    }
    mask = np.array([[[True, True], [True, False]]])
    np.testing.assert_allclose(document_weights(maps, mask)[0], [0.1, 0.3, 0.6])


def test_batches_hold_every_example_once_in_an_order_that_the_seed_decides() -> None:
    rows = [{"token_ids": np.ones(1 + n % 5, dtype=np.int64)} for n in range(50)]
    part = Part(rows, np.zeros(50), [])
    first, again, other = (
        [index.tolist() for index in batches(part, 8, np.random.default_rng(seed))] for seed in (0, 0, 1)
    )
    assert sorted(place for index in first for place in index) == list(range(50))
    assert first == again != other
    batch = collate([rows[0], rows[4]])
    assert batch["token_ids"].shape == (2, 5) and batch["token_mask"].sum() == 6


def test_every_mechanism_is_compared_and_no_two_lines_have_the_same_name() -> None:
    found = configurations()
    assert len({each.key for each in found}) == len(found)
    names = {each.name for each in found}
    for mechanism in MECHANISMS:
        if mechanism.served and mechanism.column != "align":
            assert mechanism.name in names
    keys = {each.key for each in measured()}
    assert set(REFERENCE.values()) <= keys
    assert {each.same_as for each in found if each.same_as} <= keys


def test_what_cannot_be_combined_is_refused_with_the_reason() -> None:
    small = texts()
    refused = {each.name: reason for each in configurations() if (reason := refusal(each, small))}
    assert set(refused) == {
        f"{align} × {score}"
        for align in ("kernel ratio", "softmax-free kernel")
        for score in ("scaled multiplicative", "additive")
    }
    assert all("kernel" in reason for reason in refused.values())


def test_results_are_resumed_and_shared_by_processes(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    one, other = Results(file), Results(file)
    one.add("run", "a", 0, accuracy=0.5)
    assert not other.known("run", "a", 0)
    other.add("run", "a", 1, accuracy=0.7)
    assert [row["accuracy"] for row in Results(file).of("run", "a")] == [0.5, 0.7]


def line(accuracy: float, *, deviation: float = 0.0, seeds: int = 3, held_out: int = 1000) -> Line:
    configuration = Configuration(task="sentence", group="score", name="x", make=lambda texts: pytest.fail("not built"))
    return Line(
        configuration=configuration,
        seeds=seeds,
        held_out=held_out,
        accuracy=accuracy,
        deviation=deviation,
        parameters=1,
        seconds=1.0,
        latency=None,
        entropy=None,
        overlap={},
    )


def test_the_smallest_difference_that_can_be_found() -> None:
    # 0.5 ± sqrt(0.25 / 1000) each: the difference's standard error is 0.02236, times 2.802.
    assert smallest_difference([line(0.5), line(0.5)]) == pytest.approx(0.06265, abs=1e-5)
    # A spread over three seeds adds 0.03² / 3 to each line's variance.
    assert smallest_difference([line(0.5, deviation=0.03)]) == pytest.approx(2.802 * math.sqrt(2 * 5.5e-4), abs=1e-5)
    assert smallest_difference([line(0.5), line(0.9, seeds=1, deviation=math.nan)]) == smallest_difference([line(0.5)])


def test_found_differences_are_as_rare_and_as_sure_as_they_are_said_to_be() -> None:
    """Simulated: of true differences of that size four out of five pass a test at 5 %."""
    size, generator = smallest_difference([line(0.75)]), np.random.default_rng(0)
    right = generator.binomial(1000, [0.75 - size / 2, 0.75 + size / 2], (20_000, 2)) / 1000
    error = np.sqrt((right * (1 - right)).sum(-1) / 1000)
    assert ((right[:, 1] - right[:, 0]) / error > 1.96).mean() == pytest.approx(0.8, abs=0.03)


def test_the_page_draws_no_conclusion_in_bold_and_marks_no_line() -> None:
    written = page(configurations(), Results())
    assert "**In this" not in written
    assert "▲" not in written and "▼" not in written
    assert written.count("Smallest difference that could be found") == written.count("\n## ")


def test_the_committed_page_is_what_the_committed_results_say() -> None:
    folder = Path(__file__).parents[2]
    assert (folder / "docs" / "mechanisms.md").read_text(encoding="utf-8") == page(configurations(), Results())


def test_every_configuration_that_can_be_built_has_three_seeds_and_a_latency() -> None:
    results = Results()
    found = lines(configurations(), results)
    lacking = [
        each.key
        for each in configurations()
        if not results.known("refused", each.key)
        and (each.key not in found or found[each.key].seeds < 3 or found[each.key].latency is None)
    ]
    assert lacking == []
