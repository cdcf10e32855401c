"""The study of training signals: what it reads from stories, that its signals reach the weights, and its page."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.mechanism_study.results import Results
from benchmarks.signal_study import facts, rewriting
from benchmarks.signal_study.page import FILE, STUDIES, line, page
from benchmarks.signal_study.training import shuffled

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
