"""Training: it learns, from the tensors that serving sees."""

import email
import json
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from limelight.v1 import values_pb2
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Graph
from limelight_bundle.wire import instance_from_wire, instance_to_wire
from limelight_models.data import generated
from limelight_models.data.dataset import DataError
from limelight_models.index import recipe
from limelight_models.recipes.settings import Settings
from limelight_models.training import session
from limelight_models.training.batches import Batches
from limelight_models.training.runs import load_run
from limelight_models.training.trainer import rate
from tests.models.runs import losses, order, run

pytestmark = pytest.mark.usefixtures("tiny")


def test_a_document_classifier_learns(documents: Path, tmp_path: Path) -> None:
    metrics = run(order("han", documents, tmp_path / "run", epochs=12, batch_size=4, patience=12))
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0] / 3
    assert metrics[0].name == "accuracy" and metrics[0].value == 1
    assert metrics[0].baseline_name == "majority class" and 0 < (metrics[0].baseline or 0) < 1


READING = ("rnn-capsule-frozen", "dme")


@pytest.mark.parametrize(
    "model",
    ["bahdanau", "gpt", "rnn-capsule-frozen", "dme"],
)
def test_the_other_models_learn(model: str, documents: Path, pairs: Path, tmp_path: Path) -> None:
    metrics = run(
        order(model, documents if model in READING else pairs, tmp_path / "run", epochs=8, batch_size=4, patience=8)
    )
    assert losses(tmp_path / "run")[-1] < 0.9 * losses(tmp_path / "run")[0]
    assert all(0 <= metric.value <= 1 for metric in metrics)


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


def test_a_node_classifier_learns_and_leaves_graphs_to_show(tmp_path: Path) -> None:
    (metric,) = run(order("gat", session.BUILTIN, tmp_path / "run", epochs=12, batch_size=6, patience=12))
    assert metric.name == "accuracy" and metric.value > 0.6 > 2 * (metric.baseline or 1)
    trained = load_run(tmp_path / "run")
    dataset = session.load(session.Source(session.BUILTIN, 0), recipe("gat"))
    assert trained.training_data.held_out_examples == sum(
        map(bool, (tag for each in dataset.test for tag in each.labels))
    )
    assert len(trained.examples) == 3
    for shown, kept in zip(dataset.shown, trained.examples, strict=True):
        ours, theirs = shown["graph"], kept["graph"]
        assert isinstance(ours, Graph) and isinstance(theirs, Graph)
        assert np.array_equal(ours.nodes, theirs.nodes) and np.array_equal(ours.edges, theirs.edges)
        assert ours.names == theirs.names and ours.nodes.dtype == theirs.nodes.dtype


def test_graphs_are_joined_in_training_as_in_serving() -> None:
    chosen = recipe("gat")
    dataset = session.load(session.Source(session.BUILTIN, 0), chosen)
    blueprint = chosen.prepare(dataset, chosen.presets["demo"])
    card = chosen.card(chosen.build(blueprint), blueprint)
    (batch,) = Batches(card, chosen.task, dataset.dev[:4], labels=blueprint.labels, batch_size=4).in_order()
    begin = 0
    for index in batch.indices:
        sent = values_pb2.Instance.FromString(instance_to_wire(dataset.dev[index].instance).SerializeToString())
        row = card.preprocessor().row(instance_from_wire(sent, ""))
        end = begin + row.sizes["node"]
        assert np.array_equal(batch.tensors["nodes"][begin:end].numpy(), row.tensors["nodes"])
        inside = (batch.tensors["targets"] >= begin) & (batch.tensors["targets"] < end)
        for name in ("sources", "targets"):
            assert np.array_equal(batch.tensors[name][inside].numpy() - begin, row.tensors[name])
        classes = [blueprint.labels[each] if each >= 0 else "" for each in batch.target[begin:end].tolist()]
        assert tuple(classes) == dataset.dev[index].labels
        begin = end
    assert begin == len(batch.tensors["nodes"]) == len(batch.target)


@pytest.mark.parametrize("model", ["han", "bahdanau", "vit"])
def test_training_and_serving_make_the_same_tensors(model: str, documents: Path, pairs: Path, tmp_path: Path) -> None:
    """Training: through batches. Serving: off the wire, with the tokenizer files of the bundle's folder."""
    chosen = recipe(model)
    data = {"han": str(documents), "bahdanau": str(pairs), "vit": session.BUILTIN}[model]
    dataset = session.load(session.Source(data, 0), chosen)
    blueprint = chosen.prepare(dataset, chosen.presets["demo"])
    card = chosen.card(chosen.build(blueprint), blueprint)
    for name, text in card.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    bundle = card.bundle()
    bundle.files.extend(bundle_pb2.File(path=name) for name in card.files)
    serving = Preprocessor(BundleFolder(tmp_path, bundle_pb2.Bundle.FromString(bundle.SerializeToString()), ""))
    examples = dataset.dev[:20]
    (batch,) = Batches(card, chosen.task, examples, labels=blueprint.labels, batch_size=20).in_order()
    assert sorted(batch.indices) == list(range(len(examples)))
    for number, example in enumerate(examples[index] for index in batch.indices):
        sent = values_pb2.Instance.FromString(instance_to_wire(example.instance).SerializeToString())
        row = serving.row(instance_from_wire(sent, ""))
        for name, array in row.tensors.items():
            trained = batch.tensors[name][number].numpy()
            inside = trained[tuple(slice(size) for size in array.shape)]
            assert inside.dtype == array.dtype and np.array_equal(inside, array), name
            assert trained.sum() == inside.sum() or name == "pixels"  # nothing but padding outside


def test_batches_hold_every_example_once_and_differ_from_epoch_to_epoch(documents: Path) -> None:
    batches = batches_of(documents)

    def indices(epoch: int, done: int = 0) -> list[tuple[int, ...]]:
        return [batch.indices for batch in batches.shuffled(0, epoch, done=done)]

    first, second = indices(0), indices(1)
    assert sorted(index for batch in first for index in batch) == list(range(len(batches.examples)))
    assert first != second and first == indices(0) and len(first) == len(batches)
    assert indices(0, done=2) == first[2:] and indices(0, done=len(first)) == []


def test_no_more_examples_are_tensors_than_are_sorted_together(
    documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was done before an interruption is not read again."""
    monkeypatch.setattr("limelight_models.training.batches._BUCKET", 2)
    batches, read = batches_of(documents), []
    row = Preprocessor.row
    monkeypatch.setattr(Preprocessor, "row", lambda self, *a, **o: read.append(1) or row(self, *a, **o))
    each = batches.shuffled(0, 0)
    next(each)
    assert len(read) == 14
    read.clear()
    assert len(list(batches.shuffled(0, 0, done=len(batches) - 1))) == 1 and len(read) < 14
    assert sorted(i for batch in batches.in_order() for i in batch.indices) == list(range(len(batches.examples)))


def batches_of(documents: Path) -> Batches:
    """The training part of the documents, seven a batch."""
    chosen = recipe("han")
    dataset = session.load(session.Source(str(documents), 0), chosen)
    blueprint = chosen.prepare(dataset, chosen.presets["demo"])
    card = chosen.card(chosen.build(blueprint), blueprint)
    return Batches(card, chosen.task, dataset.train, labels=blueprint.labels, batch_size=7)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a\tone two\n" * 20, "of 16 training examples, each has the label 'a'"),
        ("a\tone\n" * 12 + "".join(f"{label}\tone\n" for label in "bcdefghi"), "is held out, but not among"),
    ],
)
def test_classes_that_cannot_be_learned_are_refused(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(lines)
    with pytest.raises(DataError, match=message):
        run(order("han", path, tmp_path / "run"))


def test_the_learning_rate_rises_and_falls() -> None:
    settings = Settings(warm_up=0.1)
    rates = [rate(settings, step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == rates[10] == 1.0
    assert rates[100] == pytest.approx(0.05)
    assert all(a >= b for a, b in pairwise(rates[10:]))


MADE_FOR = {"dates": "bahdanau", "numbers": "transformer", "snapshots": "cct", "slips": "han-code"}
LOOKS = {"dates": "decoder.cross", "numbers": "decoder.0.cross", "snapshots": "pool", "slips": "word"}


@pytest.mark.parametrize("name", LOOKS)
def test_generated_data_say_what_a_model_does_how_well_and_where_it_looks(
    name: str, tiny: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, few = generated.SETS[name], {"training": 60, "held_out": 30}
    library = {"library": Path(email.__file__).parent} if name == "slips" else {}
    small = partial(made.make, **few, **library)
    monkeypatch.setitem(generated.SETS, name, generated.Made(made.kind, small))
    dataset = small(seed=0)
    metrics = {each.name for each in run(order(MADE_FOR[name], f"builtin:{name}", tmp_path / "run", epochs=1))}
    assert f"weight on the right place, {LOOKS[name]}" in metrics
    kinds = {example.label for example in dataset.test} if name in ("dates", "numbers") else set()
    assert {f"exact match, {kind}" for kind in kinds} <= metrics
    trained = load_run(tmp_path / "run")
    assert trained.card.description.summary.startswith(dataset.does)
    assert {each.name: each.summary for each in trained.card.description.inputs}.items() >= dataset.inputs.items()
    assert dataset.does and dataset.inputs
