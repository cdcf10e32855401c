"""The study's page and pictures: that they say what the results say, and are what is committed."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.charts import Dot, Strip, curves, scatter, strips
from benchmarks.mechanism_study.advice import pick
from benchmarks.mechanism_study.bits import packed
from benchmarks.mechanism_study.line import UNIFORM, latency_key
from benchmarks.mechanism_study.lines import of_task
from benchmarks.mechanism_study.page import page
from benchmarks.mechanism_study.pictures import pictures
from benchmarks.mechanism_study.results import FILE, Results
from benchmarks.mechanism_study.summary import Standings, beats, standings

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def filed(results: Results, name: str, right: np.ndarray, seed: int = 0, of: str = "x", **figures: object) -> None:
    """A made-up run on the task of recall."""
    results.add(
        "run", f"recall / {name}", seed, of=of, accuracy=float(right.mean()), examples=len(right), right=packed(right),
        curve=[[100, 0.5, 0.7], [200, 0.6, 0.4]], parameters=10, cpu_seconds=3.6,
        **{"step_ms": 5.0, "kept_mb": 1.0, "share": 0.5, "even": 0.1, "entropy": 0.4, **figures},
    )  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "results.jsonl")


def share_of(share: float) -> np.ndarray:
    return np.arange(1000) < 1000 * share


def the_task(results: Results) -> Standings:
    (found,) = standings(results)
    return found


def test_the_cheapest_of_those_that_nothing_beats_is_picked(results: Results) -> None:
    filed(results, UNIFORM, share_of(0.1))
    filed(results, "scaled multiplicative", share_of(0.9), step_ms=7.0)
    filed(results, "additive", share_of(0.9), step_ms=4.0)
    filed(results, "deep", share_of(0.6), step_ms=1.0)
    assert pick(the_task(results)) == "**additive**; scaled multiplicative (of 4 of 30 lines so far)"
    written = page(results, standings(results))
    assert "| **additive**; scaled multiplicative (of 4 of 30 lines so far) | 90.0 % | 10.0 % | 50.0 % |" in written
    assert "+80.0\\* (+77" in written
    assert "**Partial**: 4 of" in written


def test_what_fails_with_one_seed_is_not_as_good(results: Results) -> None:
    for seed, deep in enumerate((0.95, 0.95, 0.5)):
        filed(results, UNIFORM, share_of(0.1), seed)
        filed(results, "scaled multiplicative", share_of(0.95), seed, step_ms=4.0)
        filed(results, "deep", share_of(deep), seed, step_ms=1.0)
    found = the_task(results)
    one, other = (found.row(name) for name in ("scaled multiplicative", "deep"))
    assert one is not None and other is not None
    assert not beats(one, other)
    assert pick(found).startswith("**scaled multiplicative** (of")


def test_an_average_is_picked_where_nothing_beats_it(results: Results) -> None:
    filed(results, UNIFORM, share_of(0.5))
    filed(results, "scaled multiplicative", share_of(0.5)[::-1])
    assert "an average" in pick(the_task(results))


def test_what_did_not_act_is_named_and_not_compared(results: Results) -> None:
    filed(results, "scaled multiplicative", share_of(0.5))
    filed(results, "sparsemax × scaled multiplicative", share_of(0.9), acted=0.001)
    found = the_task(results)
    assert [row.name for row in found.mechanisms] == ["scaled multiplicative"]
    assert "*sparsemax × scaled multiplicative* is not compared: keys cut off: 0.1 %" in page(results, [found])


def test_mechanisms_are_compared_on_the_seeds_that_both_have(results: Results) -> None:
    filed(results, "scaled multiplicative", share_of(0.5), seed=0)
    filed(results, "scaled multiplicative", share_of(0.9), seed=1)
    filed(results, "additive", share_of(0.8), seed=1)
    row = the_task(results).row("additive")
    assert row is not None and row.beside_plain is not None
    assert row.beside_plain[0].mean == pytest.approx(-0.1) and row.beside_plain[0].seeds == 1


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


def test_the_committed_page_is_what_the_committed_results_say() -> None:
    results = Results()
    found = standings(results)
    assert (DOCS / "mechanisms.md").read_text(encoding="utf-8") == page(results, found)
    for name, picture in pictures(found).items():
        assert (DOCS / "pictures" / f"mechanisms-{name}.svg").read_text(encoding="utf-8") == picture


def test_what_is_kept_of_every_run_is_small() -> None:
    assert FILE.stat().st_size <= 2_000_000


def test_charts_have_what_they_are_given_and_say_it_aloud() -> None:
    dots = [Dot(0.2, 0.3, said="one <of two>"), Dot(1.7, -1.0, mark="cross", said="beyond")]
    rows = [Strip("task & more", dots, "best: one")]
    legend = {"mechanism": Dot(0)}
    drawn = (
        strips(rows, title="t", axis="a", legend=legend),
        scatter(dots, title="t", across="a", up="u", legend=legend),
        curves({"one": [(0, 1.0), (10, 0.5)], "two": [(0, 0.2), (5, 0.5)]}, title="t", across="a", up="u"),
    )
    for svg, marks in zip(drawn, (3, 3, 2), strict=True):
        root = ElementTree.fromstring(svg)
        wide, high = (float(size) for size in root.attrib["viewBox"].split()[2:])
        circles = root.findall(f".//{SVG}circle")
        assert len(circles) + len(root.findall(f".//{SVG}path")) == marks
        assert all(0 <= float(c.attrib["cx"]) <= wide and 0 <= float(c.attrib["cy"]) <= high for c in circles)
    assert "one &lt;of two&gt;" in drawn[0] and "task &amp; more" in drawn[0]
    assert len(ElementTree.fromstring(drawn[2]).findall(f".//{SVG}polyline")) == 2
