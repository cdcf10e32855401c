"""Requests of the Open Inference Protocol, put together and read back by hand, as the protocol's text has it."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc
import numpy as np

from limelight_bundle.values import Array
from limelight_service.open_inference import open_inference_pb2 as pb

SERVICE = "/inference.GRPCInferenceService/"
# Types by NumPy's name, and the field of typed contents.
TYPES = {
    "bool": ("BOOL", "bool_contents"),
    "uint8": ("UINT8", "uint_contents"),
    "int32": ("INT32", "int_contents"),
    "int64": ("INT64", "int64_contents"),
    "float16": ("FP16", ""),
    "float32": ("FP32", "fp32_contents"),
    "float64": ("FP64", "fp64_contents"),
    "object": ("BYTES", "bytes_contents"),
}
Parameters = Mapping[str, bool | int | float | str]


def infer_request(
    model: str,
    inputs: Mapping[str, Array],
    *outputs: str | tuple[str, Parameters],
    typed: bool = False,
    parameters: Parameters | None = None,
    **fields: Any,
) -> pb.ModelInferRequest:
    """Make a request. outputs: names, or names with their parameters."""
    request = pb.ModelInferRequest(model_name=model, **fields)
    for name, array in inputs.items():
        datatype, field = TYPES[array.dtype.name]
        tensor = request.inputs.add(name=name, datatype=datatype, shape=array.shape)
        if typed:
            getattr(tensor.contents, field).extend(array.ravel().tolist())
        elif datatype == "BYTES":
            packed = (struct.pack("<I", len(each)) + each for each in array.ravel())
            request.raw_input_contents.append(b"".join(packed))
        else:
            request.raw_input_contents.append(array.tobytes())
    set_parameters(request.parameters, parameters or {})
    for each in outputs:
        name, own = (each, {}) if isinstance(each, str) else each
        set_parameters(request.outputs.add(name=name).parameters, own)
    return request


def set_parameters(entries: Any, values: Parameters) -> None:
    """Set parameters by the type of their values."""
    for name, value in values.items():
        kinds = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
        setattr(entries[name], kinds[type(value)], value)


def texts(*each: str) -> Array:
    """Make an input of texts [row, 1], as Triton's clients send it."""
    return strings([text.encode() for text in each]).reshape(-1, 1)


def strings(values: Sequence[bytes]) -> Array:
    """Make an array of BYTES."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def unary(channel: grpc.Channel, method: str, request: Any, response: Any, **options: Any) -> Any:
    """Call a method that answers once."""
    call = channel.unary_unary(
        SERVICE + method,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=response.FromString,
    )
    return call(request, timeout=60, **options)


def infer(channel: grpc.Channel, *arguments: Any, **options: Any) -> dict[str, Array]:
    """Ask for an answer, and read its outputs."""
    return outputs(unary(channel, "ModelInfer", infer_request(*arguments, **options), pb.ModelInferResponse))


def streamed(channel: grpc.Channel, *requests: pb.ModelInferRequest) -> Iterator[pb.ModelStreamInferResponse]:
    """Send requests on one stream."""
    call = channel.stream_stream(
        SERVICE + "ModelStreamInfer",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=pb.ModelStreamInferResponse.FromString,
    )
    responses: Iterator[pb.ModelStreamInferResponse] = call(iter(requests), timeout=60)
    return responses


def outputs(response: pb.ModelInferResponse) -> dict[str, Array]:
    """Read the outputs of an answer, raw or typed."""
    found = {}
    for place, each in enumerate(response.outputs):
        name, field = next((name, field) for name, (datatype, field) in TYPES.items() if datatype == each.datatype)
        if not response.raw_output_contents:
            values = list(getattr(each.contents, field))
            array = strings(values) if name == "object" else np.array(values, name)
        elif name == "object":
            array = strings(list(_unpacked(response.raw_output_contents[place])))
        else:
            array = np.frombuffer(response.raw_output_contents[place], name)
        found[each.name] = array.reshape(list(each.shape))
    return found


def _unpacked(data: bytes) -> Iterator[bytes]:
    while data:
        (length,) = struct.unpack_from("<I", data)
        yield data[4 : 4 + length]
        data = data[4 + length :]
