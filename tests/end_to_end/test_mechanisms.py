"""Every attention mechanism, each in its small task model, from PyTorch to a socket (`tests.served_mechanisms`).

All of them are served by one server from one repository. Weights are random: what is served has to be what PyTorch
answers, not to be right.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch

import limelight
from limelight_bundle.values import Image, Instance, Pair, TensorValue, Text, Value
from limelight_export.conversion.float16 import convert_to_float16
from limelight_export.pipeline import export_model
from limelight_export.verification.samples import make_samples
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.training.session import slug
from tests.attention.checks import check_takes_part
from tests.end_to_end.test_zoo import difference
from tests.kit.serving import serving
from tests.kit.shared_trace import MAX_MODELS_PER_TRACE, build_graphs_in_shared_traces
from tests.kit.small_texts import INSTANCES, texts
from tests.served_mechanisms import SERVED

pytestmark = pytest.mark.slow
SHARES = range(0, len(SERVED), MAX_MODELS_PER_TRACE)
BY_NAME = {each.name: each for each in MECHANISMS}


def trained(name: str) -> TrainedModel:
    """A mechanism's model with weights of its own, larger than fresh ones, so that differences show."""
    torch.manual_seed(list(SERVED).index(name))
    model, card = SERVED[name].make(name, texts())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    card.description.name = slug(name)
    examples = INSTANCES[SERVED[name].task]
    return TrainedModel(model, card, examples[:1], TrainingData(), ())


@pytest.fixture(scope="module")
def models() -> dict[str, TrainedModel]:
    return {name: trained(name) for name in SERVED}


@dataclass(frozen=True)
class Exports:
    """A repository that fills, a share of the mechanisms at a time."""

    repository: Path
    models: dict[str, TrainedModel]
    done: set[int] = field(default_factory=set)

    def fill(self, share: int) -> list[str]:
        """Export a share as ever, but for tracing: models with the same inputs are traced together and cut apart.

        Returns: the names of its mechanisms.
        """
        names = sorted(SERVED, key=lambda name: SERVED[name].task)[SHARES[share] :][:MAX_MODELS_PER_TRACE]
        if share in self.done:
            return names
        graphs = build_graphs_in_shared_traces(
            {name: (self.models[name].model, self.models[name].card) for name in names}
        )
        for name in names:
            export_model(self.models[name], self.repository, graphs=[graphs[name]])
            open_in_float16(graphs[name].model)
        self.done.add(share)
        return names


@pytest.fixture(scope="module")
def exports(models: dict[str, TrainedModel], tmp_path_factory: pytest.TempPathFactory) -> Exports:
    return Exports(tmp_path_factory.mktemp("mechanisms"), models)


def open_in_float16(model: onnx.ModelProto) -> None:
    """Convert a graph, and have the runtime take it: how near its answers are is each export's to measure."""
    halved = convert_to_float16(model)
    assert onnx.TensorProto.FLOAT16 in {each.data_type for each in halved.graph.initializer}
    onnxruntime.InferenceSession(halved.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("share", range(len(SHARES)))
def test_a_share_of_the_mechanisms_is_exported(share: int, exports: Exports) -> None:
    """Each graph equals PyTorch at the sizes and under the padding of `verify`.

    Each share has a time limit of its own: on a busy machine all of them together take minutes.
    """
    for name in exports.fill(share):
        check_takes_part(BY_NAME[name], exports.models[name].model)


@pytest.fixture(scope="module")
def client(exports: Exports) -> Iterator[limelight.Client]:
    for share in range(len(SHARES)):
        exports.fill(share)
    with (
        serving(exports.repository, lanes=2) as running,
        limelight.Client(running.server.address, timeout=60) as client,
    ):
        yield client


def test_one_repository_serves_every_mechanism(client: limelight.Client) -> None:
    assert {each.name for each in client.models()} == {slug(name) for name in SERVED}


@pytest.mark.parametrize("name", SERVED)
def test_what_is_served_is_what_pytorch_answers_alone_and_in_a_batch(
    name: str, client: limelight.Client, models: dict[str, TrainedModel]
) -> None:
    model = models[name]
    instances = INSTANCES[SERVED[name].task]
    asked = replace(model, examples=instances)
    expected = make_samples(asked)
    sent = [plain(each) for each in instances]
    together = client.attend(slug(name), sent)
    alone = [client.attend(slug(name), [each])[0] for each in sent]
    stated = {each.name for each in model.card.description.maps}
    for answers in (together, alone):
        for answer, sample in zip(answers, expected, strict=True):
            assert set(sample.maps) == stated
            assert difference(answer, sample) == ""
    check_takes_part(BY_NAME[name], model.model)


def test_heads_that_differ_have_names(client: limelight.Client) -> None:
    answer = client.attend(slug("multi-head with a syntactic head"), {"text": "the cat sat"}, heads=[0, 2])
    looks = answer["attention"]
    assert looks.head_labels is not None
    assert [looks.head_labels.labels[head] for head in looks.heads] == ["syntax", "free 2"]


def plain(instance: Instance) -> dict[str, object]:
    """An instance as a caller writes it."""
    return {name: sent(value) for name, value in instance.items()}


def sent(value: Value) -> object:
    """A value as a caller writes it."""
    match value:
        case Pair(first, second):
            return first, second
        case Image(data):
            return data
        case TensorValue(array):
            return array
        case Text(text):
            return text
    raise TypeError(f"no small task model reads a {type(value).__name__}")
