"""Calls of a caller with nothing but grpcio: health, reflection, listing."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from limelight.v1 import model_pb2, service_pb2, values_pb2
from limelight_service.codecs.v1.service import SERVICE
from limelight_service.frontend.transport.health import Health
from limelight_service.supervisor.in_process import InProcessServer
from tests.kit.serving import Running, refusal, serving


def reflected(channel: grpc.Channel) -> descriptor_pool.DescriptorPool:
    """Build a pool of everything that reflection tells of the service: no generated code is used."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    pool = descriptor_pool.DescriptorPool()

    def fetch(request: reflection_pb2.ServerReflectionRequest) -> list[descriptor_pb2.FileDescriptorProto]:
        (response,) = stub.ServerReflectionInfo(iter([request]))
        data = response.file_descriptor_response.file_descriptor_proto
        return [descriptor_pb2.FileDescriptorProto.FromString(each) for each in data]

    def add(files: list[descriptor_pb2.FileDescriptorProto]) -> None:
        for file in files:
            for name in file.dependency:
                try:
                    pool.FindFileByName(name)
                except KeyError:
                    add(fetch(reflection_pb2.ServerReflectionRequest(file_by_filename=name)))
            pool.Add(file)

    add(fetch(reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE))[:1])
    return pool


def test_a_caller_with_reflection_alone_can_list_ask_and_see_attention(running: Running) -> None:
    pool = reflected(running.channel)
    service = pool.FindServiceByName(SERVICE)

    def ask(name: str, **fields: Any) -> Any:
        method = service.FindMethodByName(name)
        request = message_factory.GetMessageClass(method.input_type)(**fields)
        answer = message_factory.GetMessageClass(method.output_type)
        kind = running.channel.unary_stream if method.server_streaming else running.channel.unary_unary
        call = kind(
            f"/{SERVICE}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return call(request)

    assert [each.model.name for each in ask("ListModels").models] == [
        "echo",
        "noisy",
        "paper",
        "picture",
        "tiny",
        "web",
    ]
    described = ask("GetModel", model={"name": "tiny"}).description
    assert [each.name for each in described.inputs] == ["text"]
    instance = {"inputs": {"text": {"text": "the cat sat"}}}
    assert (
        ask("Predict", model={"name": "tiny"}, instances=[instance])
        .predictions[0]
        .results[0]
        .classification.classes[0]
        .label
    )
    (result,) = ask("Attend", model={"name": "tiny"}, instances=[instance]).results
    assert list(result.maps[0].weights.shape) == [2, 3, 3]
    events = list(ask("Generate", model={"name": "echo"}, instance=instance))
    assert events[0].HasField("start") and events[-1].HasField("end")


def test_reflection_lists_the_services(running: Running) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(running.channel)
    (response,) = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = {each.name for each in response.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names


@pytest.mark.parametrize("service", ["", SERVICE])
def test_a_server_with_a_model_serves(running: Running, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(running.channel)
    assert stub.Check(health_pb2.HealthCheckRequest(service=service)).status == health_pb2.HealthCheckResponse.SERVING


def test_health_of_a_service_that_is_not_there(running: Running) -> None:
    stub = health_pb2_grpc.HealthStub(running.channel)
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="nothing"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND  # type: ignore[attr-defined]
    first = next(iter(stub.Watch(health_pb2.HealthCheckRequest(service="nothing"))))
    assert first.status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def test_get_model_tells_everything(running: Running) -> None:
    got = running.stub.GetModel(service_pb2.GetModelRequest(model=values_pb2.Model(name="echo")))
    assert (got.status.model.name, got.status.model.version, got.status.is_default) == ("echo", 1, True)
    assert got.status.state == service_pb2.MODEL_STATE_READY
    assert got.status.task == got.description.task == model_pb2.TASK_GENERATION
    assert [each.name for each in got.graphs] == ["encoder", "step"]
    assert all(each.provider == "CPUExecutionProvider" and each.nodes[0].nodes > 0 for each in got.graphs)
    assert len(got.bundle_digest) == 64
    assert got.max_response_bytes == running.server.settings.max_response_bytes
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.GetModel(service_pb2.GetModelRequest(model=values_pb2.Model(name="other")))
    assert refusal(caught.value).code == "NOT_FOUND"


def test_every_method_of_the_protocol_is_answered(running: Running) -> None:
    for method in service_pb2.DESCRIPTOR.services_by_name["AttentionService"].methods:
        call = running.channel.unary_stream(f"/{SERVICE}/{method.name}")
        events: Iterator[bytes] = call(b"")
        try:
            list(events)
        except grpc.RpcError as error:
            assert "x-request-id" in dict(error.trailing_metadata()), method.name  # type: ignore[attr-defined]


def test_watchers_hear_of_a_change_and_one_that_leaves_takes_no_other_along(repository: Path) -> None:
    with serving(repository) as running:
        assert isinstance(running.server, InProcessServer)
        leave_a_watcher(running, running.server.frontend.server.health)


def leave_a_watcher(running: Running, health: Health) -> None:
    stub = health_pb2_grpc.HealthStub(running.channel)
    leaving, staying = (stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(2))
    heard: list[int] = []
    told = threading.Event()

    def listen() -> None:
        for response in staying:
            heard.append(response.status)
            if len(heard) == 2:
                told.set()
                return

    listener = threading.Thread(target=listen)
    assert next(leaving).status == health_pb2.HealthCheckResponse.SERVING
    listener.start()
    while not heard:
        pass
    leaving.cancel()
    running.on_loop(lambda: health.set(False))
    try:
        assert told.wait(10)
        assert heard == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]
    finally:
        running.on_loop(lambda: health.set(True))
        staying.cancel()
        listener.join()
