"""What a server says about its models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from limelight.enums import name_of
from limelight.v1 import attention_pb2, model_pb2, service_pb2, values_pb2


@dataclass(frozen=True)
class ModelStatus:
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
class Dimension:
    """One axis of a tensor; `size` is 0 where it varies, `maximum` 0 where it has no limit."""

    name: str
    size: int
    maximum: int


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as one instance has it: no batch axis."""

    name: str
    data_type: str
    dimensions: tuple[Dimension, ...]


@dataclass(frozen=True)
class InputInfo:
    """An input that a caller sends."""

    name: str
    kind: str
    """"text", "document", "pair", "image", "graph", "audio" or "tensor"."""
    optional: bool
    summary: str
    tensors: tuple[TensorInfo, ...]
    """What preprocessing turns it into."""


@dataclass(frozen=True)
class OutputInfo:
    """A raw output."""

    name: str
    data_type: str
    dimensions: tuple[Dimension, ...]
    summary: str


@dataclass(frozen=True)
class MapInfo:
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
    form: str
    """"dense" or "edges"."""
    features: int
    summary: str


@dataclass(frozen=True)
class LabelSetInfo:
    """What the entries along an axis are."""

    name: str
    kind: str
    input: str
    names: tuple[str, ...]
    parent: str


@dataclass(frozen=True)
class Metric:
    """A figure measured on held-out data, beside what a trivial method reaches."""

    name: str
    value: float
    split: str
    baseline: float | None
    baseline_name: str


@dataclass(frozen=True)
class Citation:
    """The paper that a model comes from."""

    authors: tuple[str, ...]
    title: str
    year: int
    venue: str


@dataclass(frozen=True)
class TrainingData:
    """What the model learned from."""

    name: str
    licence: str
    training_examples: int
    held_out_examples: int
    summary: str


@dataclass(frozen=True)
class GraphInfo:
    """A graph of the bundle, as the runtime runs it: the provider asked for, and how many nodes run on which."""

    name: str
    provider: str
    nodes: Mapping[str, int]


@dataclass(frozen=True)
class Model:
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
    label_sets: tuple[LabelSetInfo, ...]
    classes: tuple[str, ...]
    """Names of the classes, for a model that has some."""
    target_input: str
    """Name of the input that forces a generating model's output; empty where there is none."""
    max_new_tokens: int
    """Most tokens that a generating model puts out; 0 for other models."""
    max_characters: int
    max_pixels: int
    taxonomy: Mapping[str, tuple[str, ...]]
    """Its row of the survey's table: "features", "levels", "representations", "scoring", "alignment"…"""
    citation: Citation
    training_data: TrainingData
    metrics: tuple[Metric, ...]
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
        label_sets=tuple(_label_set(each) for each in it.label_sets),
        classes=tuple(it.result.classes.labels),
        target_input=it.result.sequence.target_input,
        max_new_tokens=it.result.sequence.max_new_tokens,
        max_characters=it.limits.max_characters,
        max_pixels=it.limits.max_pixels,
        taxonomy=MappingProxyType(taxonomy),
        citation=Citation(tuple(citation.authors), citation.title, citation.year, citation.venue),
        training_data=TrainingData(
            data.name, data.licence, data.training_examples, data.held_out_examples, data.summary
        ),
        metrics=tuple(_metric(each) for each in it.metrics),
        examples=tuple(it.examples),
        bundle_digest=message.bundle_digest,
        graphs=tuple(_graph(each) for each in message.graphs),
        max_response_bytes=message.max_response_bytes,
    )


def _input(message: model_pb2.InputDescription) -> InputInfo:
    kind = name_of(model_pb2.InputKind, message.kind)
    tensors = (
        TensorInfo(each.name, name_of(values_pb2.DataType, each.data_type), _dimensions(each.dimensions))
        for each in message.tensors
    )
    return InputInfo(message.name, kind, message.optional, message.summary, tuple(tensors))


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
        form=name_of(model_pb2.MapForm, message.form),
        features=message.features,
        summary=message.summary,
    )


def _label_set(message: model_pb2.LabelSetDescription) -> LabelSetInfo:
    kind = name_of(attention_pb2.LabelKind, message.kind)
    return LabelSetInfo(message.name, kind, message.input, tuple(message.names), message.parent)


def _metric(message: model_pb2.Metric) -> Metric:
    baseline = message.baseline if message.HasField("baseline") else None
    return Metric(message.name, message.value, message.split, baseline, message.baseline_name)


def _graph(message: service_pb2.GraphStatus) -> GraphInfo:
    nodes = {each.provider: each.nodes for each in message.nodes}
    return GraphInfo(message.name, message.provider, MappingProxyType(nodes))
