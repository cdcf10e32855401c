"""The arithmetic behind the figures of research/: by hand, against plain loops, by simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.records import read
from limelight_bundle.values import Text
from limelight_models.attention import Attention
from limelight_models.attention.score import Additive, ScaledDot, Score
from limelight_models.data import recall, transductions
from limelight_models.data.dataset import Dataset, Example
from research.mechanisms import page as mechanisms
from research.mechanisms import reading, run
from research.mechanisms.lines import lines
from research.mechanisms.looks import CHECKS, Agreement, normalised_entropy, shares
from research.mechanisms.permuted import shuffled
from research.mechanisms.results import Results
from research.mechanisms.start import equal_start
from research.mechanisms.statistics import Effect, effect, holm, seed_variance, smallest_difference
from research.mechanisms.subject import Map
from research.mechanisms.summary import standings
from research.mechanisms.tasks import TASKS
from research.replication import page as claims
from research.replication.differences import newcombe
from research.replication.runs import RECORD
from research.signals import page as signals
from research.signals.facts import read as facts_of
from research.signals.overlap import document_weights
from research.unseen.examples import _coarse, texts


def whole(weights: object) -> Map:
    """Weights [batch, head, query, key(, feature)] of which every place is real."""
    array = np.array(weights, dtype=float)
    return Map(array, np.ones((len(array), 1, *array.shape[2:4]), bool))


def test_entropy_is_one_for_an_average_zero_for_one_word_and_ignores_padding() -> None:
    weights = np.array([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.2, 0.6]]]])
    real = np.array([[[[True, True, False]] * 3 + [[False, False, False]]]])
    np.testing.assert_allclose(normalised_entropy(Map(weights, real)), [1, 0], atol=1e-12)
    np.testing.assert_allclose(normalised_entropy(whole([[[[[-0.5, 1.0], [0.5, 0.0]]]]])), [1, 0], atol=1e-12)  # signed
    padded = Map(np.full((1, 1, 2, 3), 0.5), np.array([[[[True, True, False], [False, False, False]]]]))
    np.testing.assert_allclose(shares(padded)[0, 0], [[0.5, 0.5, 0], [0, 0, 0]])


def test_weights_against_gold_places_by_hand() -> None:
    """Two steps: the first has one right place, the second two; a third is not known, and padding does not count."""
    weights = np.array([[[[0.7, 0.2, 0.1, 0.0], [0.2, 0.5, 0.3, 0.0], [1.0, 0.0, 0.0, 0.0]]]])
    gold = np.array([[[True, False, False, False], [True, False, True, False], [False] * 4]])
    found = Agreement()
    found.add(Map(weights, np.array([[[[True, True, True, False]] * 3]])), gold)
    figures = found.figures()
    assert figures["share"] == pytest.approx((0.7 + 0.5) / 2)
    assert figures["even"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert figures["hits"] == 0.5
    # Links: of the two of the map one is sure and possible, one is neither; there is one sure link.
    assert figures["aer"] == pytest.approx(1 - (1 + 1) / (2 + 1))
    hops = Agreement()  # supporting facts are counted over all hops
    hops.add(whole([[[[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]]]), np.array([[[True, False, True]]]))
    hops.add(whole([[[[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]]]), np.array([[[True, True, False]]]))
    assert hops.figures() == {"facts": pytest.approx((1 + 0.5) / 2)}


@pytest.mark.parametrize(
    ("check", "weights", "share"),
    [
        ("keys cut off", [[[[0.5, 0.5, 0.0, 0.0]]]], 0.5),
        ("steps that stop", [[[[0, 1, 0], [0, 0, 0]]]], 0.5),
        ("weight that subtracts", [[[[0.5, -0.5], [1, 0]]]], 0.25),
        # The second step gets what the first left of the first key, the third less than is left.
        ("steps at their bounds", [[[[0.6, 0.4], [0.4, 0.2], [0.0, 0.1]]]], 0.5),
        ("heads that differ", [[[[1, 0]], [[0, 1]]]], 0.5),
        ("looks that differ", [[[[1, 0], [1, 0]]]], 0),
        ("features that differ", [[[[[1, 0], [0, 1]]]]], 0.5),
    ],
)
def test_whether_an_idea_acted_by_hand(check: str, weights: object, share: float) -> None:
    assert CHECKS[check](whole(weights)).mean() == share


@given(st.integers(0, 1000))
def test_shuffled_weights_stay_among_the_allowed_keys(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(3, 4, 6, generator=generator) > 0.4
    weights = torch.rand(3, 4, 6, generator=generator) * allowed
    found = shuffled(weights, allowed)
    assert (found[~allowed] == 0).all()
    torch.testing.assert_close(found.sort(-1).values, weights.sort(-1).values)


class Asks(torch.nn.Module):
    """A model around one attention."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.attention = Attention(score=score)

    def forward(self, **tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.attention(tensors["query"], tensors["key"], None, tensors["mask"])


@pytest.mark.parametrize("make", [ScaledDot, lambda: Additive(d_q=8, d_k=8, d_w=8)], ids=["scaled dot", "additive"])
def test_scores_of_any_size_begin_with_the_same_entropy(make: type[Score]) -> None:
    torch.manual_seed(0)
    mask = torch.arange(9) < torch.arange(20).remainder(8)[:, None, None, None] + 2
    batch = {"query": torch.randn(20, 1, 2, 8) * 0.1, "key": torch.randn(20, 1, 9, 8) * 0.1, "mask": mask}
    model = Asks(make())
    equal_start(model, batch)
    _, weights = model(**batch)
    found = Map(weights.detach().numpy(), mask.expand_as(weights).numpy())
    assert normalised_entropy(found).mean() == pytest.approx(0.9, abs=1e-3)


@pytest.mark.parametrize("key", ["recall / hard × scaled multiplicative", "copy / location-aware"])
def test_a_run_measures_everything_that_the_tables_show(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = (each for each in lines() if each.key == key)
    small = {"training": 200, "held_out": 20}
    letters = reading.written(transductions.dataset("copy", lengths=(3, 5), **small), words=False)
    data = {"recall": reading.asked(recall.dataset("recall", tokens=16, **small)), "copy": letters}
    monkeypatch.setattr(run, "load", data.__getitem__)
    monkeypatch.setitem(TASKS, line.task, replace(TASKS[line.task], steps=2, every=1, batch=4))
    row = run.run(line, 0, (1e-3, 1e-2))
    assert row["examples"] == 20 and 0 <= row["accuracy"] <= 1 and set(row["tried"]) == {"0.001", "0.01"}
    assert {"permuted", "facts" if "facts" in row else "share", "kept_mb", "step_ms", "entropy", "acted"} <= set(row)


def test_p_values_are_adjusted_as_holm_does() -> None:
    # Holm (1979) by hand: 0.01 × 3, 0.03 × 2, then no smaller than the one before.
    assert holm([0.03, 0.01, None, 0.04]) == pytest.approx([0.06, 0.03, 1.0, 0.06])


def test_with_one_seed_it_is_the_bootstrap_over_examples() -> None:
    generator = np.random.default_rng(1)
    ours, theirs = generator.random((1, 150)) < 0.7, generator.random((1, 150)) < 0.5
    difference = ours[0].astype(int) - theirs[0].astype(int)
    means = [np.mean([difference[place] for place in generator.integers(150, size=150)]) for _ in range(4000)]
    found = effect(ours, theirs)
    assert (found.low, found.high) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.015)
    assert found.error == pytest.approx(np.std(means), rel=0.05)


def test_the_variance_of_seeds_is_that_of_the_analysis_of_variance() -> None:
    table = np.random.default_rng(2).integers(-1, 2, size=(4, 50)) + np.array([[0], [1], [0], [3]])
    of_seeds = sum(50 * (table[seed].mean() - table.mean()) ** 2 for seed in range(4)) / 3
    rest = [
        table[seed, place] - table[seed].mean() - table[:, place].mean() + table.mean()
        for seed in range(4)
        for place in range(50)
    ]
    assert seed_variance(table) == pytest.approx((of_seeds - sum(each**2 for each in rest) / (3 * 49)) / 50)


@pytest.mark.parametrize(("seeds", "spread"), [(3, 0.0), (3, 0.06)])
def test_intervals_hold_the_truth_as_often_as_they_say(seeds: int, spread: float) -> None:
    generator, true, held = np.random.default_rng(3), 0.1, 0
    for number in range(200):
        base = np.where(generator.random(200) < 0.5, 0.3, 0.6)  # some examples are hard, whoever answers
        ours = base + true + generator.normal(0, spread, (seeds, 1))
        theirs = base + generator.normal(0, spread, (seeds, 1))
        right = [generator.random((seeds, 200)) < np.clip(each, 0, 1) for each in (ours, theirs)]
        found = effect(right[0], right[1], draws=500, seed=number)
        held += found.low <= true <= found.high
    assert 0.90 <= held / 200 <= 1


def test_a_difference_of_the_smallest_size_is_found_four_times_out_of_five() -> None:
    generator = np.random.default_rng(4)

    def drawn(size: float, number: int) -> Effect:
        right = [generator.random((1, 400)) < share for share in (0.6 + size / 2, 0.6 - size / 2)]
        return effect(right[0], right[1], draws=400, seed=number)

    size = smallest_difference([drawn(0, number) for number in range(20)])
    assert size == pytest.approx(2.802 * math.sqrt(2 * 0.24 / 400), rel=0.1)
    assert np.mean([drawn(size, number).low > 0 for number in range(300)]) == pytest.approx(0.8, abs=0.07)


def test_shares_differ_by_what_newcombe_has_in_his_table() -> None:
    # Newcombe (1998), table II, method 10: 56/70 - 48/80 and 9/10 - 3/10.
    assert newcombe(56 / 70, 48 / 80, 70, 80) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert newcombe(9 / 10, 3 / 10, 10) == pytest.approx((0.1705, 0.8090), abs=1e-4)


def test_the_tables_are_those_of_the_records() -> None:
    for file, text in (*claims.pages(read(RECORD)).items(), *signals.pages(Results(signals.FILE)).items()):
        assert file.read_text(encoding="utf-8") == text
    found, docs = standings(Results()), signals.PAGE.parent
    assert (docs / "records" / "mechanisms.md").read_text(encoding="utf-8") == mechanisms.tables(found)
    assert "".join(mechanisms.picks(found)) in (docs / "mechanisms.md").read_text(encoding="utf-8")


def test_on_snli_half_of_the_mechanisms_are_below_an_average() -> None:
    (snli,) = (each for each in standings(Results()) if each.task.name == "snli")
    below = {
        row.name: row.beside_uniform[0].mean
        for row in snli.rows
        if row.beside_uniform and row.beside_uniform[1] < 0.05 and row.beside_uniform[0].high < 0
    }
    said = " ".join((signals.PAGE.parent / "mechanisms.md").read_text(encoding="utf-8").split())
    mechanisms, frozen = len(snli.mechanisms), [name for name in below if name.startswith("frozen")]
    low, high = (f"{-100 * each:.1f}" for each in (max(below.values()), min(below.values())))
    assert (
        len(frozen) == 1 and f"On snli {len(below) - 1} of {mechanisms} mechanisms, and frozen random weights" in said
    )
    assert f"by {low} to {high} points" in said


def test_facts_weights_and_pictures_of_the_other_studies() -> None:
    first, second = facts_of("1 Mary went in.\n2 Where is Mary? \tin\t1\n3 Ann went out.\n4 Where is Ann? \tout\t3\n")
    assert (first.support, second.support, len(second.facts)) == ((0,), (1,), 2)  # questions are no facts
    maps = {"word": np.array([[[[0.25, 0.75], [1.0, 0.0]]]]), "sentence": np.array([[[[0.4, 0.6]]]])}
    mask = np.array([[[True, True], [True, False]]])
    np.testing.assert_allclose(document_weights(maps, mask)[0], [0.1, 0.3, 0.6])
    train = (Example({"text": Text("Ein")}, ""),)
    said = iter(["eins", "ein", "EIN", "zwei"])  # what was learned is not asked in capitals either
    learned = Dataset(name="", licence="", summary="", train=train, dev=(), test=())
    found = texts(lambda chance: Example({"text": Text(next(said))}, ""), learned, 2)
    assert [each.instance["text"] for each in found] == [Text("eins"), Text("zwei")]
    pixels = np.zeros((28, 28), np.uint8)
    pixels[4:24, 12:15] = 200
    assert _coarse(pixels).shape == (8, 8)
