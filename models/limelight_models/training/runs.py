"""The run folder: what training leaves, and what export reads.

config.json           the model, its sizes, settings, classes, what the data were, library versions
weights.safetensors   the best weights
*.json                the tokenizer files that the card names
examples.json         a few held-out instances
metrics.json          held-out figures and what each example adds to them, the history of the losses
resume.safetensors    the state to go on from
"""

import base64
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from limelight.v1 import values_pb2
from limelight_bundle.errors import LimelightError
from limelight_bundle.values import Audio, Graph, Image, Instance, Pair, Sentences, TensorValue, Text, Value
from limelight_bundle.wire import value_from_wire, value_to_wire
from limelight_models.cards.card import Card, Metric, TrainedModel, TrainingData
from limelight_models.index import recipe
from limelight_models.network import Network
from limelight_models.recipes.recipe import Blueprint, Recipe
from limelight_models.recipes.settings import Settings
from limelight_models.training.checkpoint import read_weights, write_whole
from limelight_models.training.trainer import WEIGHTS

CONFIG, METRICS, EXAMPLES = "config.json", "metrics.json", "examples.json"
BY_EXAMPLE = "by_example"  # in METRICS: of figures, what each held-out example adds to them
_LIBRARIES = ("torch", "tokenizers", "safetensors", "numpy")


class RunError(LimelightError):
    """A run folder that cannot be read, or is of another run."""


@dataclass(frozen=True)
class Run:
    """The config of a run folder.

    model, mechanism, attention: what was trained; name: what it is called in a repository.
    """

    model: str
    mechanism: str
    name: str
    blueprint: Blueprint[Any]
    settings: Settings
    data: Mapping[str, Any]
    attention: str = ""

    @property
    def recipe(self) -> Recipe[Any]:
        """The model's."""
        return recipe(self.model, self.mechanism, self.attention)

    def build(self) -> Network:
        """Make the network, untrained."""
        return self.recipe.build(self.blueprint)

    def card(self, network: Network) -> Card:
        """Describe the network, under the name that it has in a repository, and as what its data made of it."""
        card = self.recipe.card(network, self.blueprint)
        description = card.description
        description.name = self.name
        description.summary = " ".join(filter(None, (self.data.get("does"), description.summary)))
        for each in description.inputs:
            each.summary = self.data.get("inputs", {}).get(each.name, each.summary)
        return card


def write_run(folder: Path, run: Run) -> None:
    """Begin a run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in run.blueprint.files.items():
        write_whole(folder / name, text.encode())
    content = {
        "format": 1,
        "model": run.model,
        "mechanism": run.mechanism,
        **({"attention": run.attention} if run.attention else {}),
        "name": run.name,
        "config": asdict(run.blueprint.config),
        "labels": run.blueprint.labels,
        "files": list(run.blueprint.files),
        "settings": asdict(run.settings),
        "data": dict(run.data),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
    }
    write_json(folder / CONFIG, content)


def read_run(folder: Path) -> Run:
    """Read the config of a run folder. Raises: RunError where it is missing or broken."""
    content = read_json(folder / CONFIG)
    try:
        files = {name: (folder / name).read_text(encoding="utf-8") for name in content["files"]}
        model, mechanism = content["model"], content["mechanism"]
        attention = content.get("attention", "")  # older runs have none of another
        config = recipe(model, mechanism, attention).read_config(content["config"])
        blueprint = Blueprint(config, tuple(content["labels"]), files)
        settings = Settings(**content["settings"])
        return Run(model, mechanism, content["name"], blueprint, settings, content["data"], attention)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{folder / CONFIG}: is no config of a training run ({error})") from error


def load_run(folder: Path) -> TrainedModel:
    """Load a trained model with everything that its bundle says of it.

    Raises: RunError where a file is missing or broken; DataError where the weights are not this model's.
    """
    run = read_run(folder)
    model = run.build()
    read_weights(folder / WEIGHTS, model)
    model.eval()
    metrics = read_json(folder / METRICS)["metrics"]
    names = ("name", "licence", "training_examples", "held_out_examples", "summary")
    return TrainedModel(
        model=model,
        card=run.card(model),
        examples=tuple(instance_from_json(each) for each in read_json(folder / EXAMPLES)),
        training_data=TrainingData(**{name: run.data[name] for name in names}),
        metrics=tuple(Metric(**each) for each in metrics),
    )


def write_results(
    folder: Path, metrics: Sequence[Metric], examples: Sequence[Instance], more: Mapping[str, Any]
) -> None:
    """Write what was measured, and the instances shown with the model."""
    figures = [
        {k: v for k, v in asdict(replace(metric, by_example=None)).items() if v not in (None, "")} for metric in metrics
    ]
    by_example = {each.name: each.by_example.packed() for each in metrics if each.by_example is not None}
    write_json(folder / EXAMPLES, [instance_to_json(instance) for instance in examples])
    write_json(folder / METRICS, {"metrics": figures, BY_EXAMPLE: by_example, **more})


def instance_to_json(instance: Instance) -> dict[str, Any]:
    """An instance as JSON: texts as they are, files as base64, graphs and tensors as the protocol has them."""
    return {name: _value_to_json(value) for name, value in instance.items()}


def _value_to_json(value: Value) -> dict[str, Any]:
    match value:
        case Text(text):
            return {"text": text}
        case Sentences(texts):
            return {"sentences": list(texts)}
        case Pair(first, second):
            return {"pair": [first, second]}
        case Image(data):
            return {"image": base64.b64encode(data).decode()}
        case Audio(bytes() as wav):
            return {"wav": base64.b64encode(wav).decode()}
        case Graph():
            return {"graph": json_format.MessageToDict(value_to_wire(value).graph)}
        case TensorValue():
            return {"tensor": json_format.MessageToDict(value_to_wire(value).tensor)}
    raise TypeError(f"{type(value).__name__} is not kept in a run folder")


def instance_from_json(content: Mapping[str, Any]) -> Instance:
    """Undo `instance_to_json`."""
    return {name: _value_from_json(value) for name, value in content.items()}


def _value_from_json(content: Mapping[str, Any]) -> Value:
    if "text" in content:
        return Text(content["text"])
    if "sentences" in content:
        return Sentences(tuple(content["sentences"]))
    if "pair" in content:
        return Pair(*content["pair"])
    if "graph" in content:
        return value_from_wire(values_pb2.Value(graph=json_format.ParseDict(content["graph"], values_pb2.Graph())), ())
    if "tensor" in content:
        sent = json_format.ParseDict(content["tensor"], values_pb2.Tensor())
        return value_from_wire(values_pb2.Value(tensor=sent), ())
    if "wav" in content:
        return Audio(base64.b64decode(content["wav"]))
    return Image(base64.b64decode(content["image"]))


def write_json(path: Path, content: object) -> None:
    """Write readable JSON, whole."""
    write_whole(path, (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON. Raises: RunError where the file is missing or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({error})") from error
