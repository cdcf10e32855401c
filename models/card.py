"""What a zoo model says of itself; export, bundle and docs come from it, and no model has export code of its own."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from bundle.values import Instance
from limelight.v1 import bundle_pb2, model_pb2


@dataclass(frozen=True, kw_only=True)
class Card:
    """A model's description, and how its tensors are made and read.

    description: complete but for version, training data, metrics and examples, which come from training.
    preprocessing: what turns each input into its tensors; the files it names are in `files` (name -> text).
    map_axes: for each map of the description, the axes of the tensor that the model returns, batch first.
    generation: for models that generate; graph names are `encoder` and `step`.
    noise: inputs that are drawn at random.
    """

    description: model_pb2.ModelDescription
    preprocessing: tuple[bundle_pb2.Preprocessing, ...] = ()
    map_axes: Mapping[str, tuple[bundle_pb2.Axis, ...]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    generation: bundle_pb2.Generation | None = None
    noise: tuple[bundle_pb2.NoiseInput, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What a model returns: raw outputs and maps, by the names of its card, each with the batch as first axis."""

    outputs: Mapping[str, Tensor]
    maps: Mapping[str, Tensor]


@dataclass(frozen=True)
class StepAnswer:
    """What one step of a generating model returns.

    scores: [batch, token], before softmax. states: by the `output` names of the card's generation.
    maps: without query axis.
    """

    scores: Tensor
    states: Mapping[str, Tensor]
    maps: Mapping[str, Tensor]


class TaskModel(nn.Module, ABC):
    """Feature model -> query model -> attention model -> output model (BF Fig. 1)."""

    @abstractmethod
    def forward(self, **tensors: Tensor) -> Answer:
        """Answer a batch; arguments are the tensors (and masks) of the card's inputs, by name."""


class GeneratingModel(TaskModel):
    """A model that puts out a sequence: it encodes its input once, then steps.

    `forward` takes the target tensor as well, and answers with teacher forcing: scores [batch, step, token] in
    `outputs`, and maps with their query axis.
    """

    @abstractmethod
    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """What the steps read, and the initial states, by name."""

    @abstractmethod
    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """One step: `token` [batch] int64, and by name the states, what `encode` gave, and input masks."""


@dataclass(frozen=True)
class TrainedModel:
    """A model ready to be exported.

    model: in evaluation mode. examples: a few instances that were held out.
    """

    model: TaskModel
    card: Card
    examples: tuple[Instance, ...]
    training_data: model_pb2.TrainingData
    metrics: tuple[model_pb2.Metric, ...]
