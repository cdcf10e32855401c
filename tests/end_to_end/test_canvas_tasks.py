"""Every kind of task of the canvas through cards, export and a socket: picture to text, picture and question to class,
picture to the classes of its cells. The networks are untrained and as small as can be: what is held is what carries
them."""

from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor, nn

import limelight
from export.pipeline import export_model
from models.attention import Attention
from models.attention.score import Additive, SelfAttentive
from models.cards.card import Card, TrainedModel, TrainingData
from models.cards.describe import describe
from models.cards.inputs import ImageInput, TextInput, Tokenizer, forced_target
from models.cards.labels import one, output_steps
from models.cards.maps import map_of
from models.cards.results import Classes, State, Written
from models.cards.taxonomy import Taxonomy
from models.data import tokenizers
from models.data.canvas import captions, masks, questions
from models.data.canvas.world import SIZE
from models.data.dataset import Dataset
from models.network import Answer, GeneratingNetwork, Network, StepAnswer
from models.tasks.classify import Classify
from models.tasks.generate import Generate
from models.tasks.segment import Segment
from models.tasks.task import Task
from models.training.batches import Batches
from models.training.figures import figures
from tests.end_to_end.test_zoo import ask, difference, pytorch
from tests.service.serving import serving

D = 6
PATCH = 8
GRID = SIZE // PATCH
PICTURE = ImageInput(rows=SIZE, columns=SIZE, mean=(0.5,), deviation=(0.5,))
CELLS = PICTURE.patches(PATCH)


class Eye(nn.Module):
    """[batch, 1, row, column] -> [batch, cell, D]."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(1, D, PATCH, PATCH)

    def forward(self, pixels: Tensor) -> Tensor:
        cells: Tensor = self.cut(pixels).flatten(2).transpose(1, 2)
        return cells


class Teller(GeneratingNetwork):
    """A picture to text: looks at the cells before each token."""

    def __init__(self, vocabulary: int, begin: int) -> None:
        super().__init__()
        self.eye, self.begin = Eye(), begin
        self.words = nn.Embedding(vocabulary, D)
        self.attention = Attention(score=Additive(d_q=D, d_k=D, d_w=D))
        self.cell = nn.GRUCell(2 * D, D)
        self.scores = nn.Linear(D, vocabulary)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        cells = self.eye(tensors["pixels"])
        return {"cells": cells, "initial_state": cells.mean(1)}

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        cells, state = tensors["cells"], tensors["state"]
        mask = torch.ones_like(cells[:, None, None, :, 0], dtype=torch.bool)
        seen, weights = self.attention(state[:, None, None], cells[:, None], cells[:, None], mask)
        state = self.cell(torch.cat([self.words(token), seen[:, 0, 0]], -1), state)
        return StepAnswer(self.scores(state), {"next_state": state}, {"look": weights[:, :, 0]})

    def forward(self, **tensors: Tensor) -> Answer:
        fixed, target = self.encode(**tensors), tensors["target_ids"]
        state, steps = fixed["initial_state"], []
        for token in torch.cat([torch.full_like(target[:, :1], self.begin), target[:, :-1]], 1).unbind(1):
            steps.append(self.step(token, cells=fixed["cells"], state=state))
            state = steps[-1].states["next_state"]
        maps = torch.stack([each.maps["look"] for each in steps], 2)
        return Answer({"scores": torch.stack([each.scores for each in steps], 1)}, {"look": maps})


class Asker(Network):
    """A picture and a question to a class: the words' mean looks at the cells."""

    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.eye, self.words = Eye(), nn.Embedding(vocabulary, D)
        self.attention = Attention(score=Additive(d_q=D, d_k=D, d_w=D))
        self.classify = nn.Linear(D, classes)

    def forward(self, **tensors: Tensor) -> Answer:
        cells, mask = self.eye(tensors["pixels"]), tensors["question_mask"].unsqueeze(-1)
        asked = (self.words(tensors["question_ids"]) * mask).sum(1) / mask.sum(1)
        every = torch.ones_like(cells[:, None, None, :, 0], dtype=torch.bool)
        seen, weights = self.attention(asked[:, None, None], cells[:, None], cells[:, None], every)
        return Answer({"logits": self.classify(seen[:, 0, 0] * asked)}, {"look": weights})


class Painter(Network):
    """A picture to the classes of its cells, each beside what the picture is about."""

    def __init__(self) -> None:
        super().__init__()
        self.eye, self.attention = Eye(), Attention(score=SelfAttentive(d_k=D, d_w=D))
        self.classify = nn.Linear(D, 2)

    def forward(self, **tensors: Tensor) -> Answer:
        cells = self.eye(tensors["pixels"])
        query = cells.new_zeros(cells.shape[0], 1, 1, 1)
        every = torch.ones_like(cells[:, None, None, :, 0], dtype=torch.bool)
        seen, weights = self.attention(query, cells[:, None], cells[:, None], every)
        return Answer({"logits": self.classify(cells + seen[:, 0])}, {"look": weights})


def trained(network: Network, card: Card, made: Dataset, hidden: str = "") -> TrainedModel:
    shown = tuple({k: v for k, v in each.instance.items() if k != hidden} for each in made.test[:2])
    return TrainedModel(network.eval(), card, shown, TrainingData(name="none", licence="CC0-1.0"), ())


def a_teller() -> tuple[TrainedModel, Dataset, Task]:
    made = captions.dataset(training=30, held_out=6)
    text = tokenizers.pieces(
        tokenizers.texts_of([each.instance["target"] for each in made.train]), vocabulary=80, output=True
    )
    begin, end = tokenizers.special_ids(text)
    target = forced_target(Tokenizer(text=text), 24)
    network = Teller(tokenizers.size(text), begin)
    written = Written(
        steps=output_steps(), tokenizer=target.tokenizer, begin=begin, end=end, max_new_tokens=24,
        states=[State(input="state", output="next_state", start="initial_state")],
    )  # fmt: skip
    card = describe(
        name="teller", title="Teller", summary="Tells what is seen.", inputs=[PICTURE, target], results=[written],
        maps={"look": map_of(network.attention, "cross", queries=written.steps, keys=CELLS, features=D)},
        taxonomy=Taxonomy(scoring="additive"), max_pixels=10_000,
    )  # fmt: skip
    return trained(network, card, made, "target"), made, Generate()


def an_asker() -> tuple[TrainedModel, Dataset, Task]:
    made = questions.dataset(training=60, held_out=6)
    text = tokenizers.words(tokenizers.texts_of([each.instance["question"] for each in made.train]), vocabulary=60)
    question = TextInput(
        name="question", summary="What is asked.", tokenizer=Tokenizer(text=text), max_tokens=30, prefix="question",
        dimension="question",
    )  # fmt: skip
    network = Asker(tokenizers.size(text), len(made.labels))
    card = describe(
        name="asker", title="Asker", summary="Answers questions.", inputs=[PICTURE, question],
        results=[Classes(labels=made.labels)],
        maps={"look": map_of(network.attention, "co", queries=one("question"), keys=CELLS, features=D)},
        taxonomy=Taxonomy(scoring="additive"), max_characters=200, max_pixels=10_000,
    )  # fmt: skip
    return trained(network, card, made), made, Classify()


def a_painter() -> tuple[TrainedModel, Dataset, Task]:
    made = masks.dataset(training=10, held_out=6, cell=PATCH)
    network = Painter()
    card = describe(
        name="painter", title="Painter", summary="Finds digits.", inputs=[PICTURE],
        results=[Classes(labels=made.labels, over=CELLS)],
        maps={"look": map_of(network.attention, "pool", queries=one("picture"), keys=CELLS, features=D)},
        taxonomy=Taxonomy(scoring="additive"), max_pixels=10_000,
    )  # fmt: skip
    return trained(network, card, made), made, Segment(grid=(GRID, GRID), size=(SIZE, SIZE))


MAKERS = {"teller": a_teller, "asker": an_asker, "painter": a_painter}


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[TrainedModel, Dataset, Task]]:
    torch.set_num_threads(1)
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
    loss, terms = task.loss(model.model, next(train.in_order()))
    loss.backward()
    assert terms >= 4 and all(each.grad is not None for each in model.model.parameters())
    found = {each.name: each for each in figures(task, model.model, model.card, test, dataset.train)}
    weight = found["weight on the right place, look"]
    assert weight.baseline is not None and 0 < weight.baseline < 0.6 and 0 < weight.value < 1
    assert "intersection over union" in found or name != "painter"


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_served_is_what_pytorch_answers(
    name: str, made: dict[str, tuple[TrainedModel, Dataset, Task]], client: limelight.Client
) -> None:
    model, dataset, _ = made[name]
    hidden = "target" if name == "teller" else ""
    instances = [{k: v for k, v in each.instance.items() if k != hidden} for each in dataset.test[:3]]
    for answer, expected in zip(ask(client, name, instances), pytorch(model, instances), strict=True):
        assert difference(answer, expected) == ""
        region = answer["look"].key.region(GRID + 1)  # the second cell of the second row, in pixels of the picture
        assert region == limelight.Region(PATCH, PATCH, 2 * PATCH, 2 * PATCH)
        if name == "painter":
            tagging = answer.prediction.results["class"]
            assert isinstance(tagging, limelight.Tagging) and len(tagging) == GRID**2
            assert tagging.label_set == CELLS.name
