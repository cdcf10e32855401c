"""The study of mechanisms: what enters, what is read, that every line answers, and that a study resumes."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch

from limelight_bundle.values import Sentences, Text
from limelight_export.execution.pytorch_runner import copy_for_export
from limelight_export.tracing.build import build_graphs
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.data import inference, recall, transductions
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span
from research.mechanisms import __main__ as mechanisms
from research.mechanisms import jobs, latency, reading, run, tasks
from research.mechanisms.absent import ABSENT
from research.mechanisms.data import Part, TaskData, in_order, shuffled, targets_of
from research.mechanisms.line import MEMORY, Line, latency_key
from research.mechanisms.lines import lines, of_task
from research.mechanisms.looks import CHECKS
from research.mechanisms.results import Results
from research.mechanisms.tasks import TASKS
from research.mechanisms.training import Training, logits_of, trained

SMALL = {"training": 200, "held_out": 20}


def of(*examples: Example) -> Dataset:
    """A set whose parts are all the same."""
    return Dataset(name="made up", licence="", summary="", train=examples, dev=examples, test=examples)


def stories() -> Dataset:
    told = Sentences(("Mary is here.", "John is there.", "Mary went there."))
    facts = {"there": ("Where is Mary?", 2), "here": ("Where was Mary?", 0)}
    return of(
        *(
            Example(
                {"document": told, "question": Text(question)},
                label,
                gold=(Gold((Span("document", 0, 5, sentence=fact),)),),
            )
            for label, (question, fact) in facts.items()
        )
    )


def sides() -> Dataset:
    return of(
        Example({"left": Text("the"), "target": Text("cat"), "right": Text("sat here")}, "calm"),
        Example({"left": Text("."), "target": Text("a dog"), "right": Text("ran")}, "lively"),
    )


def letters(rule: str) -> Dataset:
    return transductions.dataset(rule, lengths=(3, 5), **SMALL)


def sets() -> dict[str, Callable[[], TaskData]]:
    """Small data of each task's kind."""
    rewritten = {
        name: (lambda name=name: reading.written(letters(name if name in transductions.RULES else "copy"), words=False))
        for name in TASKS
        if TASKS[name].form == "writing"
    }
    induction = partial(recall.dataset, "induction", tokens=16, **SMALL)
    longer = partial(recall.dataset, "recall", tokens=32, **SMALL)
    asked = partial(reading.asked, recall.dataset("recall", tokens=16, **SMALL), longer=longer())
    story = partial(reading.told, stories())
    return rewritten | {
        **dict.fromkeys(("recall", "recall-256", "recall-1024"), asked),
        **dict.fromkeys(("babi1", "babi2", "babi3"), story),
        **dict.fromkeys(("induction", "sentiment"), lambda: reading.classified(induction())),
        "neighbour": lambda: reading.beside(induction()),
        "snli": lambda: reading.classified(inference.dataset(), fields=("pair.first", "pair.second")),
        "mams": lambda: reading.classified(sides(), fields=("left", "target", "right")),
    }


@cache
def small(task: str) -> TaskData:
    return sets()[task]()


@pytest.mark.parametrize("task", TASKS)
def test_every_line_of_a_task_answers_and_shows_its_weights(task: str) -> None:
    data = small(task)
    index = np.arange(min(4, len(data.train)))
    targets = targets_of(data.train, index)
    for line in of_task(task):
        torch.manual_seed(0)
        subject = line.make(data)
        batch = subject.batch(data.train, index, training=False)
        with torch.no_grad():
            answer = subject.model.eval()(**batch)
        assert logits_of(answer).shape == (len(index), targets.shape[1], len(data.texts.labels)), line.key
        maps = subject.maps(answer, batch)
        assert maps, line.key
        for found in maps.values():
            np.broadcast_shapes(found.real.shape, found.weights.shape[:4])
        if data.train.gold and TASKS[task].form not in ("story", "sentence"):
            (only,) = maps.values()
            assert only.weights.shape[2:4] == (
                max(len(gold) for gold in data.train.gold[:4]),
                max(gold.shape[1] for gold in data.train.gold[:4]),
            ), line.key


@pytest.mark.parametrize(
    "key",
    [
        "recall / hard × scaled multiplicative",  # learns from draws
        "copy / monotonic chunkwise × additive",  # carries something else than its weights
        "copy / location-aware",  # remembers
        "induction / label-wise",  # classifies by itself
        "babi2 / multi-hop, what was found asks",
        "recall / uniform weights",
    ],
)
def test_a_run_says_everything_that_the_page_shows(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = (each for each in lines() if each.key == key)
    monkeypatch.setattr(run, "load", small)
    monkeypatch.setitem(TASKS, line.task, replace(TASKS[line.task], steps=2, every=1, batch=4))
    row = run.run(line, 0, (1e-3, 1e-2))
    data = small(line.task)
    assert row["examples"] == len(data.test)
    assert 0 <= row["accuracy"] <= 1 and set(row["tried"]) == {"0.001", "0.01"}
    assert [step for step, _ in row.get("curve", ())] == ([0, 1, 2] if TASKS[line.task].drawn else [])
    assert row["kept_mb"] >= 0 and row["step_ms"] > 0
    assert ("acted" in row) == bool(line.check) and ("longer" in row) == bool(data.longer)
    assert "permuted" in row and ("facts" in row) == bool(data.test.gold)


def test_every_mechanism_enters_somewhere_or_says_why_not() -> None:
    entered: set[str] = set()
    for line in lines():
        entered |= {line.name, *line.name.split(" × "), *line.latency}
    served = {each.name for each in MECHANISMS if each.served}
    assert served - entered == set(ABSENT)


def test_no_two_lines_have_the_same_name_and_every_check_is_known() -> None:
    keys = [line.key for line in lines()]
    assert len(set(keys)) == len(keys)
    assert {line.check for line in lines()} <= {"", MEMORY, *CHECKS}


def test_a_recall_is_asked_where_its_key_stands_again() -> None:
    data = reading.asked(recall.dataset("recall", tokens=16, **SMALL))
    for row, gold in zip(data.train.rows, data.train.gold, strict=True):
        for place, keys in zip(row["asked_ids"] - 1, gold, strict=True):
            (value,) = keys.nonzero()[0]
            assert row["token_ids"][place] == row["token_ids"][value - 1] and place > value


def test_what_was_written_before_each_step_is_the_target_one_step_later() -> None:
    data = reading.written(letters("reverse"), words=False)
    part = data.train
    for row, targets, gold in zip(part.rows, part.targets, part.gold, strict=True):
        before = row["written_ids"]
        assert before[0] == len(data.texts.labels) + 1
        np.testing.assert_array_equal(before[1:] - 1, targets[:-1])
        assert targets[-1] == data.texts.labels.index(reading.END) and not gold[-1].any()
        np.testing.assert_array_equal(gold[:-1], np.eye(len(gold) - 1, dtype=bool)[::-1])


def test_the_word_behind_the_mark_should_look_at_the_mark() -> None:
    data = reading.beside(recall.dataset("induction", tokens=16, **SMALL))
    for row, gold, targets in zip(data.train.rows, data.train.gold, data.train.targets, strict=True):
        ((query, key),) = np.argwhere(gold)
        assert query == key + 1 and row["token_ids"][key] == row["token_ids"][-1]
        assert data.texts.labels[targets[0]].startswith("n")


def test_batches_hold_every_example_once_a_pass_in_an_order_that_the_seed_decides() -> None:
    rows = [{"token_ids": np.ones(1 + n % 5, dtype=np.int64)} for n in range(50)]
    part = Part(rows, [np.array([0])] * 50, [])

    def drawn(seed: int) -> list[list[int]]:
        endless = shuffled(part, 8, np.random.default_rng(seed))
        return [next(endless).tolist() for _ in range(7)]

    assert sorted(place for index in drawn(0) for place in index) == list(range(50))
    assert drawn(0) == drawn(0) != drawn(1)
    assert sorted(np.concatenate(list(in_order(part, 8))).tolist()) == list(range(50))


def easy() -> tuple[tasks.Task, TaskData, Line]:
    """Recall of one of two keys."""
    (line,) = (each for each in lines() if each.key == "recall / additive")
    data = reading.asked(recall.dataset("recall", tokens=16, training=200, held_out=50))
    return replace(TASKS["recall"], steps=60, every=10, batch=32), data, line


def test_the_rate_that_the_dev_part_likes_best_goes_on() -> None:
    task, data, line = easy()
    training, tried = trained(task, data, line.make, 0, (1e-9, 1e-2))
    assert training.rate == 1e-2 and set(tried) == {"1e-09", "0.01"}
    assert training.curve[1][0] == 10 and training.steps > task.steps // 3


def test_training_stops_without_improvement_and_keeps_the_best_weights() -> None:
    task, data, line = easy()
    training = Training(replace(task, steps=10_000, every=1), data, line.make, 0, 0.5)
    training.advance(10_000)
    assert training.steps < 300 and training.worse == 4
    best = training.standing
    training.finished()
    training.standing = replace(best, accuracy=-1.0)
    training.look()
    assert training.standing == pytest.approx(best) or training.standing.accuracy == best.accuracy


def test_the_same_seed_gives_the_same_model_and_another_one_another() -> None:
    task, data, line = easy()

    def learned(seed: int) -> torch.Tensor:
        training = Training(task, data, line.make, seed, 1e-2)
        training.advance(10)
        return torch.cat([each.flatten() for each in training.subject.model.parameters()])

    torch.testing.assert_close(learned(0), learned(0))
    assert not torch.equal(learned(0), learned(1))


def test_a_study_goes_on_where_it_stopped_and_repeats_what_other_data_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_now = "now"
    monkeypatch.setattr(jobs, "load", lambda task: replace(small("delay"), of=of_now))
    results = Results(tmp_path / "results.jsonl")
    first, second, *_ = jobs.missing(results, {"delay"})
    assert (first.seed, second.seed) == (0, 0)
    results.add("run", first.line.key, 0, of="now", accuracy=0.5)
    assert next(jobs.missing(Results(results.file), {"delay"})) == second
    of_now = "changed"
    assert next(jobs.missing(results, {"delay"})) == first


def test_the_first_seed_tries_the_rates_and_the_others_keep_its_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(jobs, "run", lambda line, seed, rates: asked.append(rates) or {"rate": 5e-3, "of": ""})
    results, line = Results(tmp_path / "results.jsonl"), lines()[0]
    jobs.Job(line, 0).do(results)
    jobs.Job(line, 1).do(results)
    assert asked == [TASKS[line.task].rates, (5e-3,)]


def test_a_run_that_fails_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "load", small)

    def fails(line: Line, seed: int, rates: tuple[float, ...]) -> dict[str, object]:
        if line.name == "additive":
            raise FloatingPointError("too large")
        return {"rate": 5e-3, "of": small(line.task).of, "accuracy": 0.5, "cpu_seconds": 1.0}

    monkeypatch.setattr(jobs, "run", fails)
    results = Results(tmp_path / "results.jsonl")
    with pytest.raises(SystemExit, match="expand / additive · seed 0"):
        mechanisms.work(results, 0.0, {"expand"})
    assert len(results.rows) == TASKS["expand"].seeds * (len(list(of_task("expand"))) - 1)
    assert "too large" in capsys.readouterr().err


def test_the_plan_keeps_to_six_core_hours() -> None:
    *_, last = jobs.plan()
    assert float(last.split("|")[-2]) <= 6.05


def test_every_mechanism_that_is_timed_can_be_built_and_one_of_them_takes_time(tmp_path: Path) -> None:
    timed = {latency_key(line): line for line in lines() if line.latency}
    for line in timed.values():
        latency.build(line)
    key = "scaled multiplicative × soft (global)"
    model, card = latency.build(timed[key])
    (graph,) = build_graphs(copy_for_export(model), card)
    assert 0 < latency.latency(graph, card, latency.SIZES[latency.kind_of(timed[key].latency)]) < 1000
    results = Results(tmp_path / "results.jsonl")
    results.add("latency", key, 0, ms=1.0)
    waiting = latency.by_task(timed, results)
    assert sum(map(len, waiting.values())) == len(timed) - 1 and key not in waiting["sentence"]


def test_tasks_without_their_data_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.Folder, "path", tmp_path)
    assert not tasks.present(TASKS["snli"]) and tasks.present(TASKS["copy"])
    assert list(jobs.missing(Results(tmp_path / "none.jsonl"), {"snli"})) == []
