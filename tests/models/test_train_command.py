"""`limelight train` as it is typed, and on the data sets that are never committed."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from limelight.base.commands import CommandError
from limelight_models.data import folder
from limelight_models.data.dataset import Dataset
from limelight_models.index import recipe
from limelight_models.recipes.settings import Preset, Settings
from limelight_models.training import session
from limelight_models.training.command import train
from limelight_models.training.runs import load_run


def test_the_command_is_light_to_import() -> None:
    program = "import sys, limelight_models.training.command; print(*({'torch', 'tokenizers'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_a_run_from_nothing_to_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"{'ab'[number % 2]}\tthe word is {'xy'[number % 2]}.\n" for number in range(40)))
    train("han", data=str(data), out=tmp_path / "run", epochs=1, seed=1, batch_size=20)
    printed = capsys.readouterr().out
    assert "epoch 1: train loss" in printed and "held-out accuracy: " in printed and "majority class" in printed
    assert printed.endswith(f"export it with: limelight export {tmp_path / 'run'} --repository bundles\n")
    before = printed.partition("epoch 1")[0]
    assert "label is column 1, text is column 2" in before and "classes: " in before
    with pytest.raises(CommandError, match="leave out the others"):
        train("han", out=tmp_path / "run", resume=True, epochs=3)
    with pytest.raises(CommandError, match="is not empty"):
        train("han", data=str(data), out=tmp_path / "run")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("bert", {}, "there is no model 'bert'; there are bahdanau, "),
        ("hann", {}, "; did you mean 'han'\\?$"),
        ("han", {"preset": "huge"}, "there is no preset 'huge' of han; there are tiny, demo, full"),
        ("han", {"data": "nowhere"}, "nowhere: there is no such file or folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    tmp_path: Path, model: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(CommandError, match=message) as caught:
        train(model, out=tmp_path / "run", **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


SMALL = {
    "han": ("movie_reviews", {"d_embedding": 8, "d_gru": 6, "d_attention": 8, "max_sentences": 6, "max_words": 20}),
    "bahdanau": ("tatoeba_en_fr", {"d_embedding": 8, "d_encoder": 8, "d_decoder": 12, "max_new_tokens": 20}),
    "hiecoatt": ("nlvr_mini", {"channels": (4, 6, 8), "d": 8, "d_attention": 6, "d_answer": 8}),
    "vit": ("mnist", {"patch": 7, "d_model": 16, "layers": 1, "heads": 2, "d_hidden": 16}),
}


@pytest.mark.data
@pytest.mark.parametrize("model", SMALL)
def test_training_reads_the_data_sets_as_they_lie(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    name, sizes = SMALL[model]
    whole: list[Dataset] = []

    def first_of(*arguments: object, **options: object) -> Dataset:
        dataset = load(*arguments, **options)  # type: ignore[arg-type]
        whole.append(dataset)
        return replace(dataset, train=dataset.train[:60], dev=dataset.dev[:10], test=dataset.test[:10])

    load = folder.load
    monkeypatch.setattr(folder, "load", first_of)
    preset = Preset(settings=Settings(epochs=1, batch_size=20), sizes=sizes, vocabulary=300)
    monkeypatch.setitem(recipe(model).presets, "full", preset)
    if model != "bahdanau":  # of the few that are taken, every class must be among the first
        module = "limelight_models.recipes.answering" if model == "hiecoatt" else "limelight_models.recipes.prepared"
        monkeypatch.setattr(f"{module}.classes", lambda dataset: whole[0].labels)
    train(model, data=str(data / name), out=tmp_path / "run")
    sizes_of = {
        "han": (1600, 200, 200),
        "bahdanau": (19_000, 1000, 1000),
        "hiecoatt": (868, 121, 240),
        "vit": (10_800, 1200, 10_000),
    }[model]
    assert (len(whole[0].train), len(whole[0].dev), len(whole[0].test)) == sizes_of
    trained = load_run(tmp_path / "run")
    assert trained.metrics and trained.training_data.name == name
    assert session.BUILTIN not in trained.training_data.summary


def test_with_a_repository_it_calls_whatever_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[Path, Path]] = []

    class Export:
        def load(self) -> object:
            return lambda run, *, repository: called.append((run, repository))

    found: dict[str, list[Export]] = {"export": [Export()]}
    monkeypatch.setattr("limelight_models.training.command.entry_points", lambda *, group, name: found[name])
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"{'ab'[number % 2]}\tthe word is {'xy'[number % 2]}.\n" for number in range(40)))
    train("han", data=str(data), out=tmp_path / "run", epochs=1, repository=tmp_path / "repository")
    assert called == [(tmp_path / "run", tmp_path / "repository")]
    found["export"] = []
    with pytest.raises(CommandError, match="no exporter is installed"):
        train("han", data=str(data), out=tmp_path / "again", epochs=1, repository=tmp_path / "repository")
