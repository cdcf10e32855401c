"""A model as the Open Inference Protocol describes it: metadata, and Triton's form of a configuration."""

import json
from collections.abc import Iterator, Sequence

from limelight.v1 import model_pb2
from limelight_service.codecs.oip.datatypes import BYTES, DataType, of_wire
from limelight_service.codecs.oip.outputs import ANY, LABELS, Output, OutputCatalogue
from limelight_service.frontend.schema import ModelSchema
from limelight_service.open_inference import open_inference_pb2 as pb

PLATFORM, BACKEND = "onnxruntime_onnx", "onnxruntime"
# Elements of a row for inputs that are sent as BYTES.
_ELEMENTS = {
    model_pb2.INPUT_KIND_TEXT: 1,
    model_pb2.INPUT_KIND_DOCUMENT: 1,
    model_pb2.INPUT_KIND_IMAGE: 1,
    model_pb2.INPUT_KIND_AUDIO: 1,
    model_pb2.INPUT_KIND_PAIR: 2,
}

Input = tuple[str, DataType, tuple[int, ...], bool]
"""Name, type, shape with the rows first, and whether it may be left out."""


def metadata(schema: ModelSchema, versions: Sequence[int], catalogue: OutputCatalogue) -> pb.ModelMetadataResponse:
    """Describe a model. versions: those that can answer."""
    response = pb.ModelMetadataResponse(name=schema.name, versions=map(str, versions), platform=PLATFORM)
    for name, kind, shape, _ in _inputs(schema.description):
        response.inputs.add(name=name, datatype=kind.name, shape=shape)
    for each in catalogue.usual:
        response.outputs.add(name=each.name, datatype=each.type.name, shape=each.shape)
    response.properties.update(_properties(schema, catalogue))
    return response


def configuration(schema: ModelSchema, most_rows: int, catalogue: OutputCatalogue) -> pb.ModelConfig:
    """Describe a model as Triton's configuration. most_rows: of one call."""
    config = pb.ModelConfig(name=schema.name, platform=PLATFORM, backend=BACKEND, max_batch_size=most_rows)
    for name, kind, shape, optional in _inputs(schema.description):
        config.input.add(name=name, data_type=kind.config, dims=shape[1:], optional=optional)
    for each in catalogue.usual:
        config.output.add(name=each.name, data_type=each.type.config, dims=each.shape[1:])
    for name, value in _properties(schema, catalogue).items():
        config.parameters[name].string_value = value
    config.dynamic_batching.SetInParent()
    config.model_transaction_policy.decoupled = schema.generates
    return config


def _inputs(description: model_pb2.ModelDescription) -> Iterator[Input]:
    """Give what a caller sends: values as BYTES, and where an input has no such form, its tensors."""
    for each in description.inputs:
        elements = _ELEMENTS.get(each.kind)
        if elements is not None:
            yield each.name, BYTES, (ANY, elements), each.optional
            continue
        for tensor in each.tensors:
            yield tensor.name, of_wire(tensor.data_type), _shape(tensor), each.optional


def _properties(schema: ModelSchema, catalogue: OutputCatalogue) -> dict[str, str]:
    """Give what the protocol has no field for: the maps and label sets that can be named as outputs among it."""
    description = schema.description
    maps = {
        each.name: {**_described(each), "queries": of.query_labels + LABELS, "keys": of.key_labels + LABELS}
        for each, of in zip(catalogue.maps, description.maps, strict=True)
    }
    tensors = {
        each.name: {
            tensor.name: {"datatype": of_wire(tensor.data_type).name, "shape": list(_shape(tensor))}
            for tensor in each.tensors
        }
        for each in description.inputs
        if each.kind in _ELEMENTS
    }
    task = model_pb2.Task.Name(description.task).removeprefix("TASK_").lower()
    return {
        "limelight_title": description.title,
        "limelight_task": task,
        "limelight_digest": schema.served.digest,
        "limelight_maps": json.dumps(maps),
        "limelight_labels": json.dumps({each.name: _described(each) for each in catalogue.label_sets}),
        "limelight_tensors": json.dumps(tensors),
    }


def _described(output: Output) -> dict[str, object]:
    return {"datatype": output.type.name, "shape": list(output.shape)}


def _shape(tensor: model_pb2.TensorDescription) -> tuple[int, ...]:
    return (ANY, *(axis.size or ANY for axis in tensor.dimensions))
