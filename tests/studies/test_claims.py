"""Verdicts on claims: their statistics by simulation and against Student's, their rules by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.records import read
from limelight_models.cards.by_example import ByExample
from research.mechanisms.statistics import Estimate, Prior, estimate, holm, parts, prior
from research.replication.differences import COUNTED, OTHERS, PAIRED, Difference, differences, seeds_prior
from research.replication.judging import NO, NOT_ONCE, NOT_SHOWN, ONCE, UNRUN, YES, judged_controls, p_value, verdict
from research.replication.page import PAGE
from research.replication.papers import CLAIMS, compared
from research.replication.runs import RECORD

CLAIMS_A_PAGE, SEEDS = 70, 3
Variances = Callable[[np.random.Generator], np.ndarray]


def as_the_prior(generator: np.random.Generator) -> np.ndarray:
    """Scaled inverse χ², as the record's: of 1.5 degrees of freedom."""
    return 1.5 * 1.46 / generator.chisquare(1.5, CLAIMS_A_PAGE)


def lognormal(generator: np.random.Generator) -> np.ndarray:
    return np.exp(generator.normal(0.3, 1.8, CLAIMS_A_PAGE))


def in_groups(generator: np.random.Generator) -> np.ndarray:
    """Not as any prior has them: standard deviations of 0.2, 1.2 and 10 points."""
    return generator.choice([0.05, 1.5, 100.0], CLAIMS_A_PAGE)


def adjusted(generator: np.random.Generator, variances: np.ndarray, effects: np.ndarray, examples: float) -> np.ndarray:
    """P values of a page of claims: seeds vary by `variances`, and held-out examples, the same for all seeds, too."""
    spread = generator.normal(0, np.sqrt(variances)[:, None], (CLAIMS_A_PAGE, SEEDS))
    values = effects[:, None] + spread + generator.normal(0, np.sqrt(examples), (CLAIMS_A_PAGE, 1))
    of = prior(values.var(1, ddof=1).tolist(), [SEEDS - 1] * CLAIMS_A_PAGE)
    return np.array(holm([estimate(each.tolist(), of, examples).p_value() for each in values]))


@pytest.mark.parametrize(("variances", "most"), [(as_the_prior, 0.05), (lognormal, 0.05), (in_groups, 0.10)])
def test_a_page_on_which_no_claim_is_true_has_no_bold_word(variances: Variances, most: float) -> None:
    generator, pages = np.random.default_rng(0), 200
    wrong = [
        adjusted(generator, variances(generator), np.zeros(CLAIMS_A_PAGE), examples).min() < 0.05
        for number in range(pages)
        for examples in [2.0 * (number % 2)]
    ]
    assert np.mean(wrong) <= most + 1.64 * np.sqrt(most / pages)  # what chance adds to that in as many pages


def test_clear_effects_are_found_among_all_claims() -> None:
    """As captions beside equal weights: 44 points in three seeds that vary by two, and 15 where they vary by one."""
    generator, pages, found = np.random.default_rng(1), 100, np.zeros(2)
    for _ in range(pages):
        variances, effects = as_the_prior(generator), np.zeros(CLAIMS_A_PAGE)
        variances[:2], effects[:2] = (4.7, 1.0), (44, 15)
        found += (adjusted(generator, variances, effects, 0)[:2] < 0.05) / pages
    assert found[0] > 0.95 and found[1] > 0.75


FLOATS = st.floats(-50, 50).map(lambda each: round(each, 3))


@given(
    st.lists(FLOATS, min_size=2, max_size=6).filter(lambda each: np.std(each) > 0.01),
    st.sampled_from([0.0, 1.2, 10.0]),
    st.sampled_from([0.1, 20.0]),
    st.sampled_from([0.0, 0.1, 5.0]),
)
def test_intervals_and_p_values_agree(values: list[float], freedom: float, variance: float, shared: float) -> None:
    found = estimate(values, Prior(freedom, variance), shared)
    low, high = found.interval
    assert low < found.mean < high
    assert found.p_value(low) == pytest.approx(0.05, rel=1e-3) == found.p_value(high)
    assert found.p_value(found.mean) == pytest.approx(1, abs=0.01)
    assert found.p_value(found.mean + 2) >= found.p_value(found.mean + 3) > 0  # the further, the less
    mirrored = estimate([-each for each in values], Prior(freedom, variance), shared)
    assert mirrored.p_value(1.0) == pytest.approx(found.p_value(-1.0))
    if not freedom and not shared:
        assert found.p_value() == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    if shared:
        assert high - low > np.subtract(*estimate(values, Prior(freedom, variance)).interval[::-1])


def test_examples_alone_are_normal_and_the_seeds_variance_is_never_below_its_own() -> None:
    assert Estimate(2.0, 0.0, 2, 1.0).p_value() == pytest.approx(2 * stats.norm.sf(2))
    assert estimate([1.0, 1.0, 1.0], Prior(), own=3.0).of_seeds == 1.0


def test_the_prior_is_that_of_the_variances_there_are() -> None:
    generator = np.random.default_rng(2)
    variances = 4 * 2.0 / generator.chisquare(4, 3000) * generator.chisquare(2, 3000) / 2
    found = prior([*variances, 0.0], [2] * 3001)
    assert found.freedom == pytest.approx(4, rel=0.3) and found.variance == pytest.approx(2, rel=0.1)
    assert found.moderated(8.0, 2) == pytest.approx((found.freedom * found.variance + 16) / (found.freedom + 2))
    assert prior([1.0, 2.0], [2, 2]) == Prior()


def test_what_examples_bring_to_all_seeds_and_to_each() -> None:
    generator = np.random.default_rng(3)
    drawn = generator.normal(0, 2, (200_000, 1)) + generator.normal(0, 3, (200_000, 3))
    assert parts(drawn) == pytest.approx((4, 9), rel=0.03)


def run(model: str, seed: int, right: np.ndarray, data: str = "some", fingerprint: str = "") -> dict[str, Any]:
    return {
        "command": f"limelight train --data ../{data}",
        "model": model,
        "metrics": [{"name": "accuracy", "value": float(right.mean())}],
        "by_example": {"accuracy": ByExample(right[:, None].astype(float)).packed()},
        "data": {"name": data, "fingerprint": fingerprint, "held_out_examples": len(right)},
        "settings": {"seed": seed},
        "parameters": 100,
        "epochs": 5,
        "best_epoch": 3,
    }


def test_models_that_answered_the_same_examples_are_compared_by_those() -> None:
    generator = np.random.default_rng(4)
    hard = generator.random(400) < 0.5
    answers = [[hard | (generator.random(400) < share) for _ in range(3)] for share in (0.5, 0.4)]
    record = {
        f"{model} {seed}": run(model, seed, answers[number][seed])
        for number, model in enumerate("ab")
        for seed in range(3)
    }
    (found,) = differences(record, "a", "b")
    table = 100 * np.array([ours.astype(float) - theirs for ours, theirs in zip(*answers, strict=True)])
    assert (found.seeds, found.examples, found.made) == (3, PAIRED, False)
    assert found.by_seed == pytest.approx(table.mean(1))
    of_mean = table.mean(0).var() / 400  # examples are drawn for all seeds alike
    assert found.shared + found.own / 3 == pytest.approx(of_mean, rel=0.15)
    for each in record.values():
        del each["by_example"]
    (counted,) = differences(record, "a", "b")
    assert counted.examples == COUNTED and counted.shared > 2 * of_mean and counted.own == 0
    for each in record.values():
        each["data"]["fingerprint"] = str(each["settings"]["seed"])
    (again,) = differences(record, "a", "b")
    assert again.shared == counted.shared  # files may hold out the same examples for every seed
    for each in record.values():
        each["data"]["held_out"] = str(each["settings"]["seed"])
    assert differences(record, "a", "b")[0].shared == 0  # or not
    for each in record.values():
        each["command"] = "limelight train"
    (others,) = differences(record, "a", "b")
    assert others.examples == COUNTED and others.shared == 0 and others.own == pytest.approx(counted.shared)
    for each in record.values():
        each["metrics"][0]["name"] = "entity F1"
    (seeds,) = differences(record, "a", "b")
    assert (seeds.examples, seeds.shared, seeds.own) == (OTHERS, 0, 0)
    record.pop("b 0"), record.pop("b 1")
    record["b 5"] = run("b", 5, hard)
    (one,) = differences(record, "a", "b", "entity F1")  # only the seed that both have
    assert one.seeds == 1 and one.once is None and p_value([one], 0, Prior()) is None


def test_intervals_over_seeds_and_examples_hold_the_truth_as_often_as_they_say() -> None:
    """Two models of three seeds each, one of which is a tenth better, on 200 examples of which half are hard."""
    generator, compared = np.random.default_rng(5), []
    for number in range(150):
        base = np.where(generator.random(200) < 0.5, 0.3, 0.6)
        record = {
            f"{model} {seed}": run(
                model, seed, generator.random(200) < np.clip(base + better + more, 0, 1), str(number)
            )
            for model, better in (("a", 0.1), ("b", 0.0))
            for seed, more in enumerate(generator.normal(0, 0.04, 3))
        }
        compared += differences(record, "a", "b")
    of = seeds_prior(compared)
    held = [low <= 10 <= high for low, high in filter(None, (each.interval(of) for each in compared))]
    assert len(held) == 150 and 0.92 <= np.mean(held) <= 0.99


def several(ours: list[float], theirs: float, *, larger: float = 1.0, **more: Any) -> Difference:
    made = {"parameters": (int(100 * larger), 100), "examples": PAIRED, **more}
    return Difference("data", False, "accuracy", tuple(ours), (theirs,) * len(ours), **made)


CLEAR, NOTHING, WORSE = several([90, 91, 92], 80), several([79, 80, 81.5], 80), several([70, 71, 72], 80)
ONE, ONE_WORSE = several([90], 80, once=(5.0, 15.0)), several([70], 80, once=(-15.0, -5.0))


@pytest.mark.parametrize(
    ("beside", "less", "adjusted", "learned", "said"),
    [
        ([CLEAR], 0, 0.01, YES, "**shown**"),
        ([CLEAR], 0, 0.2, YES, "shown alone"),
        ([CLEAR, several([90, 91, 92], 80, larger=1.3)], 0, 0.01, YES, "shown, with 1.3 times the parameters"),
        ([several([90, 91, 92], 80, larger=0.3)], 0, 0.01, UNRUN, "**shown**"),
        ([CLEAR], 0, 0.01, NO, "shown, a control does as well"),
        ([CLEAR], 0, 0.2, NOT_ONCE, "shown alone, a control does as well"),
        ([several([90, 91, 92], 80, examples="")], 0, 0.01, YES, "shown, over seeds alone"),
        ([CLEAR, NOTHING], 0, 1, YES, "not shown"),  # it is above each, or it is not shown
        ([WORSE], 0, 0.01, NO, "**the opposite**"),
        ([WORSE], 0, 0.2, YES, "the opposite alone"),
        ([several([70, 71, 72], 80, larger=0.5)], 0, 0.01, YES, "the opposite, with 0.5 times the parameters"),
        ([several([70, 71, 72], 80, larger=2)], 0, 0.01, YES, "**the opposite**"),
        ([WORSE], 15, 0.01, YES, "**shown**"),  # no worse by 15 points
        ([CLEAR, WORSE], 0, 0.01, YES, "**the opposite**"),
        ([ONE], 0, 1, YES, "seen once"),  # whatever its interval
        ([ONE_WORSE], 0, 1, YES, "the opposite once"),
        ([several([81], 80, once=(-2.0, 4.0))], 0, 1, YES, "not seen"),
        ([several([90], 80)], 0, 1, YES, "seen once"),
        ([CLEAR, ONE], 0, 1, YES, "seen once"),
    ],
)
def test_verdicts(beside: list[Difference], less: float, adjusted: float, learned: str, said: str) -> None:
    assert verdict(beside, less, Prior(1, 1), adjusted, learned) == said


def test_both_directions_have_the_same_p_value_and_less_can_be_better() -> None:
    assert p_value([CLEAR], 0, Prior(1, 1)) == pytest.approx(p_value([several([70, 69, 68], 80)], 0, Prior(1, 1)))
    lower = Difference("data", True, "conicity", (6.0, 6.4, 6.3), (50.0, 50.5, 50.2), examples=OTHERS)
    assert verdict([lower], 0, Prior(1, 1), 0.01, YES) == "**shown**"


def test_whether_attention_has_to_be_learned() -> None:
    same = several([80.1, 80.0, 80.2], 80)
    found = judged_controls(
        {
            ("a", "x"): [CLEAR, CLEAR],
            ("b", "x"): [CLEAR, same],
            ("c", "x"): [CLEAR],
            ("d", "x"): [ONE, CLEAR],
            ("e", "x"): [ONE, ONE_WORSE],
            ("f", "x"): [CLEAR, several([70, 86, 92], 80)],
        },
        Prior(1, 0.1),
    )
    assert list(found.values()) == [YES, NO, UNRUN, ONCE, NOT_ONCE, NOT_SHOWN]


def test_claims_of_the_record() -> None:
    record = read(RECORD)
    judged = compared(record)
    assert {each.claim for each in judged} == set(CLAIMS)  # one that nothing was trained for has a line that says so
    for each in judged:
        one = any(beside.seeds == 1 for beside in each.found.values())
        assert not one or "shown" not in each.verdict, each
        assert each.adjusted >= (each.p_value or 0)
    (captions,) = differences(record, "show-attend-tell", "show-attend-tell-uniform")
    found = captions.estimate(seeds_prior([each for line in judged for each in line.found.values()]))
    assert (
        found and captions.gain == found.mean > 40 and len(judged) * found.p_value() < 0.05
    )  # three seeds can show it
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 120
