"""The study of training signals: what it reads from stories, that its signals reach the weights, and its page."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from research.mechanisms.results import Results
from research.signals import facts, rewriting
from research.signals.overlap import document_weights, marked, overlap
from research.signals.page import FILE, STUDIES, Measured, line, page, smallest_difference
from research.signals.reviews import Part, Reviews
from research.signals.training import shuffled
from tests.kit.small_texts import texts

STORY = """1 Mary moved to the bathroom.
2 John went to the hall.
3 Where is Mary? \tbathroom\t1
4 Mary took the milk.
5 Where is the milk? \tbathroom\t4 1
1 Sandra went to the garden.
2 Where is Sandra? \tgarden\t1
"""


def test_questions_know_the_facts_before_them_and_which_support_them() -> None:
    first, second, third = facts.read(STORY)
    assert first.facts == (("mary", "moved", "to", "the", "bathroom"), ("john", "went", "to", "the", "hall"))
    assert (first.words, first.answer, first.support) == (("where", "is", "mary"), "bathroom", (0,))
    assert len(second.facts) == 3  # questions are no facts
    assert second.support == (2, 0)
    assert third.facts == (("sandra", "went", "to", "the", "garden"),)


def test_gold_weights_are_one_fact_a_hop() -> None:
    questions = facts.read(STORY)
    known = sorted(
        {word for each in questions for words in (*each.facts, each.words, (each.answer,)) for word in words}
    )
    part = facts.tensors(questions, {word: number + 2 for number, word in enumerate(known)}, hops=2)
    assert part.gold[1, 0].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert part.gold[0, 0].tolist() == [[1, 0, 0], [0, 0, 0]]  # a hop that nobody says anything of


def small_story() -> tuple[facts.Part, int]:
    """Facts about who is where, with one of four people asked for: the answer is the place in that fact."""
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(6, 10, (64, 4), generator=generator)
    people = torch.arange(2, 6).expand(64, 4)
    asked = torch.randint(0, 4, (64,), generator=generator)
    gold = torch.nn.functional.one_hot(asked, 4).float()[:, None, None]
    answers = places.gather(1, asked[:, None]).squeeze(1)
    return facts.Part(torch.stack([people, places], -1), asked[:, None] + 2, answers, gold), 10


def test_gold_weights_and_a_teacher_move_weights_to_the_supporting_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "STEPS", 120)
    part, vocabulary = small_story()
    torch.manual_seed(0)
    teacher = facts.trained(part, vocabulary, 1, 12, supervised=True).requires_grad_(False)
    told = facts.measure(teacher, part)
    assert told["supporting fact first"] > 0.95
    student = facts.trained(part, vocabulary, 1, 8, teacher=teacher)
    with torch.no_grad():
        mine, theirs = (model(part.facts, part.words)[1] for model in (student, teacher))
    assert (mine - theirs).abs().mean() < 0.05


def test_the_penalty_of_the_study_counts_letters_and_steps_that_are_there() -> None:
    batch = {
        "target_mask": torch.tensor([[True, True, False]]),
        "source_mask": torch.tensor([[True, True, True, False]]),
    }
    weights = torch.tensor([[[[1.0, 0, 0, 0], [0, 0.5, 0, 0.5], [0, 0, 1.0, 0]]]])
    assert rewriting.spread(weights, batch).item() == pytest.approx(0 + 0.25 + 1)


def test_batches_hold_every_example_once_a_pass() -> None:
    np.random.seed(0)
    seen = np.concatenate(list(shuffled(10, batch=4, steps=5)))
    assert sorted(seen[:10].tolist()) == sorted(seen[10:].tolist()) == list(range(10))


def test_every_variant_of_every_study_has_three_seeds() -> None:
    results = Results(FILE)
    lacking = []
    for study in STUDIES:
        for variant in study.variants:
            found = line(study, variant, results)
            if found is None or found.seeds != 3:
                lacking.append(study.key(variant))
    assert lacking == []


def test_the_committed_page_is_what_the_committed_results_say() -> None:
    folder = Path(__file__).parents[2]
    assert (folder / "docs" / "signals.md").read_text(encoding="utf-8") == page(Results(FILE))


def study(sentences: list[str], evidence: list[list[list[int]]]) -> Reviews:
    part = Part([], np.array([0]), [{"sentences": sentences, "evidence": evidence}])
    return Reviews(texts(), part, part)


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


def measured(accuracy: float, *, deviation: float = 0.0, seeds: int = 3) -> Measured:
    return Measured(accuracy=accuracy, deviation=deviation, seeds=seeds, held_out=1000, measures={})


def test_the_smallest_difference_that_can_be_found() -> None:
    # 0.5 ± sqrt(0.25 / 1000) each: the difference's standard error is 0.02236, times 2.802.
    assert smallest_difference([measured(0.5), measured(0.5)]) == pytest.approx(0.06265, abs=1e-5)
    # A spread over three seeds adds 0.03² / 3 to each line's variance.
    spread = smallest_difference([measured(0.5, deviation=0.03)])
    assert spread == pytest.approx(2.802 * math.sqrt(2 * 5.5e-4), abs=1e-4)
