"""Runs: they can be interrupted, and leave what export needs."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from limelight_models.data.dataset import DataError
from limelight_models.index import recipe
from limelight_models.training import session
from limelight_models.training.checkpoint import read_state
from limelight_models.training.runs import RunError, load_run, read_run
from limelight_models.training.stop import Interrupted, Stop
from tests.models.runs import order, run

pytestmark = pytest.mark.usefixtures("tiny")
WORDS = {"warm": "sun", "cold": "snow"}


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


@pytest.mark.parametrize("model", ["han", "bahdanau"])
def test_a_run_folder_holds_what_export_needs(model: str, documents: Path, pairs: Path, tmp_path: Path) -> None:
    data = documents if model == "han" else pairs
    metrics = run(replace(order(model, data, tmp_path / "run", epochs=1), licence="CC0-1.0", data_name="made up"))
    trained = load_run(tmp_path / "run")
    assert not trained.model.training and trained.card.description.name == model
    assert trained.training_data.name == "made up" and trained.training_data.licence == "CC0-1.0"
    assert trained.training_data.training_examples > trained.training_data.held_out_examples > 0
    assert list(trained.metrics) == metrics and 1 <= len(trained.examples) <= 3
    preprocessor = trained.card.preprocessor()
    assert all(preprocessor.row(example) for example in trained.examples)
    assert not [path for path in (tmp_path / "run").iterdir() if path.suffix in {".pt", ".pkl", ".bin"}]


@pytest.mark.parametrize("short", [0, 3])
def test_what_a_run_shows_is_within_the_models_limits(short: int, tmp_path: Path) -> None:
    """Texts of more tokens than the model takes, but few characters: none is shown whole, for a server refuses it."""
    long = [f"{label}\t{word} {'. ' * 80}{number}\n" for number in range(20) for label, word in WORDS.items()]
    fitting = [f"{label}\t{word} {number}\n" for number in range(short * 10) for label, word in WORDS.items()]
    (tmp_path / "texts.tsv").write_text("".join(long + fitting))
    run(replace(order("mechanism", tmp_path / "texts.tsv", tmp_path / "run", epochs=1), mechanism="sparsemax"))
    trained = load_run(tmp_path / "run")
    assert trained.examples
    assert all(trained.card.preprocessor().row(example) for example in trained.examples)


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
    with pytest.raises(RunError, match="holds a run called han, and going on does not rename it"):
        run(replace(wanted, name="other", resume=True))
    with pytest.raises(RunError, match=r"config\.json: cannot be read"):
        run(replace(wanted, out=tmp_path / "none", resume=True))
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"broken")
    with pytest.raises(DataError, match="does not hold the weights of this model"):
        load_run(tmp_path / "run")


def test_a_run_whose_dev_loss_is_never_finite_leaves_no_weights_of_the_run_before(
    documents: Path, tmp_path: Path
) -> None:
    wanted = order("han", documents, tmp_path / "run", epochs=1)
    run(wanted)
    with pytest.raises(DataError, match="never a finite number"):
        run(replace(wanted, overwrite=True, changes={"epochs": 1, "learning_rate": float("inf")}))
    assert not (tmp_path / "run" / "weights.safetensors").exists()
    with pytest.raises(DataError):
        load_run(tmp_path / "run")


@pytest.mark.usefixtures("tiny")
def test_where_a_model_looks_is_measured_on_examples_of_their_own(pairs: Path, tmp_path: Path) -> None:
    gold = tmp_path / "aligned.jsonl"
    gold.write_text('{"src": ["ab", "c"], "tgt": ["c", "ba"], "sure": [[0, 1], [1, 0]], "possible": []}\n')
    wanted = replace(order("luong", pairs, tmp_path / "run", epochs=1), gold=str(gold))
    found = [each.name for each in run(wanted)]
    assert found == [
        "exact match",
        "token accuracy",
        "weight on the right place, decoder.cross",
        "strongest on the right place, decoder.cross",
        "alignment error rate, decoder.cross",
    ]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    del config["data"]["columns"]  # as a run begun before there were any
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    assert run(replace(wanted, changes={}, resume=True))
    gold.write_text(gold.read_text().replace("[1, 0]", "[0, 0]"))
    with pytest.raises(RunError, match="the data have changed"):
        run(replace(wanted, changes={}, resume=True))
    gold.write_text('{"source": "ab", "target": "ba"}\n')
    with pytest.raises(DataError, match="those that say where to look, has no examples"):
        run(replace(wanted, out=tmp_path / "other"))


def test_a_part_of_the_training_examples_is_drawn_by_the_seed(pairs: Path, tmp_path: Path) -> None:
    source = session.Source(str(pairs), 1)
    whole, some, fewer = (session.load(replace(source, examples=count), recipe("luong")) for count in (0, 12, 5))
    assert (len(some.train), len(fewer.train)) == (12, 5) and some.train[:5] == fewer.train
    assert set(map(repr, some.train)) < set(map(repr, whole.train))
    assert (some.dev, some.test) == (whole.dev, whole.test)
    other = session.load(replace(source, seed=2, examples=12), recipe("luong"))
    assert {*map(repr, other.train)} != {*map(repr, some.train)}
    assert len(session.load(replace(source, examples=10_000), recipe("luong")).train) == len(whole.train)


def test_the_model_and_the_data_have_names_of_their_own(documents: Path, tmp_path: Path) -> None:
    wanted = replace(order("han", documents, tmp_path / "run", epochs=1), name="my-reviews", data_name="Reviews")
    run(wanted)
    trained = load_run(tmp_path / "run")
    assert (trained.card.description.name, trained.training_data.name) == ("my-reviews", "Reviews")
    with pytest.raises(DataError, match="'No name' is no name for a model"):
        run(replace(wanted, name="No name", out=tmp_path / "other"))
    assert not (tmp_path / "other").exists()
