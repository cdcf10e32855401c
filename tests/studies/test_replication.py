"""The page of results: what differences between models are worth, and what is said of the papers' claims."""

import pytest
from scipy import stats

from benchmarks.records import read
from research.replication.differences import Difference, differences, holm, newcombe, student
from research.replication.page import details, pages
from research.replication.papers import CLAIMS
from research.replication.runs import PAGES, RECORD, TABLE
from research.replication.unneeded import unneeded


def run(
    model: str,
    seed: int,
    value: float,
    *,
    figure: str = "accuracy",
    data: str = "some",
    made: str = "",
    held_out: int = 100,
) -> dict[str, object]:
    """A run as the record has it."""
    return {
        "command": "limelight train",
        "model": model,
        "metrics": [{"name": figure, "value": value}],
        "data": {"name": data, "fingerprint": made, "held_out_examples": held_out},
        "settings": {"seed": seed},
    }


def test_shares_differ_by_what_newcombe_has_in_his_table() -> None:
    # Newcombe (1998), table II, method 10: 56/70 - 48/80 and 9/10 - 3/10.
    assert newcombe(56 / 70, 48 / 80, 70, 80) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert newcombe(9 / 10, 3 / 10, 10) == pytest.approx((0.1705, 0.8090), abs=1e-4)


def test_means_over_seeds_have_students_interval() -> None:
    assert student([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3)


def test_only_seeds_that_both_have_are_compared() -> None:
    runs = [run("a", 0, 0.9), run("a", 1, 0.8), run("b", 1, 0.7), run("b", 2, 0.1), run("b", 1, 0.5, data="other")]
    runs += [run("b", 0, 0.5, made="otherwise")]
    (found,) = differences(dict(enumerate(runs)), "a", "b")
    assert (found.data, found.seeds, found.examples) == ("some", 1, 100)
    assert found.mean == pytest.approx(10)


def test_a_figure_that_is_named_is_compared_where_both_have_it() -> None:
    runs = [run("a", 0, 0.9), run("b", 0, 0.7), run("a", 0, 0.2, figure="told apart", data="other")]
    assert differences(dict(enumerate(runs)), "a", "b", "told apart") == []
    runs.append(run("b", 0, 0.1, figure="told apart", data="other"))
    (found,) = differences(dict(enumerate(runs)), "a", "b", "told apart")
    assert (found.data, found.figure, str(found)) == ("other", "told apart", "+10.0 (one run)")


@pytest.mark.parametrize(
    ("ours", "theirs", "figure", "examples", "verdict"),
    [
        ((90.0,), (70.0,), "accuracy", 100, "**shown**"),
        ((71.0,), (70.0,), "accuracy", 100, "not shown"),
        ((50.0,), (70.0,), "accuracy", 100, "the opposite"),
        ((90.0, 91.0, 92.0), (80.0, 81.0, 82.5), "bleu", None, "**shown**"),
        ((5.0, 5.5, 5.2), (6.0, 6.4, 6.3), "Fréchet distance", None, "**shown**"),
        ((6.0, 6.4, 6.3), (5.0, 5.5, 5.2), "Fréchet distance", None, "the opposite"),
        ((5.0,), (6.0,), "Fréchet distance", None, "seen in one run"),
        ((95.02,), (95.0,), "intersection over union", None, "not seen in one run"),
    ],
)
def test_a_claim_is_shown_where_the_interval_is_on_its_side(
    ours: tuple[float, ...], theirs: tuple[float, ...], figure: str, examples: int | None, verdict: str
) -> None:
    assert Difference("data", figure, ours, theirs, examples).verdict() == verdict


def test_no_worse_is_shown_where_the_interval_is_above_what_it_may_have_less() -> None:
    found = Difference("data", "bleu", (18.6, 18.4, 18.5), (18.7, 18.5, 18.4), None)
    assert (found.verdict(), found.verdict(1.0)) == ("not shown", "**shown**")
    worse = Difference("data", "bleu", (15.0, 15.1, 15.2), (18.7, 18.5, 18.4), None)
    assert worse.verdict(1.0) == "the opposite"


def test_a_claim_that_holds_alone_need_not_hold_among_all() -> None:
    found = Difference("data", "accuracy", (90.0,), (70.0,), 100)
    assert [found.verdict(adjusted=p) for p in (0.01, 0.2)] == ["**shown**", "shown alone"]


def test_p_values_of_several_seeds_are_students_and_of_one_are_of_its_examples() -> None:
    several = Difference("data", "bleu", (2.0, 3.0, 4.0), (1.0, 1.0, 1.0), None)
    assert several.p_value() == pytest.approx(stats.ttest_1samp((1.0, 2.0, 3.0), 0).pvalue)
    assert several.p_value(1.0) == pytest.approx(stats.ttest_1samp((2.0, 3.0, 4.0), 0).pvalue)
    one = Difference("data", "accuracy", (60.0,), (50.0,), 100)
    assert one.p_value() == pytest.approx(2 * stats.norm.sf(0.1 / (0.24 / 100 + 0.25 / 100) ** 0.5))
    assert Difference("data", "bleu", (60.0,), (50.0,), None).p_value() is None


def test_p_values_are_adjusted_as_holm_does() -> None:
    # Holm (1979) by hand: 0.01 × 4, 0.02 × 3, then no smaller than the one before.
    assert holm([0.03, 0.01, None, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 1.0, 0.06, 0.06])


def test_what_is_printed_has_every_run_and_its_command() -> None:
    record = read(RECORD)
    printed = details(record)
    assert all(f"`{run['command']}`" in printed for run in record.values())


def test_every_paper_of_the_survey_that_is_here_has_a_claim_whose_models_are_trained() -> None:
    trained = {each.model for each in TABLE}
    assert {each.model for each in CLAIMS if each.model.startswith("J")} == {f"J{n}" for n in range(1, 18)}
    for each in CLAIMS:
        assert {each.better, *each.above} <= trained


def test_controls_that_were_not_shown_to_be_worse_are_named() -> None:
    runs = [run("vit", 0, 0.9), run("vit-uniform", 0, 0.85), run("vit-frozen", 0, 0.5)]
    runs += [run("gat", 0, 0.8), run("gat-uniform", 0, 0.95)]
    found = "".join(unneeded(dict(enumerate(runs))))
    assert "Vision Transformer | some | accuracy | uniform weights | 90.0 | 85.0" in found
    assert "graph attention | some | accuracy | uniform weights | 80.0 | 95.0" in found
    assert "frozen" not in found


def test_the_pages_are_those_of_the_record() -> None:
    for name, text in pages(read(RECORD)).items():
        assert text == (PAGES / name).read_text()
    assert len(pages(read(RECORD))["results.md"].splitlines()) <= 150
