"""The study's page and pictures: that they say what the results say, and are what is committed."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.records import read
from research.mechanisms.advice import pick
from research.mechanisms.bits import packed
from research.mechanisms.choice import near, ranked
from research.mechanisms.findings import beside, frozen, looking, needed
from research.mechanisms.limits import undecided, weak
from research.mechanisms.line import FROZEN, UNIFORM, latency_key
from research.mechanisms.lines import of_task
from research.mechanisms.page import page
from research.mechanisms.pictures import mean_entropy, pictures, save
from research.mechanisms.results import FILE, Results
from research.mechanisms.summary import Row, Standings, beats, standings
from research.mechanisms.tasks import TASKS, load, present
from research.mechanisms.terms import speed, terms_of

DOCS = Path(__file__).parents[2] / "docs"


def filed(
    results: Results, name: str, right: np.ndarray, seed: int = 0, task: str = "recall", **figures: object
) -> None:
    """A made-up run."""
    fixed: dict[str, object] = {
        "of": "x", "curve": [[0, 0.9], [100, 0.7], [200, 0.4]], "parameters": 10, "cpu_seconds": 3.6,
        "rate": 0.005, "tried": {} if seed else {"0.002": 0.1, "0.005": 0.3, "0.012": 0.2}, "steps": 200,
        "step_ms": 5.0, "kept_mb": 1.0, "share": 0.5, "even": 0.1, "entropy": 0.4,
    }  # fmt: skip
    said = {"accuracy": float(right.mean()), "examples": len(right), "right": packed(right)}
    results.add("run", f"{task} / {name}", seed, **{**fixed, **said, **figures})


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "results.jsonl")


def share_of(share: float, examples: int = 1000) -> np.ndarray:
    return np.arange(examples) < examples * share


def the_task(results: Results) -> Standings:
    return standings(results)[0]


def row(found: Standings, name: str) -> Row:
    there = found.row(name)
    assert there is not None
    return there


def order(results: Results) -> list[str]:
    """The mechanisms that are as good as the best of the first task, the advised one first."""
    found = standings(results)
    return [each.name for each in ranked(found[0], {each.task.name: each for each in found})]


@pytest.fixture(scope="module")
def committed() -> dict[str, Standings]:
    """Statements of the committed results, by task."""
    return {each.task.name: each for each in standings(Results())}


def test_the_cheapest_of_those_that_are_as_good_is_picked(results: Results) -> None:
    filed(results, UNIFORM, share_of(0.1))
    filed(results, "scaled multiplicative", share_of(0.9), step_ms=7.0, longer=0.8)
    filed(results, "additive", share_of(0.9), step_ms=4.0, longer=0.8)
    filed(results, "deep", share_of(0.6), step_ms=1.0, longer=0.8)
    assert pick(the_task(results), {}) == "**additive**; scaled multiplicative (of 4 of 30 lines so far)"
    written = page(results, standings(results))
    said = "| **additive**; scaled multiplicative (of 4 of 30 lines so far) | 90.0 % | 10.0 % | 50.0 % | 80.0 % |"
    assert said in written
    assert "+80.0\\* (+77" in written
    assert "**Partial**: 4 of" in written


def test_a_certain_difference_that_matters_to_nobody_excludes_nobody(results: Results) -> None:
    filed(results, "cosine similarity", share_of(1.0), step_ms=9.0)
    filed(results, "scaled multiplicative", share_of(0.99), step_ms=1.0)
    found = the_task(results)
    assert beats(row(found, "cosine similarity"), row(found, "scaled multiplicative"))
    assert order(results) == ["scaled multiplicative", "cosine similarity"]


def test_what_is_shown_to_be_more_than_a_point_worse_is_not_as_good_within_two_points(results: Results) -> None:
    filed(results, "cosine similarity", share_of(1.0, 10_000))
    filed(results, "scaled multiplicative", share_of(0.985, 10_000), step_ms=1.0)
    found = the_task(results)
    assert not near(found, row(found, "scaled multiplicative"))
    assert order(results) == ["cosine similarity"]


def test_what_fails_with_one_seed_is_not_as_good(results: Results) -> None:
    for seed, deep in enumerate((0.95, 0.95, 0.5)):
        filed(results, UNIFORM, share_of(0.1), seed)
        filed(results, "scaled multiplicative", share_of(0.95), seed, step_ms=4.0)
        filed(results, "deep", share_of(deep), seed, step_ms=1.0)
    found = the_task(results)
    assert not beats(row(found, "scaled multiplicative"), row(found, "deep"))
    assert order(results) == ["scaled multiplicative"]
    assert [found.solved(each) for each in found.rows] == [0, 3, 2]
    assert "| deep | 80.0 ± 26.0 | 2 of 3 |" in page(results, [found])
    assert undecided(found) == ["deep"] and "on recall deep" in weak([found])


def test_what_holds_on_longer_texts_comes_before_what_looks_right_before_what_is_cheap(results: Results) -> None:
    filed(results, "scaled multiplicative", share_of(1.0), step_ms=8.0, longer=0.98, share=0.9)
    filed(results, "additive", share_of(1.0), step_ms=4.0, longer=0.99, share=0.3)
    filed(results, "deep", share_of(1.0), step_ms=6.0, longer=0.99, share=0.9)
    filed(results, "general", share_of(1.0), step_ms=1.0, longer=0.9, share=1.0)
    assert order(results) == ["deep", "scaled multiplicative", "additive", "general"]


def test_what_fails_where_the_same_task_is_longer_comes_last(results: Results) -> None:
    for task, sigmoid in (("recall", 1.0), ("recall-1024", 0.6)):
        filed(results, "scaled multiplicative", share_of(0.99), task=task, step_ms=8.0)
        filed(results, "sigmoid × scaled multiplicative", share_of(sigmoid), task=task, step_ms=1.0)
    filed(results, "deep", share_of(0.99), step_ms=9.0)
    assert order(results) == ["scaled multiplicative", "deep", "sigmoid × scaled multiplicative"]


def test_where_nothing_beats_an_average_its_own_figures_are_given(results: Results) -> None:
    filed(results, UNIFORM, share_of(0.6), share=0.1, longer=0.55)
    filed(results, "scaled multiplicative", share_of(0.59), longer=0.5)
    said = "| an average: no mechanism was shown to be better (most right: scaled multiplicative, 59.0 %)"
    written = page(results, standings(results))
    assert f"{said} (of 2 of 30 lines so far) | 60.0 % | 60.0 % | 10.0 % | 55.0 % |" in written
    filed(results, UNIFORM, share_of(0.1), task="copy")
    filed(results, "additive", share_of(0.9), task="copy")
    assert "On recall none was shown to be" in " ".join(needed(standings(results)).split())


def test_a_task_that_nothing_learned_has_no_advice(results: Results) -> None:
    filed(results, UNIFORM, share_of(0.3), task="babi3")
    filed(results, "multi-hop, 3 hops", share_of(0.45), task="babi3")
    filed(results, UNIFORM, share_of(0.3))
    filed(results, "scaled multiplicative", share_of(0.6))
    recall, babi3 = standings(results)
    assert pick(babi3, {}).startswith("no advice: no mechanism learned it from 900 examples")
    assert recall.learned
    said = " ".join(needed([recall, babi3]).split())
    assert "above a plain average on 1 of 2 tasks, by 30.0 points. On babi3 training failed" in said
    assert "It has 900 examples to learn from, where babi1 and babi2 have 9,000." in said


def test_an_average_is_advised_where_mechanisms_are_worse(results: Results) -> None:
    filed(results, UNIFORM, share_of(0.5))
    filed(results, "scaled multiplicative", share_of(0.5)[::-1])
    assert pick(the_task(results), {}).startswith("an average")


FIVE = ("scaled multiplicative", "additive", "general", "positive random features", "multi-head")


def looked(results: Results, shares: tuple[float, ...]) -> str:
    """Statements about five mechanisms on two tasks, from 90 % right down to 50 %, whose weights lie so."""
    for task in ("recall", "recall-256"):
        for number, (name, share) in enumerate(zip(FIVE, shares, strict=True)):
            filed(results, name, share_of(0.9 - 0.1 * number), task=task, share=share)
    return " ".join(looking(standings(results)).split())


def test_looking_right_goes_together_with_answering_right_where_the_numbers_say_so(results: Results) -> None:
    said = looked(results, (0.9, 0.8, 0.7, 0.6, 0.5))
    assert "Weight on the right place goes together with right answers" in said and "is 1.00 in the mean" in said
    assert "below" not in said


def test_looking_right_says_little_where_the_numbers_say_so(results: Results) -> None:
    said = looked(results, (0.2, 0.3, 0.4, 0.6, 0.7))
    assert "says little of right answers" in said and "-1.00 in the mean of 2 tasks" in said
    assert "below 0.3 on recall and recall-256" in said
    assert "multi-head on recall (0.70 of its weight, 50.0 % right)" in said
    assert "scaled multiplicative on recall (0.20 of its weight, 90.0 % right)" in said


def test_runs_that_answer_with_their_weight_elsewhere_are_counted(results: Results) -> None:
    for seed, share in enumerate((0.0, 0.49, 0.99)):
        filed(results, "scaled multiplicative", share_of(0.95), seed, share=share)
        filed(results, "deep", share_of(0.8), seed, share=0.0)
    assert "are 2 of 3 on recall." in " ".join(beside(standings(results)).split())


def test_where_frozen_is_ahead_and_where_it_is_behind_is_named(results: Results) -> None:
    for task, control, plain in (("copy", 0.9, 0.6), ("reverse", 0.6, 0.9), ("expand", 0.9, 0.9)):
        filed(results, FROZEN, share_of(control), task=task)
        filed(results, TASKS[task].plain, share_of(plain), task=task)
    for seed, plain in enumerate((0.95, 0.1, 0.9)):
        filed(results, FROZEN, share_of(0.9), seed, task="delay")
        filed(results, TASKS["delay"].plain, share_of(plain), seed, task="delay")
    said = " ".join(frozen(standings(results)).split())
    assert "shown to be ahead of the plain mechanism on copy (90.0 % right against 60.0)." in said
    assert "ahead, but not shown to be, on delay (90.0 % right against 65.0)." in said
    assert "as good as the best mechanism on copy, expand and delay." in said
    assert "more than a point behind the plain one on reverse." in said


def test_rates_at_an_edge_and_runs_at_the_limit_are_counted(results: Results) -> None:
    limit = TASKS["recall"].steps
    filed(results, "scaled multiplicative", share_of(0.9), rate=0.002, steps=limit)
    filed(results, "scaled multiplicative", share_of(0.9), 1, rate=0.002, steps=limit)
    filed(results, "additive", share_of(0.9), rate=0.012, steps=limit)
    filed(results, "deep", share_of(0.9), rate=0.005, steps=limit - 100)
    terms = terms_of(the_task(results))
    assert (terms.tuned, terms.lowest, terms.highest, terms.limited) == (3, 1, 1, 0.75)
    assert terms.seen == 12  # 1,500 steps of 64 from 8,000 examples
    said = " ".join(speed(standings(results)).split())
    assert (
        "on 1 of 1 tasks more than half of the runs were stopped by the limit of steps, above all on recall (75 %)"
        in said
    )
    assert "Of 3 tuned lines 2 chose" in said
    written = page(results, standings(results))
    assert "| `recall` | 8,000 | 1,500 × 64 | 12 times | 2 of 3 (1 lowest, 1 highest) | 75 % |" in written


def test_entropies_are_means_over_seeds_that_keep_their_last_value(results: Results) -> None:
    filed(results, "deep", share_of(0.9), 0, curve=[[0, 0.8], [100, 0.4]])
    filed(results, "deep", share_of(0.9), 1, curve=[[0, 0.6], [100, 0.2], [200, 0.0]])
    filed(results, "deep", share_of(0.9), 2, curve=[[0, -1.0]])
    found = mean_entropy(row(the_task(results), "deep"))
    assert found == [(0, pytest.approx(0.7)), (100, pytest.approx(0.3)), (200, pytest.approx(0.2))]


def test_what_did_not_act_is_named_and_not_compared(results: Results) -> None:
    filed(results, "scaled multiplicative", share_of(0.5))
    filed(results, "sparsemax × scaled multiplicative", share_of(0.9), acted=0.001)
    found = the_task(results)
    assert [each.name for each in found.mechanisms] == ["scaled multiplicative"]
    assert "*sparsemax × scaled multiplicative* is not compared: keys cut off: 0.1 %" in page(results, [found])


def test_mechanisms_are_compared_on_the_seeds_that_both_have(results: Results) -> None:
    filed(results, "scaled multiplicative", share_of(0.5), seed=0)
    filed(results, "scaled multiplicative", share_of(0.9), seed=1)
    filed(results, "additive", share_of(0.8), seed=1)
    beside_plain = row(the_task(results), "additive").beside_plain
    assert beside_plain is not None
    assert beside_plain[0].mean == pytest.approx(-0.1) and beside_plain[0].seeds == 1


def test_runs_on_data_that_are_no_longer_there_do_not_count(results: Results) -> None:
    filed(results, "additive", share_of(0.5), of="older")
    filed(results, "scaled multiplicative", share_of(0.5))
    assert the_task(results).row("additive") is None


def test_every_mechanism_of_a_task_stands_in_its_table(results: Results) -> None:
    for line in of_task("recall"):
        filed(results, line.name, share_of(0.5))
    written = page(results, standings(results))
    for line in of_task("recall"):
        assert f"| {line.name} |" in written or f"| **{line.name}** |" in written or f"| *{line.name}* |" in written
        assert latency_key(line) or line.control


def test_the_committed_page_is_what_the_committed_results_say(committed: dict[str, Standings]) -> None:
    assert (DOCS / "mechanisms.md").read_text(encoding="utf-8") == page(Results(), list(committed.values()))


def test_pictures_show_every_task_and_mechanism_and_are_written_the_same_twice(
    committed: dict[str, Standings], tmp_path: Path
) -> None:
    found = list(committed.values())
    for number in (1, 2):
        for name, picture in pictures(found).items():
            save(picture, tmp_path / f"{name}-{number}.svg")
    assert {(DOCS / "pictures" / f"mechanisms-{name}.svg").is_file() for name in pictures(found)} == {True}
    for name in ("tasks", "places", "entropy"):
        assert (tmp_path / f"{name}-1.svg").read_bytes() == (tmp_path / f"{name}-2.svg").read_bytes()
    (axes,) = pictures(found)["tasks"].axes[:1]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(committed)
    drawn = sum(len(dots.get_offsets()) for dots in axes.collections)
    assert drawn == sum(not row.idle for each in found for row in each.rows)


ADVISED = {
    "recall": "scaled multiplicative", "recall-256": "scaled multiplicative", "recall-1024": "scaled multiplicative",
    "copy": "location-aware", "reverse": "constrained sparsemax × additive", "expand": "location-aware",
    "induction": "self-attentive query, left out", "babi1": "multiplicative (dot)", "babi2": "multi-hop, 3 hops",
}  # fmt: skip


def test_what_the_committed_results_advise(committed: dict[str, Standings]) -> None:
    assert {name: ranked(committed[name], committed)[0].name for name in ADVISED} == ADVISED
    averages = [name for name, each in committed.items() if pick(each, committed).startswith("an average")]
    assert averages == ["snli", "mams", "sentiment"]
    assert [name for name, each in committed.items() if not each.learned] == ["babi3"]


def test_what_the_committed_page_says_of_the_whole() -> None:
    written = " ".join((DOCS / "mechanisms.md").read_text(encoding="utf-8").split())
    for said in (
        "correlation is 0.47 in the mean of 13 tasks, from -0.10 (recall) to 0.88 (delay)",
        "scaled multiplicative on sort (0.77 of its weight, 18.7 % right)",
        "ahead of the plain mechanism on delay (89.6 % right against 44.9) and sort (67.1 % right against 60.5)",
        "(most right: aggregation by perceptron with nested attention, 60.6 %) | 60.2 % | 60.2 % | – | – |",
        "| `sentiment` | 8,528 | 500 × 64 | 3.8 times | 11 of 12 (0 lowest, 11 highest) | 82 % |",
        "selective (48.6 points), delay (23.8 points), recall-1024 (19.0 points)",
        "3 on recall-256, recall-1024 and babi3; 10 on induction, mams, babi1, babi2 and sentiment; 5 on the others",
        "none on snli, mams, babi1, babi2, sentiment, dates and babi3",
        "| additive | 58.8 ± 50.9 | 2 of 3 | +58.8 (-56.7 to +100.0) | -40.9 (-100.0 to +79.6) |",
    ):
        assert said in written, said


def test_longer_dates_are_learned_as_the_page_says() -> None:
    runs = read(FILE.parent / "training.json.xz")
    (exact,) = (each["value"] for each in runs["bahdanau"]["metrics"] if each["name"] == "exact match")
    assert exact > 0.98


def test_latency_is_left_out_where_texts_are_longer_than_those_that_were_timed() -> None:
    timed = {task: any(line.latency for line in of_task(task)) for task in ("recall", "recall-256", "recall-1024")}
    assert timed == {"recall": True, "recall-256": False, "recall-1024": False}


@pytest.mark.parametrize("name", ["babi3", "sentiment"])
def test_a_task_is_learned_from_as_many_examples_as_it_says(name: str) -> None:
    if not present(TASKS[name]):
        pytest.skip(f"{TASKS[name].folder} is not here")
    assert len(load(name).train) == TASKS[name].training


def test_what_is_kept_of_every_run_is_small() -> None:
    assert FILE.stat().st_size <= 500_000


def test_packed_results_are_the_same_and_go_on(results: Results) -> None:
    chance = np.random.default_rng(0)
    for name, task in (("a", "recall"), ("b", "recall"), ("a", "copy"), (UNIFORM, "recall")):
        filed(results, name, chance.random(37) < 0.7, task=task)
    results.add("latency", "recall / a", 0, ms=1.0)
    before = dict(results.rows)
    results.pack()
    assert Results(results.file).rows == before and list(Results(results.file).rows) == list(before)
    filed(results, "a", np.ones(37, bool))
    filed(results, "c", np.zeros(37, bool))
    for _ in range(2):
        results.read()
        again = Results(results.file)
        assert again.rows == results.rows and again.rows["run", "recall / b", 0] == before["run", "recall / b", 0]
        assert again.rows["run", "recall / a", 0]["right"] == packed(np.ones(37, bool))
        results.pack()
