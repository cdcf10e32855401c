"""Calls of both clients: a method, its request, and the function that reads its response."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from limelight import requests
from limelight.attended import Attended, read_attended
from limelight.descriptions import Model, ModelStatus, read_model, read_status
from limelight.errors import Internal
from limelight.events import EventReader, GenerationEvent
from limelight.predictions import Prediction, read_prediction
from limelight.streams import StreamEvent, StreamReader
from limelight.v1 import admin_pb2, service_pb2, values_pb2
from limelight.values import Inputs

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A call to make."""

    method: str
    """Name of the RPC."""
    request: Any
    """Request message."""
    read: Callable[[Any], Answer]
    """Reads the response. Raises ValueError for an inconsistent message."""


def read(call: Call[Answer], response: Any) -> Answer:
    """Read the response of a call. Raises Internal for an inconsistent response."""
    try:
        return call.read(response)
    except ValueError as error:
        raise Internal(f"the server's answer is inconsistent: {error}") from error


def predict(model: str, inputs: requests.Instances, **options: Any) -> Call[list[Prediction]]:
    """Build a call for one prediction an instance."""
    requests.check_options("predict", options)
    request = requests.predict_request(model, inputs, **options)

    def answer(response: service_pb2.PredictResponse) -> list[Prediction]:
        _check_count(len(response.predictions), len(request.instances))
        return [read_prediction(*each) for each in zip(response.predictions, request.instances, strict=True)]

    return Call("Predict", request, answer)


def attend(model: str, inputs: requests.Instances, **options: Any) -> Call[list[Attended]]:
    """Build a call for one prediction with attention an instance."""
    requests.check_options("attend", options)
    request = requests.attend_request(service_pb2.AttendRequest, model, inputs, **options)

    def answer(response: service_pb2.AttendResponse) -> list[Attended]:
        _check_count(len(response.results), len(request.instances))
        return [read_attended(*each) for each in zip(response.results, request.instances, strict=True)]

    return Call("Attend", request, answer)


def attend_stream(model: str, inputs: requests.Instances, **options: Any) -> Call[StreamEvent]:
    """Build a call for the events of every instance, in order."""
    requests.check_options("attend_stream", options)
    request = requests.attend_request(service_pb2.AttendStreamRequest, model, inputs, **options)
    return Call("AttendStream", request, StreamReader(request.instances).read)


def generate(model: str, inputs: Inputs | values_pb2.Instance, **options: Any) -> Call[GenerationEvent]:
    """Build a call for the events of one sequence."""
    requests.check_options("generate", options)
    request = requests.generate_request(model, inputs, **options)
    return Call("Generate", request, EventReader(request.instance).read)


def models() -> Call[list[ModelStatus]]:
    """Build a call for all models in the repository."""

    def answer(response: service_pb2.ListModelsResponse) -> list[ModelStatus]:
        return [read_status(each) for each in response.models]

    return Call("ListModels", service_pb2.ListModelsRequest(), answer)


def model(name: str, version: int = 0) -> Call[Model]:
    """Build a call for the description of one model."""
    return Call("GetModel", service_pb2.GetModelRequest(model=requests.model_message(name, version)), read_model)


def load_model(name: str, version: int = 0) -> Call[ModelStatus]:
    """Build a call that loads a version of the repository's folder."""
    request = admin_pb2.LoadModelRequest(model=requests.model_message(name, version))
    return Call("LoadModel", request, lambda response: read_status(response.status))


def unload_model(name: str, version: int = 0) -> Call[None]:
    """Build a call that unloads a version."""
    request = admin_pb2.UnloadModelRequest(model=requests.model_message(name, version))
    return Call("UnloadModel", request, lambda _: None)


def _check_count(answers: int, instances: int) -> None:
    if answers != instances:
        raise ValueError(f"{answers} answers for {instances} instances")
