"""Every kind of task of the canvas through cards, export and a socket: picture to text, picture and question to class,
picture to the classes of its cells. The networks are untrained and as small as can be: what is held is what carries
them."""

from collections.abc import Iterator, Mapping

import pytest
import torch

import limelight
from limelight_export.pipeline import export_model
from limelight_models.cards.card import Card, TrainedModel, TrainingData
from limelight_models.data.canvas import captions, masks, questions
from limelight_models.data.canvas.world import SIZE
from limelight_models.data.dataset import Dataset
from limelight_models.index import recipe
from limelight_models.network import Network
from limelight_models.recipes.settings import Preset, Settings
from limelight_models.tasks.task import Task
from limelight_models.training.batches import Batches
from limelight_models.training.figures import figures
from tests.end_to_end.test_zoo import ask, difference, pytorch
from tests.kit.serving import serving

D = 6


def trained(network: Network, card: Card, made: Dataset, hidden: str = "") -> TrainedModel:
    shown = tuple({k: v for k, v in each.instance.items() if k != hidden} for each in made.test[:2])
    return TrainedModel(network.eval(), card, shown, TrainingData(name="none", licence="CC0-1.0"), ())


def published(name: str, made: Dataset, sizes: Mapping[str, object], hidden: str = "") -> TrainedModel:
    """A model of the zoo for these data, untrained."""
    chosen = recipe(name)
    blueprint = chosen.prepare(made, Preset(settings=Settings(), sizes=sizes, vocabulary=80))
    network = chosen.build(blueprint)
    card = chosen.card(network, blueprint)
    card.description.name = name
    return trained(network, card, made, hidden)


def a_teller() -> tuple[TrainedModel, Dataset, Task]:
    made = captions.dataset(training=30, held_out=6)
    sizes = {"channels": (4, 4, D), "d_embedding": D, "d_state": D, "d_attention": D}
    return published("show-attend-tell", made, sizes, "target"), made, recipe("show-attend-tell").task


def an_asker() -> tuple[TrainedModel, Dataset, Task]:
    made = questions.dataset(training=60, held_out=6)
    sizes = {"channels": (4, 4, D), "d": D, "d_attention": D, "d_answer": D}
    return published("hiecoatt", made, sizes), made, recipe("hiecoatt").task


def a_painter() -> tuple[TrainedModel, Dataset, Task]:
    made = masks.dataset(training=10, held_out=6)
    sizes = {"channels": (3, 4), "d_gate": 3}
    return published("attention-unet", made, sizes), made, recipe("attention-unet").task


MAKERS = {"show-attend-tell": a_teller, "hiecoatt": an_asker, "attention-unet": a_painter}
# A map of each, and the side of its square cells in pixels.
MAPS = {"show-attend-tell": ("decoder.cross", 6), "hiecoatt": ("word.regions", 6), "attention-unet": ("gate.0", 2)}


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[TrainedModel, Dataset, Task]]:
    torch.manual_seed(0)
    return {name: make() for name, make in MAKERS.items()}


@pytest.fixture(scope="module")
def client(
    made: dict[str, tuple[TrainedModel, Dataset, Task]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("canvas")
    for model, _, _ in made.values():
        export_model(model, repository)
    with serving(repository, lanes=1) as running, limelight.Client(running.server.address) as each:
        yield each


@pytest.mark.parametrize("name", MAKERS)
def test_it_learns_and_is_judged_with_where_it_looks(
    name: str, made: dict[str, tuple[TrainedModel, Dataset, Task]]
) -> None:
    model, dataset, task = made[name]
    labels = tuple(model.card.description.results[0].classes.labels)
    train, test = (
        Batches(model.card, task, part, labels=labels, batch_size=4) for part in (dataset.train, dataset.test)
    )
    loss, terms = task.loss(model.model.train(), next(train.in_order()))
    loss.backward()
    model.model.eval()
    assert terms >= 4 and all(each.grad is not None for each in model.model.parameters())
    found = {each.name: each for each in figures(task, model.model, model.card, test, dataset.train)}
    weight = found[f"weight on the right place, {MAPS[name][0]}"]
    assert weight.baseline is not None and 0 < weight.baseline < 0.6 and 0 < weight.value < 1
    assert "intersection over union" in found or name != "attention-unet"


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_served_is_what_pytorch_answers(
    name: str, made: dict[str, tuple[TrainedModel, Dataset, Task]], client: limelight.Client
) -> None:
    model, dataset, _ = made[name]
    hidden = "target" if name == "show-attend-tell" else ""
    instances = [{k: v for k, v in each.instance.items() if k != hidden} for each in dataset.test[:3]]
    for answer, expected in zip(ask(client, name, instances), pytorch(model, instances), strict=True):
        assert difference(answer, expected) == ""
        shown, side = answer[MAPS[name][0]], MAPS[name][1]
        region = shown.key.region(SIZE // side + 1)  # the second cell of the second row, in pixels of the picture
        assert region == limelight.Region(side, side, 2 * side, 2 * side)
        if name == "attention-unet":
            tagging = answer.prediction.results["class"]
            assert isinstance(tagging, limelight.Tagging) and len(tagging) == (SIZE // masks.CELL) ** 2
            assert tagging.label_set == shown.key.name
