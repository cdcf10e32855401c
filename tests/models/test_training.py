"""Training: it learns, it can be interrupted, it leaves what export needs."""

import json
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from bundle.preprocess import Preprocessor
from bundle.reader import BundleFolder
from bundle.wire import instance_from_wire, instance_to_wire
from limelight.v1 import bundle_pb2, model_pb2, values_pb2
from models.data.dataset import DataError
from models.training import session
from models.training.batches import Batches
from models.training.checkpoint import Progress, read_state
from models.training.recipes import recipe
from models.training.runs import RunError, load_run, read_run
from models.training.session import Order
from models.training.settings import PRESETS, Preset, Settings
from models.training.stop import Interrupted, Stop
from models.training.trainer import rate

TINY = {
    "han": {"d_embedding": 8, "d_gru": 6, "d_attention": 8, "dropout": 0.1},
    "bahdanau": {"d_embedding": 8, "d_encoder": 8, "d_decoder": 12, "d_attention": 8, "d_maxout": 8},
    "vit": {"patch": 4, "d_model": 8, "layers": 1, "heads": 2, "d_hidden": 12},
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets so small that an epoch takes a moment."""
    settings = Settings(epochs=3, batch_size=8, learning_rate=0.02)
    for name, sizes in TINY.items():
        preset = Preset(settings=settings, sizes=sizes, vocabulary=0 if name == "bahdanau" else 50)
        monkeypatch.setitem(PRESETS, name, {"demo": preset, "full": preset})


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Documents that one word decides."""
    chance = random.Random(0)
    lines = []
    for number in range(60):
        label, word = ("warm", "sun") if number % 2 else ("cold", "snow")
        filler = [" ".join(chance.choices("the a day was long and we went home".split(), k=5)) for _ in range(3)]
        lines.append(f"{label}\t{filler[0]}. {filler[1]} {word} {filler[2]}.\n")
    path = tmp_path / "documents.tsv"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Words to be written backwards."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abc", k=chance.randint(2, 4))) for _ in range(50)]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    return path


def run(order: Order, stop: Stop | None = None, ctrl_c_at: int = 0) -> list[model_pb2.Metric]:
    """Train; `ctrl_c_at`: the process gets the signal of Ctrl-C at that step."""

    def told(progress: Progress, batches: int) -> None:
        if batches and progress.step == ctrl_c_at:
            os.kill(os.getpid(), signal.SIGINT)

    return session.train(order, stop=stop or Stop(), told=told, said=lambda line: None)


def order(model: str, data: Path | str, out: Path, **changes: object) -> Order:
    return Order(model=model, out=out, data=str(data), changes=changes)


def losses(folder: Path) -> Sequence[float]:
    return [each["train_loss"] for each in json.loads((folder / "metrics.json").read_text())["history"]]


def test_a_document_classifier_learns(documents: Path, tmp_path: Path) -> None:
    metrics = run(order("han", documents, tmp_path / "run", epochs=12, batch_size=4, patience=12))
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0] / 3
    assert metrics[0].name == "accuracy" and metrics[0].value == 1
    assert metrics[0].baseline_name == "majority class" and 0 < metrics[0].baseline < 1


@pytest.mark.parametrize("model", ["bahdanau", "bahdanau-last", "han-mean"])
def test_the_other_models_learn(model: str, documents: Path, pairs: Path, tmp_path: Path) -> None:
    metrics = run(
        order(model, documents if model == "han-mean" else pairs, tmp_path / "run", epochs=8, batch_size=4, patience=8)
    )
    assert losses(tmp_path / "run")[-1] < 0.9 * losses(tmp_path / "run")[0]
    assert all(0 <= metric.value <= 1 for metric in metrics)


@pytest.mark.parametrize("steps", [1, 6, 13])
def test_interrupted_and_resumed_is_as_if_it_had_not_been(documents: Path, tmp_path: Path, steps: int) -> None:
    """6 steps an epoch: in the middle of one, at the end of one, in a later one. Dropout is drawn all the while."""
    whole = run(order("han", documents, tmp_path / "whole"))
    broken = order("han", documents, tmp_path / "broken")
    with pytest.raises(Interrupted):
        run(broken, ctrl_c_at=steps)
    assert not (tmp_path / "broken" / "metrics.json").exists()
    torch.rand(5)  # whatever else happens between the sittings
    resumed = run(replace(broken, resume=True))
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "broken")]
    assert weights[0] == weights[1]
    states = []
    for name in ("whole", "broken"):
        model = read_run(tmp_path / name).build()
        optimizer = torch.optim.AdamW(model.parameters())
        progress = read_state(tmp_path / name / "resume.safetensors", model, optimizer)
        history = [{**each, "seconds": 0} for each in progress.history]
        states.append((model.state_dict(), torch.get_rng_state(), progress.step, history))
    assert all(torch.equal(value, states[1][0][name]) for name, value in states[0][0].items())
    assert torch.equal(states[0][1], states[1][1]) and states[0][2:] == states[1][2:]
    assert [metric.value for metric in whole] == [metric.value for metric in resumed]


def test_ctrl_c_asks_and_a_second_one_kills() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stop() as stop:
        assert not stop.interrupted and signal.getsignal(signal.SIGINT) != before
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.interrupted and signal.getsignal(signal.SIGINT) == before
    assert signal.getsignal(signal.SIGINT) == before


def test_out_of_time_takes_the_best_so_far_and_can_go_on(documents: Path, tmp_path: Path) -> None:
    short = order("han", documents, tmp_path / "run")
    metrics = run(short, Stop(minutes=1e-9))
    report = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert not report["finished"] and report["epochs"] == 1 and metrics
    run(replace(short, resume=True))
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["finished"]


def test_training_stops_when_the_dev_loss_rises(documents: Path, tmp_path: Path) -> None:
    run(order("han", documents, tmp_path / "run", epochs=40, patience=2, learning_rate=0.3))
    report = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert report["epochs"] == report["best_epoch"] + 2 < 40 or report["epochs"] == 40
    dev = [each["dev_loss"] for each in report["history"]]
    assert report["best_epoch"] == dev.index(min(dev)) + 1


def test_the_same_seed_gives_the_same_weights_and_another_does_not(documents: Path, tmp_path: Path) -> None:
    made = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        run(order("han", documents, tmp_path / name, epochs=1, seed=seed))
        made.append((tmp_path / name / "weights.safetensors").read_bytes())
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize("model", ["han", "bahdanau"])
def test_a_run_folder_holds_what_export_needs(model: str, documents: Path, pairs: Path, tmp_path: Path) -> None:
    data = documents if model == "han" else pairs
    metrics = run(replace(order(model, data, tmp_path / "run", epochs=1), licence="CC0-1.0", name="made up"))
    trained = load_run(tmp_path / "run")
    assert not trained.model.training and trained.card.description.name == model
    assert trained.training_data.name == "made up" and trained.training_data.licence == "CC0-1.0"
    assert trained.training_data.training_examples > trained.training_data.held_out_examples > 0
    assert list(trained.metrics) == metrics and 1 <= len(trained.examples) <= 3
    bundle = bundle_pb2.Bundle(description=trained.card.description, preprocessing=trained.card.preprocessing)
    preprocessor = Preprocessor.from_parts(bundle, trained.card.files)
    assert all(preprocessor.row(example) for example in trained.examples)
    assert not [path for path in (tmp_path / "run").iterdir() if path.suffix in {".pt", ".pkl", ".bin"}]


@pytest.mark.parametrize("model", ["han", "bahdanau", "vit"])
def test_training_and_serving_make_the_same_tensors(model: str, documents: Path, pairs: Path, tmp_path: Path) -> None:
    """Training: through batches. Serving: off the wire, with the tokenizer files of the bundle's folder."""
    chosen = recipe(model)
    data = {"han": str(documents), "bahdanau": str(pairs), "vit": session.BUILTIN}[model]
    dataset = session.load(data, chosen, 0, "", "")
    card = chosen.card(chosen.plan(dataset, PRESETS[model]["demo"]))
    for name, text in card.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    bundle = bundle_pb2.Bundle(
        description=card.description,
        preprocessing=card.preprocessing,
        files=[bundle_pb2.File(path=name) for name in card.files],
    )
    serving = Preprocessor(BundleFolder(tmp_path, bundle_pb2.Bundle.FromString(bundle.SerializeToString()), ""))
    examples = dataset.dev[:20]
    batch = Batches(card, examples, batch_size=20).batch(range(len(examples)))
    for number, example in enumerate(examples):
        sent = values_pb2.Instance.FromString(instance_to_wire(example.instance).SerializeToString())
        row = serving.row(instance_from_wire(sent, ""))
        for name, array in row.tensors.items():
            trained = batch.tensors[name][number].numpy()
            inside = trained[tuple(slice(size) for size in array.shape)]
            assert inside.dtype == array.dtype and np.array_equal(inside, array), name
            assert trained.sum() == inside.sum() or name == "pixels"  # nothing but padding outside


def test_batches_hold_every_example_once_and_differ_from_epoch_to_epoch(documents: Path) -> None:
    dataset = session.load(str(documents), recipe("han"), 0, "", "")
    card = recipe("han").card(recipe("han").plan(dataset, PRESETS["han"]["demo"]))
    batches = Batches(card, dataset.train, batch_size=7)
    first, second = batches.shuffled(0, 0), batches.shuffled(0, 1)
    assert sorted(index for batch in first for index in batch) == list(range(len(dataset.train)))
    assert first != second and first == batches.shuffled(0, 0) and len(first) == len(batches)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a\tone two\n" * 20, "all 16 training examples have the label 'a'"),
        ("".join(f"{label}\tone\n" for label in "abcdefghijklmnopqrst"), "is held out, but not among"),
    ],
)
def test_classes_that_cannot_be_learned_are_refused(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(lines)
    with pytest.raises(DataError, match=message):
        run(order("han", path, tmp_path / "run"))


def test_a_folder_in_use_and_changed_data_are_refused(documents: Path, tmp_path: Path) -> None:
    wanted = order("han", documents, tmp_path / "run", epochs=1)
    run(wanted)
    with pytest.raises(RunError, match="is not empty"):
        run(wanted)
    run(replace(wanted, overwrite=True))
    documents.write_text(documents.read_text() + "warm\tsun\n")
    with pytest.raises(RunError, match="the data have changed"):
        run(replace(wanted, resume=True))
    with pytest.raises(RunError, match="holds a run of han"):
        run(replace(wanted, model="vit", resume=True))
    with pytest.raises(RunError, match=r"config\.json: cannot be read"):
        run(replace(wanted, out=tmp_path / "none", resume=True))
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"broken")
    with pytest.raises(DataError, match="does not hold the weights of this model"):
        load_run(tmp_path / "run")


def test_the_learning_rate_rises_and_falls() -> None:
    settings = Settings(warm_up=0.1)
    rates = [rate(settings, step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == rates[10] == 1.0
    assert rates[100] == pytest.approx(0.05)
    assert all(a >= b for a, b in pairwise(rates[10:]))
