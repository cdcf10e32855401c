"""What a server says about its models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from limelight.enums import name_of
from limelight.labels import Grid
from limelight.records import Named, Record
from limelight.v1 import attention_pb2, model_pb2, service_pb2, values_pb2


@dataclass(frozen=True)
class ModelStatus(Record):
    """A version of a model in the repository."""

    name: str
    version: int
    state: str
    """"loading", "ready" or "failed"."""
    reason: str
    """Why it was refused."""
    default: bool
    """True where it is the version that a call without a version gets."""
    title: str
    task: str
    """"classification", "multi_label", "generation", "embedding", "tagging", "spans" or "regression"."""


@dataclass(frozen=True)
class Dimension(Record):
    """One axis of a tensor; `size` is 0 where it varies, `maximum` 0 where it has no limit."""

    name: str
    size: int
    maximum: int


@dataclass(frozen=True)
class TensorInfo(Record):
    """A tensor as one instance has it: no batch axis."""

    name: str
    data_type: str
    dimensions: tuple[Dimension, ...]
    fill: float | None
    """What stands past the end of a shorter row (the words of a sentence); None where rows cannot differ in length."""
    minimum: int | None
    """The smallest number that is taken; None where there is no limit."""
    maximum: int | None
    """The largest number that is taken."""


@dataclass(frozen=True)
class InputInfo(Record):
    """An input that a caller sends."""

    name: str
    kind: str
    """"text", "document", "pair", "image", "graph", "audio" or "tensor"."""
    optional: bool
    summary: str
    tensors: tuple[TensorInfo, ...]
    """What preprocessing turns it into."""


@dataclass(frozen=True)
class OutputInfo(Record):
    """A raw output."""

    name: str
    data_type: str
    dimensions: tuple[Dimension, ...]
    summary: str


@dataclass(frozen=True)
class ResultInfo(Record):
    """A typed result that the model gives. What does not belong to its kind is empty."""

    name: str
    """In `Prediction.results`."""
    kind: str
    """"classes", "embedding", "spans", "sequence" or "regression"."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in order."""
    activation: str = ""
    """From scores to probabilities: "softmax", "sigmoid" or "identity"."""
    label_set: str = ""
    """Tagging: the label set of the entries. Spans: the one that they index. Sequences: that of the tokens put out."""
    target_input: str = ""
    """Sequences: name of the optional input that forces the output."""
    max_new_tokens: int = 0
    """Sequences: at most so many tokens are put out."""
    targets: tuple["Target", ...] = ()
    """Regression: what the numbers are, in order."""


@dataclass(frozen=True)
class Target(Record):
    """A number that a regression puts out; `unit` is empty where it has none."""

    name: str
    unit: str


@dataclass(frozen=True)
class MapInfo(Record):
    """An attention map that the model has."""

    name: str
    stack: str
    layer: int | None
    kind: str
    normalised: bool
    signed: bool
    heads: int
    query: str
    """Name of the label set of the query axis."""
    key: str
    """Name of the label set of the key axis."""
    head_labels: str
    """Name of the label set of the head axis; empty where heads have only numbers."""
    feature_labels: str
    """Name of the label set of the feature axis; empty where there is none, or features have only numbers."""
    form: str
    """"dense" or "edges"."""
    features: int
    """Size of the feature axis; 0 where there is none."""
    quantities: tuple[str, ...]
    """What can be asked for beside weights: "scores", "norms"."""
    interventions: tuple[str, ...]
    """How it can be changed for an instance: "head_scales", "weights"."""
    summary: str


@dataclass(frozen=True)
class LabelSetInfo(Record):
    """What the entries along an axis are."""

    name: str
    kind: str
    input: str
    """The input that they come from; empty for output steps and fixed sets."""
    tensor: str
    """The tensor of that input, and `dimension` its axis, whose length counts them."""
    dimension: str
    grid: Grid | None
    names: tuple[str, ...]
    """For fixed sets: one name an entry."""
    parent: str
    """The label set that each entry belongs to one of."""


@dataclass(frozen=True)
class Metric(Record):
    """A figure measured on held-out data, beside what a trivial method reaches."""

    name: str
    value: float
    split: str
    baseline: float | None
    baseline_name: str
    float32_value: float | None
    """What the model reached before it was converted from float32; None where it was not."""


@dataclass(frozen=True)
class Citation(Record):
    """The paper that a model comes from."""

    authors: tuple[str, ...]
    title: str
    year: int
    venue: str


@dataclass(frozen=True)
class TrainingData(Record):
    """What the model learned from."""

    name: str
    licence: str
    training_examples: int
    held_out_examples: int
    summary: str


@dataclass(frozen=True)
class GraphInfo(Record):
    """A graph of the bundle, as the runtime runs it: the provider asked for, and how many nodes run on which."""

    name: str
    provider: str
    nodes: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Model(Record):
    """Everything about a model."""

    status: ModelStatus
    name: str
    version: int
    title: str
    summary: str
    task: str
    inputs: tuple[InputInfo, ...]
    outputs: tuple[OutputInfo, ...]
    maps: tuple[MapInfo, ...]
    results: tuple[ResultInfo, ...]
    """The typed results that it gives, the main one first."""
    label_sets: tuple[LabelSetInfo, ...]
    max_characters: int
    """Longest text that it takes, in Unicode code points."""
    max_pixels: int
    """Most pixels of an image."""
    taxonomy: Mapping[str, tuple[str, ...]]
    """Its row of the survey's table: "features", "levels", "representations", "scoring", "alignment"…"""
    citation: Citation
    training_data: TrainingData
    metrics: tuple[Metric, ...]
    precision: str
    """In which numbers it computes: "float32", "float16", "int8", or "unspecified"."""
    examples: tuple[values_pb2.Instance, ...]
    """A few instances that it answers; send one as it is."""
    bundle_digest: str
    graphs: tuple[GraphInfo, ...]
    max_response_bytes: int
    """Largest answer that the server sends."""

    @property
    def required_inputs(self) -> tuple[InputInfo, ...]:
        """The inputs that may not be left out."""
        return tuple(each for each in self.inputs if not each.optional)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of the first result that has some; empty for a model without."""
        return next((each.classes for each in self.results if each.kind == "classes"), ())

    @property
    def target_input(self) -> str:
        """Name of the input that forces a generating model's output; empty where there is none."""
        return next((each.target_input for each in self.results if each.kind == "sequence"), "")

    @property
    def max_new_tokens(self) -> int:
        """Most tokens that a generating model puts out; 0 for other models."""
        return next((each.max_new_tokens for each in self.results if each.kind == "sequence"), 0)


def read_status(message: service_pb2.ModelStatus) -> ModelStatus:
    """A model's status from an answer."""
    return ModelStatus(
        name=message.model.name,
        version=message.model.version,
        state=name_of(service_pb2.ModelState, message.state),
        reason=message.reason,
        default=message.is_default,
        title=message.title,
        task=name_of(model_pb2.Task, message.task),
    )


def read_model(message: service_pb2.GetModelResponse) -> Model:
    """A model from an answer."""
    it = message.description
    taxonomy = {field.name: tuple(getattr(it.taxonomy, field.name)) for field in it.taxonomy.DESCRIPTOR.fields}
    citation, data = it.citation, it.training_data
    return Model(
        status=read_status(message.status),
        name=it.name or message.status.model.name,
        version=it.version or message.status.model.version,
        title=it.title,
        summary=it.summary,
        task=name_of(model_pb2.Task, it.task),
        inputs=tuple(_input(each) for each in it.inputs),
        outputs=tuple(_output(each) for each in it.outputs),
        maps=tuple(_map(each) for each in it.maps),
        results=tuple(_result(each) for each in it.results),
        label_sets=tuple(_label_set(each) for each in it.label_sets),
        max_characters=it.limits.max_characters,
        max_pixels=it.limits.max_pixels,
        taxonomy=Named(taxonomy),
        citation=Citation(tuple(citation.authors), citation.title, citation.year, citation.venue),
        training_data=TrainingData(
            data.name, data.licence, data.training_examples, data.held_out_examples, data.summary
        ),
        metrics=tuple(_metric(each) for each in it.metrics),
        precision=name_of(model_pb2.Precision, it.precision),
        examples=tuple(it.examples),
        bundle_digest=message.bundle_digest,
        graphs=tuple(_graph(each) for each in message.graphs),
        max_response_bytes=message.max_response_bytes,
    )


def _input(message: model_pb2.InputDescription) -> InputInfo:
    kind = name_of(model_pb2.InputKind, message.kind)
    return InputInfo(
        message.name, kind, message.optional, message.summary, tuple(_tensor(each) for each in message.tensors)
    )


def _tensor(message: model_pb2.TensorDescription) -> TensorInfo:
    return TensorInfo(
        name=message.name,
        data_type=name_of(values_pb2.DataType, message.data_type),
        dimensions=_dimensions(message.dimensions),
        fill=message.fill if message.HasField("fill") else None,
        minimum=message.minimum if message.HasField("minimum") else None,
        maximum=message.maximum if message.HasField("maximum") else None,
    )


def _output(message: model_pb2.OutputDescription) -> OutputInfo:
    data_type = name_of(values_pb2.DataType, message.data_type)
    return OutputInfo(message.name, data_type, _dimensions(message.dimensions), message.summary)


def _dimensions(messages: Iterable[model_pb2.Dimension]) -> tuple[Dimension, ...]:
    return tuple(Dimension(each.name, each.size, each.maximum) for each in messages)


def _map(message: model_pb2.MapDescription) -> MapInfo:
    return MapInfo(
        name=message.name,
        stack=message.stack,
        layer=message.layer if message.HasField("layer") else None,
        kind=name_of(attention_pb2.MapKind, message.kind),
        normalised=message.normalised,
        signed=message.signed,
        heads=message.heads,
        query=message.query_labels,
        key=message.key_labels,
        head_labels=message.head_labels,
        feature_labels=message.feature_labels,
        form=name_of(model_pb2.MapForm, message.form),
        features=message.features,
        quantities=tuple(name_of(attention_pb2.Quantity, each) for each in message.quantities),
        interventions=tuple(name_of(values_pb2.InterventionKind, each) for each in message.interventions),
        summary=message.summary,
    )


def _label_set(message: model_pb2.LabelSetDescription) -> LabelSetInfo:
    grid = message.grid
    return LabelSetInfo(
        name=message.name,
        kind=name_of(attention_pb2.LabelKind, message.kind),
        input=message.input,
        tensor=message.tensor,
        dimension=message.dimension,
        grid=Grid(grid.rows, grid.columns, tuple(grid.leading)) if message.HasField("grid") else None,
        names=tuple(message.names),
        parent=message.parent,
    )


def _result(message: model_pb2.ResultDescription) -> ResultInfo:
    name, kind = message.name, message.WhichOneof("kind") or "unspecified"
    match kind:
        case "classes":
            it = message.classes
            activation = name_of(model_pb2.Activation, it.activation)
            return ResultInfo(name, kind, classes=tuple(it.labels), activation=activation, label_set=it.label_set)
        case "spans":
            return ResultInfo(name, kind, label_set=message.spans.label_set)
        case "sequence":
            made = message.sequence
            return ResultInfo(
                name,
                kind,
                label_set=made.label_set,
                target_input=made.target_input,
                max_new_tokens=made.max_new_tokens,
            )
        case "regression":
            targets = (Target(each.name, each.unit) for each in message.regression.targets)
            return ResultInfo(name, kind, targets=tuple(targets))
    return ResultInfo(name, kind)


def _metric(message: model_pb2.Metric) -> Metric:
    baseline = message.baseline if message.HasField("baseline") else None
    before = message.float32_value if message.HasField("float32_value") else None
    return Metric(message.name, message.value, message.split, baseline, message.baseline_name, before)


def _graph(message: service_pb2.GraphStatus) -> GraphInfo:
    nodes = {each.provider: each.nodes for each in message.nodes}
    return GraphInfo(message.name, message.provider, Named(nodes))
