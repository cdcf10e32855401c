"""Calls of both clients: a method, its request, and the function that reads its response."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from limelight import requests
from limelight.attended import Attended, read_attended
from limelight.base.errors import Internal
from limelight.base.values import Inputs
from limelight.descriptions import Model, ModelStatus, read_model, read_status
from limelight.events import EventReader, GenerationEvent
from limelight.explanations import Explanation, read_explanation
from limelight.labels import check_sizes
from limelight.predictions import Prediction, read_prediction
from limelight.streams import StreamEvent, StreamReader
from limelight.v1 import admin_pb2, attention_pb2, service_pb2, values_pb2

Answer = TypeVar("Answer")

_LONGEST = 500  # characters of what a server said, in an error


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A call to make."""

    method: str
    """Name of the RPC."""
    request: Any
    """Request message."""
    read: Callable[[Any], Answer]
    """Reads the response. Raises ValueError for an inconsistent message."""
    check_end: Callable[[], None] = lambda: None
    """Checks that the stream has ended where it may. Raises ValueError."""


def read(call: Call[Answer], response: Any) -> Answer:
    """Read the response of a call. Raises Internal for an inconsistent response."""
    with _consistent():
        return call.read(response)


def check_end(call: Call[Any]) -> None:
    """Check that a stream is whole where it ended. Raises Internal."""
    with _consistent():
        call.check_end()


@contextmanager
def _consistent() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise Internal(f"the server's answer is inconsistent: {str(error)[:_LONGEST]}") from error


def predict(model: str, inputs: requests.Instances, **options: Any) -> Call[list[Prediction]]:
    """Build a call for one prediction an instance."""
    requests.check_options("predict", options)
    request = requests.predict_request(model, inputs, **options)

    def answer(response: service_pb2.PredictResponse) -> list[Prediction]:
        _check_count(len(response.predictions), len(request.instances))
        check_sizes(each for one in response.predictions for each in one.label_sets)
        return [read_prediction(*each) for each in zip(response.predictions, request.instances, strict=True)]

    return Call("Predict", request, answer)


def attend(model: str, inputs: requests.Instances, **options: Any) -> Call[list[Attended]]:
    """Build a call for one prediction with attention an instance."""
    requests.check_options("attend", options)
    request = requests.attend_request(service_pb2.AttendRequest, model, inputs, **options)

    def answer(response: service_pb2.AttendResponse) -> list[Attended]:
        _check_count(len(response.results), len(request.instances))
        for each in response.results:
            if len(each.other_sequences) >= max(1, request.attention.sequences):
                raise ValueError(f"{len(each.other_sequences)} sequences beside the best one, which were not asked for")
        check_sizes(each for one in response.results for each in _label_sets(one))
        return [read_attended(*each) for each in zip(response.results, request.instances, strict=True)]

    return Call("Attend", request, answer)


def attend_stream(model: str, inputs: requests.Instances, **options: Any) -> Call[StreamEvent]:
    """Build a call for the events of every instance, in order."""
    requests.check_options("attend_stream", options)
    request = requests.attend_request(service_pb2.AttendStreamRequest, model, inputs, **options)
    reader = StreamReader(request.instances)
    return Call("AttendStream", request, reader.read, reader.check_end)


def explain(model: str, inputs: requests.Instances, **options: Any) -> Call[list[Explanation]]:
    """Build a call for one explanation an instance."""
    requests.check_options("explain", options)
    return explained(requests.explain_request(model, inputs, **options))


def explained(request: service_pb2.ExplainRequest) -> Call[list[Explanation]]:
    """Build the call of a request for explanations."""

    def answer(response: service_pb2.ExplainResponse) -> list[Explanation]:
        _check_count(len(response.explanations), len(request.instances))
        check_sizes(each for one in response.explanations for each in (*one.prediction.label_sets, one.units))
        both = zip(response.explanations, request.instances, strict=True)
        return [read_explanation(each, instance, request.units) for each, instance in both]

    return Call("Explain", request, answer)


def generate(model: str, inputs: Inputs | values_pb2.Instance, **options: Any) -> Call[GenerationEvent]:
    """Build a call for the events of one sequence."""
    requests.check_options("generate", options)
    request = requests.generate_request(model, inputs, **options)
    reader = EventReader(request.instance)
    return Call("Generate", request, reader.read, reader.check_end)


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


def _label_sets(result: service_pb2.Attended) -> Iterator[attention_pb2.LabelSet]:
    yield from result.prediction.label_sets
    for other in result.other_sequences:
        yield from other.label_sets


def _check_count(answers: int, instances: int) -> None:
    if answers != instances:
        raise ValueError(f"{answers} answers for {instances} instances")
