"""Descriptions of a server's models."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limelight.base.enums import name_of
from limelight.base.printing import printable
from limelight.labels import Grid
from limelight.records import SHORT, FrozenMapping, Record
from limelight.v1 import attention_pb2, model_pb2, service_pb2, values_pb2

_MOST_HEADS = 2**16
_SHOWN = 6  # inputs, results and maps that a representation names


@dataclass(frozen=True)
class ModelStatus(Record):
    """Status of a version of a model in the repository."""

    name: str
    version: int
    state: str
    """"loading", "ready" or "failed"."""
    reason: str
    """Reason of a failure to load."""
    default: bool
    """True for the version that answers calls without a version."""
    title: str
    task: str
    """"classification", "multi_label", "generation", "embedding", "tagging", "spans", "regression" or "detection"."""


@dataclass(frozen=True)
class Dimension(Record):
    """An axis of a tensor; `size` is 0 if it varies, `maximum` is 0 for no limit."""

    name: str
    size: int
    maximum: int


@dataclass(frozen=True)
class TensorInfo(Record):
    """A tensor of one instance, without batch axis."""

    name: str
    data_type: str
    dimensions: tuple[Dimension, ...]
    fill: float | None
    """Value that fills shorter rows (the words of a sentence); None if rows cannot differ in length."""
    minimum: int | None
    """Smallest allowed value; None for no limit."""
    maximum: int | None
    """Largest allowed value; None for no limit."""


@dataclass(frozen=True)
class InputInfo(Record):
    """An input of a model."""

    name: str
    kind: str
    """"text", "document", "pair", "image", "graph", "audio" or "tensor"."""
    optional: bool
    summary: str
    tensors: tuple[TensorInfo, ...]
    """Tensors that preprocessing makes of the input."""


@dataclass(frozen=True)
class OutputInfo(Record):
    """A raw output of a model."""

    name: str
    data_type: str
    dimensions: tuple[Dimension, ...]
    summary: str


@dataclass(frozen=True)
class HiddenInfo(Record):
    """Hidden states of one layer, which `limelight.Hidden` requests."""

    name: str
    stack: str
    layer: int
    """0 for the embeddings; the last is what the stack returns."""
    label_set: str
    size: int
    """Size of a vector."""


@dataclass(frozen=True, repr=False)
class ResultInfo(Record):
    """A typed result of a model. Fields that do not apply to its kind are empty."""

    name: str
    """Key in `Prediction.results`."""
    kind: str
    """"classes", "embedding", "token_vectors", "spans", "sequence", "regression" or "boxes"."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in order."""
    activation: str = ""
    """Function from scores to probabilities: "softmax", "sigmoid" or "identity"."""
    label_set: str = ""
    """Label set of tagged entries, of the tokens of spans, of generated tokens, or of the queries that find objects."""
    class_label_set: str = ""
    """Label set whose entries are the classes, of a model that points at its input."""
    target_input: str = ""
    """Sequences: name of the optional input that forces the output."""
    max_new_tokens: int = 0
    """Sequences: maximum number of generated tokens."""
    chat: bool = False
    """Sequences: whether the model takes conversations over HTTP (`/v1/chat/completions`)."""
    targets: tuple["Target", ...] = ()
    """Regression: the targets in order."""
    threshold: float = 0.0
    """Boxes: a box is returned if its probability is above this."""


@dataclass(frozen=True)
class Target(Record):
    """A number that a regression predicts; `unit` is empty for none."""

    name: str
    unit: str


@dataclass(frozen=True)
class MapInfo(Record):
    """An attention map of a model."""

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
    """Name of the label set of the head axis; empty if heads are only numbered."""
    feature_labels: str
    """Name of the label set of the feature axis; empty if there is none, or features are only numbered."""
    form: str
    """"dense" or "edges"."""
    features: int
    """Size of the feature axis; 0 for none."""
    quantities: tuple[str, ...]
    """Quantities available beside weights: "scores", "norms", "values"."""
    interventions: tuple[str, ...]
    """Supported interventions: "head_scales", "weights", "key_factor"."""
    summary: str
    no_interventions: str = ""
    """Why no interventions are supported, in a few words; empty where they are."""
    value_size: int = 0
    """Size of the vectors of the quantity "values"; 0 for none."""


@dataclass(frozen=True)
class LabelSetInfo(Record):
    """Labels along an axis."""

    name: str
    kind: str
    input: str
    """Input of the entries; empty for output steps and fixed sets."""
    tensor: str
    """Tensor of the input whose axis `dimension` counts the entries."""
    dimension: str
    grid: Grid | None
    names: tuple[str, ...]
    """For fixed sets: one name for each entry."""
    parent: str
    """Label set that contains the entries."""
    frames: tuple[int, float] | None
    """For frames of a recording: their number, and the seconds of each."""


@dataclass(frozen=True)
class Metric(Record):
    """A metric measured on held-out data, with the value of a trivial method."""

    name: str
    value: float
    split: str
    baseline: float | None
    baseline_name: str
    float32_value: float | None
    """Value before conversion from float32; None if not converted."""


@dataclass(frozen=True)
class Citation(Record):
    """The paper of a model."""

    authors: tuple[str, ...]
    title: str
    year: int
    venue: str


@dataclass(frozen=True)
class Source(Record):
    """The origin of an imported model.

    Attributes:
        classes: classes of the library that the weights were saved from.
        ignored_fields: fields of its configuration that change nothing at inference.
        repository, revision: repository of a hub that the files were downloaded from, and its commit.
    """

    classes: tuple[str, ...]
    licence: str
    ignored_fields: tuple[str, ...]
    repository: str
    revision: str


@dataclass(frozen=True)
class TrainingData(Record):
    """The training data of a model."""

    name: str
    licence: str
    training_examples: int
    held_out_examples: int
    summary: str


@dataclass(frozen=True)
class GraphInfo(Record):
    """A graph of the bundle: the requested provider, and the number of nodes that run on each provider."""

    name: str
    provider: str
    nodes: Mapping[str, int]


@dataclass(frozen=True, eq=False, repr=False)
class Model(Record):
    """Description and status of a model."""

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
    """Typed results, the main result first."""
    label_sets: tuple[LabelSetInfo, ...]
    max_characters: int
    """Maximum length of a text, in Unicode code points."""
    max_pixels: int
    """Maximum number of pixels of an image."""
    max_audio_seconds: float
    """Longest recording, in seconds; 0 for a model that takes none."""
    taxonomy: Mapping[str, tuple[str, ...]]
    """Row in the survey's table: "features", "levels", "representations", "scoring", "alignment"…"""
    citation: Citation
    training_data: TrainingData
    source: Source
    metrics: tuple[Metric, ...]
    precision: str
    """Precision of computation: "float32", "float16", "int8", or "unspecified"."""
    examples: tuple[values_pb2.Instance, ...]
    """Example instances; each can be sent as it is."""
    bundle_digest: str
    graphs: tuple[GraphInfo, ...]
    max_response_bytes: int
    """Largest answer that the server sends, in bytes."""
    hidden: tuple[HiddenInfo, ...] = ()
    """Hidden states, by stack, then layer."""

    def __repr__(self) -> str:
        parts: dict[str, Sequence[InputInfo | ResultInfo | MapInfo]] = {
            "inputs": self.inputs,
            "results": self.results,
            "maps": self.maps,
        }
        lists = [f"{what} {', '.join(_names(each))}" for what, each in parts.items() if each]
        return f"<Model {printable(self.name)} version {self.version}, {'; '.join([self.task, *lists])}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON types, with the number of its examples in place of the examples."""
        return {**super().to_dict(), "examples": len(self.examples)}

    @property
    def required_inputs(self) -> tuple[InputInfo, ...]:
        """Inputs that are not optional."""
        return tuple(each for each in self.inputs if not each.optional)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of the first result that has classes; empty for none."""
        return next((each.classes for each in self.results if each.classes), ())

    @property
    def target_input(self) -> str:
        """Name of the input that forces a generating model's output; empty for none."""
        return next((each.target_input for each in self.results if each.kind == "sequence"), "")

    @property
    def max_new_tokens(self) -> int:
        """Maximum number of tokens that a generating model generates; 0 for other models."""
        return next((each.max_new_tokens for each in self.results if each.kind == "sequence"), 0)


def _names(described: Sequence[InputInfo | ResultInfo | MapInfo]) -> Iterator[str]:
    """Yield the first names, and the number of the others."""
    yield from (SHORT.repr(each.name) for each in described[:_SHOWN])
    if len(described) > _SHOWN:
        yield f"{len(described) - _SHOWN} more"


def read_status(message: service_pb2.ModelStatus) -> ModelStatus:
    """Read a model's status from a response."""
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
    """Read a model's description from a response. Raises ValueError for a number of heads that is none."""
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
        max_audio_seconds=it.limits.max_audio_seconds,
        taxonomy=FrozenMapping(taxonomy),
        citation=Citation(tuple(citation.authors), citation.title, citation.year, citation.venue),
        training_data=TrainingData(
            data.name, data.licence, data.training_examples, data.held_out_examples, data.summary
        ),
        source=Source(
            tuple(it.source.classes),
            it.source.licence,
            tuple(it.source.ignored_fields),
            it.source.repository,
            it.source.revision,
        ),
        metrics=tuple(_metric(each) for each in it.metrics),
        precision=name_of(model_pb2.Precision, it.precision),
        examples=tuple(it.examples),
        bundle_digest=message.bundle_digest,
        graphs=tuple(_graph(each) for each in message.graphs),
        max_response_bytes=message.max_response_bytes,
        hidden=tuple(HiddenInfo(each.name, each.stack, each.layer, each.label_set, each.size) for each in it.hidden),
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
    if not 0 <= message.heads <= _MOST_HEADS:
        raise ValueError(f"map {message.name!r} has {message.heads} heads")
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
        no_interventions=message.no_interventions,
        value_size=message.value_size,
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
        frames=(message.frames.count, message.frames.seconds) if message.HasField("frames") else None,
    )


def _result(message: model_pb2.ResultDescription) -> ResultInfo:
    name, kind = message.name, message.WhichOneof("kind") or "unspecified"
    match kind:
        case "classes":
            it = message.classes
            activation = name_of(model_pb2.Activation, it.activation)
            return ResultInfo(
                name,
                kind,
                classes=tuple(it.labels),
                activation=activation,
                label_set=it.label_set,
                class_label_set=it.class_label_set,
            )
        case "spans":
            return ResultInfo(name, kind, label_set=message.spans.label_set)
        case "token_vectors":
            return ResultInfo(name, kind, label_set=message.token_vectors.label_set)
        case "sequence":
            made = message.sequence
            return ResultInfo(
                name,
                kind,
                label_set=made.label_set,
                target_input=made.target_input,
                max_new_tokens=made.max_new_tokens,
                chat=made.chat,
            )
        case "regression":
            targets = (Target(each.name, each.unit) for each in message.regression.targets)
            return ResultInfo(name, kind, targets=tuple(targets))
        case "boxes":
            found = message.boxes
            return ResultInfo(
                name, kind, classes=tuple(found.labels), label_set=found.label_set, threshold=found.threshold
            )
    return ResultInfo(name, kind)


def _metric(message: model_pb2.Metric) -> Metric:
    baseline = message.baseline if message.HasField("baseline") else None
    before = message.float32_value if message.HasField("float32_value") else None
    return Metric(message.name, message.value, message.split, baseline, message.baseline_name, before)


def _graph(message: service_pb2.GraphStatus) -> GraphInfo:
    nodes = {each.provider: each.nodes for each in message.nodes}
    return GraphInfo(message.name, message.provider, FrozenMapping(nodes))
