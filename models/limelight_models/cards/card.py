"""The card of a model: export, bundle and docs come from it, and no model has export code of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from limelight.v1 import model_pb2
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.rows import BoundTensor, Row, bound_tensors, collate
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array, Instance
from limelight_models.cards.by_example import ByExample
from limelight_models.cards.results import Written

if TYPE_CHECKING:
    from limelight_models.network import Network


@dataclass(frozen=True, kw_only=True)
class Card:
    """A model's description, and how its tensors are made and read. `limelight_models.cards.describe` makes it.

    description: complete but for version, training data, metrics and examples, which come from training.
    preprocessing: what turns each input into its tensors; the files it names are in `files` (name -> text).
    map_axes: for each map of the description, the axes of the tensor that the model returns, batch or edge first.
    edges: for each map whose tensor has an edge axis, the names in `Answer.edges` of the query and of the key of an
    edge.
    generation: for models that generate; graph names are `encoder` and `step`.
    tensors: how each tensor is put into a batch. noise: inputs that are drawn at random. written: as `generation`, for
    PyTorch. single_rows: as `Bundle.single_rows`. derived_maps: names of those that are made of other maps.
    """

    description: model_pb2.ModelDescription
    preprocessing: tuple[bundle_pb2.Preprocessing, ...] = ()
    map_axes: Mapping[str, tuple[bundle_pb2.Axis, ...]] = field(default_factory=dict)
    edges: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    tensors: tuple[bundle_pb2.TensorBinding, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    generation: bundle_pb2.Generation | None = None
    noise: tuple[bundle_pb2.NoiseInput, ...] = ()
    derived_maps: tuple[str, ...] = ()
    written: Written | None = None
    single_rows: bool = False

    def bundle(self) -> bundle_pb2.Bundle:
        """The parts of a bundle that this card states."""
        return bundle_pb2.Bundle(
            description=self.description,
            tensors=self.tensors,
            preprocessing=self.preprocessing,
            generation=self.generation,
            noise=self.noise,
            single_rows=self.single_rows,
        )

    def preprocessor(self) -> Preprocessor:
        """The preprocessing that a bundle of this card will declare."""
        return self._preprocessor

    @cached_property
    def _preprocessor(self) -> Preprocessor:
        """Made once: a large tokenizer takes half a second."""
        return Preprocessor.from_parts(self.bundle(), self.files)

    def bound(self) -> dict[str, BoundTensor]:
        """Every tensor of the inputs with how it is put into a batch, by name."""
        return bound_tensors(self.description.inputs, self.tensors)

    def collate(self, rows: Sequence[Row]) -> dict[str, Array]:
        """Rows as a batch; without noise."""
        return collate(rows, self.bound().values())

    def noise_shapes(self, rows: Sequence[Row]) -> dict[str, tuple[int, ...]]:
        """The shape of each noise tensor for a batch of these rows."""
        return {
            each.tensor.name: (
                len(rows),
                *(axis.size or max(row.sizes[axis.name] for row in rows) for axis in each.tensor.dimensions),
            )
            for each in self.noise
        }


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure measured on held-out data, and what a trivial method (`baseline_name`) reaches, where known.

    float32: what it was before the model was converted; None where it was not. by_example: what each held-out example
    adds to it; None where it is no figure of examples, or not kept. No bundle has it.
    """

    name: str
    value: float
    split: str = "held-out"
    baseline: float | None = None
    baseline_name: str = ""
    float32: float | None = None
    by_example: ByExample | None = field(default=None, compare=False, repr=False)

    @classmethod
    def over(cls, by_example: ByExample, *, name: str, **more: Any) -> "Metric":
        """A figure of examples, and what each of them adds to it."""
        return cls(name=name, value=by_example.value, by_example=by_example, **more)

    def describe(self) -> model_pb2.Metric:
        """As a description has it."""
        return model_pb2.Metric(
            name=self.name,
            value=self.value,
            split=self.split,
            baseline=self.baseline,
            baseline_name=self.baseline_name,
            float32_value=self.float32,
        )


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Training data of a model."""

    name: str = ""
    licence: str = ""
    training_examples: int = 0
    held_out_examples: int = 0
    summary: str = ""

    def describe(self) -> model_pb2.TrainingData:
        """As a description has it."""
        return model_pb2.TrainingData(
            name=self.name,
            licence=self.licence,
            training_examples=self.training_examples,
            held_out_examples=self.held_out_examples,
            summary=self.summary,
        )


@dataclass(frozen=True)
class TrainedModel:
    """A model ready to be exported.

    model: in evaluation mode. examples: a few instances that were held out. judge: measures the figures of another
    network of the same card on the same held-out data; None where the data are not at hand. held_out: gives inputs like
    those that a server will get, over which attention is observed; empty where there are none.
    """

    model: "Network"
    card: Card
    examples: tuple[Instance, ...]
    training_data: TrainingData
    metrics: tuple[Metric, ...]
    judge: "Callable[[Network], Sequence[Metric]] | None" = None
    held_out: "Callable[[], Sequence[Instance]]" = tuple
