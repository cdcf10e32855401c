"""What each held-out example adds to a figure: kept in little room, and together the figure."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from limelight_models.cards.by_example import ByExample, unpacked
from limelight_models.tasks.generate import bleu
from limelight_models.training.runs import load_run, read_run
from tests.models.runs import order, run

NUMBERS = st.one_of(
    st.integers(0, 1), st.integers(-300, 70_000), st.floats(-1, 1).map(lambda each: round(each * 200) / 200)
)


@given(st.integers(1, 20).flatmap(lambda count: arrays(float, (count, 2), elements=NUMBERS)))
def test_numbers_are_kept_to_a_two_hundredth(numbers: np.ndarray) -> None:
    found = unpacked(json.loads(json.dumps(ByExample(numbers, "ratios").packed())))
    assert found.how == "ratios"
    np.testing.assert_allclose(found.numbers, numbers, atol=1e-9)


@given(st.lists(st.tuples(*[st.sampled_from(["a b c d e", "a b c", "a", "b c d e f g", ""])] * 2), min_size=1))
def test_bleu_of_examples_is_that_of_the_corpus(pairs: list[tuple[str, str]]) -> None:
    (metric,) = bleu(*map(list, zip(*pairs, strict=True)))
    assert metric.by_example is not None
    assert unpacked(metric.by_example.packed()).value == pytest.approx(metric.value, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "data", "figures"),
    [
        ("bahdanau", "pairs", {"exact match", "token accuracy"}),
        ("mme-words", "builtin:names", {"entity F1", "entity precision", "entity recall", "accuracy"}),
        ("gat", "builtin", {"accuracy"}),
        ("lcr-rot-hop", "builtin:aspects", {"accuracy", "told apart"}),
    ],
)
def test_a_run_keeps_what_its_figures_are_made_of(
    model: str, data: str, figures: set[str], pairs: Path, tmp_path: Path
) -> None:
    run(order(model, pairs if data == "pairs" else data, tmp_path / "run", epochs=1))
    content = json.loads((tmp_path / "run" / "metrics.json").read_text())
    values = {each["name"]: each["value"] for each in content["metrics"]}
    assert figures <= set(content["by_example"]) <= set(values)
    for name, packed in content["by_example"].items():
        assert unpacked(packed).value == pytest.approx(values[name], abs=2e-3), name
    assert all(each.by_example is None for each in load_run(tmp_path / "run").metrics)
    data = read_run(tmp_path / "run").data
    assert data["held_out"] != data["fingerprint"][:16] and len(data["held_out"]) == 16
