"""The arithmetic of explanations: agreement, erasure where tokens go, and words of every script."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from limelight_bundle.errors import InputError
from limelight_bundle.values import Sentences, Text
from limelight_service.frontend.explaining.agreement import agreement
from limelight_service.frontend.explaining.asked import AskedTarget, AskedUnits, UnitKind, Way
from limelight_service.frontend.explaining.erasing import Eraser
from limelight_service.frontend.explaining.targets import Outcome, log_probabilities, target_of
from limelight_service.frontend.explaining.units import UnitFinder, split_units
from limelight_service.frontend.models import Model
from limelight_service.frontend.results import Answered


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=40))
def test_agreement_is_spearmans_with_the_interval_of_bonett_and_wright(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, float).T
    found = agreement(Way.ATTENTION, Way.LOOK_AWAY, one, -other)  # losses count
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        assert found.correlation is None and found.low is None
        return
    expected = float(stats.spearmanr(one, other).statistic)
    assert found.correlation == pytest.approx(expected) and found.low is not None and found.high is not None
    assert found.low <= found.correlation + 1e-9 and found.correlation <= found.high + 1e-9
    if abs(expected) < 1 - 1e-9:
        width = 2 * stats.norm.ppf(0.975) * np.sqrt((1 + expected**2 / 2) / (len(pairs) - 3))
        assert np.arctanh(found.high) - np.arctanh(found.low) == pytest.approx(width)


def test_agreement_of_few_units_has_no_interval() -> None:
    three = agreement(Way.ERASE, Way.LOOK_ONLY, np.arange(3.0), np.arange(3.0))
    assert three.correlation == pytest.approx(-1) and three.low is None  # of losses, with changes
    assert agreement(Way.ERASE, Way.LOOK_ONLY, np.arange(2.0), np.arange(2.0)).correlation is None


@pytest.fixture
def without_blanks(models: dict[str, Model], monkeypatch: pytest.MonkeyPatch) -> dict[str, Model]:
    """Models whose vocabularies have no token for any word, so that erased tokens go."""
    for each in models.values():
        monkeypatch.setitem(each.schema.preprocessor.__dict__, "blanks", {})
    return models


def same(row: Any, other: Any) -> None:
    assert row.sizes == other.sizes and row.tensors.keys() == other.tensors.keys()
    for name, tensor in row.tensors.items():
        np.testing.assert_array_equal(tensor, other.tensors[name])


def test_a_text_without_a_word_is_the_shorter_text(without_blanks: dict[str, Model]) -> None:
    schema = without_blanks["tiny"].schema
    instance = {"text": Text("the cat sat on a mat")}
    row = schema.preprocessor.row(instance)
    changed = Eraser(schema, instance, row, ()).erased({"tokens": np.array([1, 4])})
    same(changed.row, schema.preprocessor.row({"text": Text("the sat on mat")}))
    assert changed.kept["tokens"].tolist() == [0, -1, 1, 2, -1, 3]


def test_a_document_without_words_is_the_shorter_document(without_blanks: dict[str, Model]) -> None:
    schema = without_blanks["paper"].schema
    instance = {"text": Sentences(("the cat sat", "a dog", "on a mat ."))}
    row = schema.preprocessor.row(instance)
    changed = Eraser(schema, instance, row, ()).erased({"words": np.array([1, 3, 4, 8]), "sentences": np.array([1])})
    same(changed.row, schema.preprocessor.row({"text": Sentences(("the sat", "on a mat"))}))
    assert changed.kept["words"].tolist() == [0, -1, 1, -1, -1, 2, 3, 4, -1]
    assert changed.kept["sentences"].tolist() == [0, -1, 1]


def test_tags_are_compared_where_their_tokens_are_left(without_blanks: dict[str, Model]) -> None:
    model, random = without_blanks["tiny"], np.random.default_rng(0)
    row = model.schema.preprocessor.row({"text": Text("the cat sat on")})
    scores, fewer = random.normal(size=(4, 3)), random.normal(size=(3, 3))
    answered, kept = Answered({"tags": scores}, (), row.labels, {}), {"tokens": np.array([0, -1, 1, 2])}
    outcome, own = Outcome({"tags": fewer}, (), kept), scores.argmax(-1)

    def log(values: Any) -> Any:
        return values - np.log(np.exp(values).sum(-1, keepdims=True))

    every = target_of(model, AskedTarget("words")).find(answered)
    left = [0, 2, 3]
    expected = sum(log(fewer)[new, own[old]] - log(scores)[old, own[old]] for new, old in enumerate(left))
    assert every.change(outcome) == pytest.approx(expected)
    one = target_of(model, AskedTarget("words", entry=2)).find(answered)
    assert one.change(outcome) == pytest.approx(log(fewer)[1, own[2]] - log(scores)[2, own[2]])
    gone = target_of(model, AskedTarget("words", entry=1)).find(answered)
    assert gone.change(outcome) + gone.explained.score == -100


def test_a_pointer_is_followed_to_where_its_entry_has_moved(
    without_blanks: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, random = without_blanks["tiny"], np.random.default_rng(0)
    described = copy.deepcopy(next(each for each in model.schema.results if each.name == "words"))
    described.classes.ClearField("labels")
    described.classes.class_label_set = "tokens"
    monkeypatch.setattr(model.schema, "results", (described,))
    row = model.schema.preprocessor.row({"text": Text("the cat sat on")})
    scores, fewer = random.normal(size=(4, 4)), random.normal(size=(3, 3))
    answered, kept = Answered({"tags": scores}, (), row.labels, {}), {"tokens": np.array([0, -1, 1, 2])}
    outcome = Outcome({"tags": fewer}, (), kept)

    def found(**asked: Any) -> Any:
        return target_of(model, AskedTarget("words", **asked)).find(answered)

    at_on = found(entry=2, label="on")
    assert (at_on.explained.label, at_on.explained.index, at_on.explained.entry) == ("on", 3, 2)
    expected = log_probabilities(fewer, described.classes.activation)[1, 2]
    assert at_on.change(outcome) + at_on.explained.score == pytest.approx(expected)
    at_cat = found(entry=2, index=1)
    assert at_cat.change(outcome) + at_cat.explained.score == -100  # it is erased
    with pytest.raises(InputError, match="is 4; there are 4 entries, from 0"):
        found(index=4)
    with pytest.raises(InputError, match="is 'dog', which is no entry of words; there are the, cat, sat, on"):
        found(label="dog")


def test_all_words_of_a_sentence_together_are_the_sentence(models: dict[str, Model]) -> None:
    schema, instance = models["paper"].schema, {"text": Sentences(("the cat sat", "a dog"))}
    units = UnitFinder(schema, AskedUnits()).find(schema.preprocessor.row(instance), instance)
    assert [each["sentences"].tolist() for each in units.members] == [[]] * 5
    others = units.others(4)
    assert (others["words"].tolist(), others["sentences"].tolist()) == ([0, 1, 2, 3], [0])


WORDS = [
    ("not bad, at  all!", ["not", "bad,", "at", "all!"]),
    ("cat\u3000犬が走る。ok.", ["cat", "犬", "が", "走", "る。", "ok."]),
    ("e\u0301te\u0301 — naïve", ["e\u0301te\u0301", "—", "naïve"]),
]


@pytest.mark.parametrize(("sent", "words"), WORDS)
def test_words_end_at_white_space_and_where_scripts_have_none(sent: str, words: list[str]) -> None:
    assert [sent[start:end] for start, end in split_units(UnitKind.WORDS, sent)] == words


def test_words_that_share_a_token_are_one_unit(models: dict[str, Model]) -> None:
    schema, instance = models["tiny"].schema, {"text": Text("the cat犬が sat")}  # its tokens end at white space alone
    found = UnitFinder(schema, AskedUnits()).find(schema.preprocessor.row(instance), instance)
    assert list(found.labels.texts) == ["the", "cat犬が", "sat"]
    assert [each["tokens"].tolist() for each in found.members] == [[0], [1], [2]]
