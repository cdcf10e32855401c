"""What a zoo model says of itself; export, bundle and docs come from it, and no model has export code of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bundle.v1 import bundle_pb2
from bundle.values import Instance
from limelight.v1 import model_pb2
from models.network import Network


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
class TrainedModel:
    """A model ready to be exported.

    model: in evaluation mode. examples: a few instances that were held out.
    """

    model: Network
    card: Card
    examples: tuple[Instance, ...]
    training_data: model_pb2.TrainingData
    metrics: tuple[model_pb2.Metric, ...]
