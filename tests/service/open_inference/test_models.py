"""The server and its models in the protocol: readiness, metadata, configuration, statistics, the index."""

import json
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from limelight_service.open_inference import open_inference_pb2 as pb
from limelight_service.security.tokens import entry, new_token
from tests.kit import bundles
from tests.kit.serving import Running, attend, eventually, generate, predict, refusal, serving, text
from tests.service.open_inference.calls import SERVICE, infer, infer_request, texts, unary


def ask(running: Running, method: str, **fields: Any) -> Any:
    """Call a method by its name."""
    request, response = getattr(pb, f"{method}Request"), getattr(pb, f"{method}Response")
    return unary(running.channel, method, request(**fields), response)


def test_the_server_and_its_models_are_ready(running: Running) -> None:
    assert ask(running, "ServerLive").live and ask(running, "ServerReady").ready
    assert ask(running, "ModelReady", name="tiny").ready
    assert ask(running, "ModelReady", name="tiny", version="1").ready
    assert not ask(running, "ModelReady", name="tiny", version="2").ready
    assert not ask(running, "ModelReady", name="nothing").ready
    server = ask(running, "ServerMetadata")
    assert server.name == "limelight" and server.version and "statistics" in server.extensions


def test_metadata_and_configuration_describe_the_same(running: Running) -> None:
    for name in ("tiny", "paper", "picture", "echo", "noisy", "web"):
        metadata, config = ask(running, "ModelMetadata", name=name), ask(running, "ModelConfig", name=name).config
        assert (metadata.name, list(metadata.versions), metadata.platform) == (name, ["1"], "onnxruntime_onnx")
        assert (config.name, config.platform, config.max_batch_size) == (name, "onnxruntime_onnx", 64)
        assert config.WhichOneof("scheduling_choice") == "dynamic_batching"
        assert config.model_transaction_policy.decoupled == (name == "echo")
        for described, configured in ((metadata.inputs, config.input), (metadata.outputs, config.output)):
            assert [(each.name, list(each.shape)[1:]) for each in described] == [
                (each.name, list(each.dims)) for each in configured
            ]
            types = [pb.DataType.Name(each.data_type).removeprefix("TYPE_") for each in configured]
            assert [each.datatype for each in described] == [each.replace("STRING", "BYTES") for each in types]
        assert dict(metadata.properties) == {key: value.string_value for key, value in config.parameters.items()}


def test_metadata_names_what_an_answer_has_and_what_can_be_asked_for(running: Running) -> None:
    metadata = ask(running, "ModelMetadata", name="tiny")
    assert [(each.name, each.datatype, list(each.shape)) for each in metadata.inputs] == [("text", "BYTES", [-1, 1])]
    answer = infer(running.channel, "tiny", {"text": texts("the cat")})
    assert [each.name for each in metadata.outputs] == list(answer)
    for each in metadata.outputs:
        fixed = [size for size in each.shape if size > 0]
        assert len(each.shape) == answer[each.name].ndim and set(fixed) <= set(answer[each.name].shape)
    maps, labels = (json.loads(metadata.properties[f"limelight_{name}"]) for name in ("maps", "labels"))
    assert list(maps) == ["encoder.0.self", "encoder.1.self", "pool"]
    assert maps["pool"] == {
        "datatype": "FP32",
        "shape": [-1, 1, -1, -1],
        "queries": "one.labels",
        "keys": "tokens.labels",
    }
    everything = infer(running.channel, "tiny", {"text": texts("the cat")}, *maps, *labels)
    assert list(everything) == [*maps, *labels]
    assert [each.decode() for each in everything["tokens.labels"][0]] == ["the", "cat"]
    assert [each.decode() for each in everything["sides.labels"][0]] == ["left", "right"]
    tensors = json.loads(metadata.properties["limelight_tensors"])
    assert tensors == {"text": {"ids": {"datatype": "INT64", "shape": [-1, -1]}}}


def test_an_optional_input_may_be_left_out(running: Running) -> None:
    config = ask(running, "ModelConfig", name="echo").config
    assert [(each.name, each.optional) for each in config.input] == [("text", False), ("target_ids", True)]


def statistics(running: Running, name: str) -> Any:
    """Statistics of one model."""
    (found,) = ask(running, "ModelStatistics", name=name).model_stats
    return found


def test_statistics_add_up_over_both_protocols_and_all_processes(running: Running) -> None:
    before = statistics(running, "tiny")
    for _ in range(2):
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(running.server.address, options) as channel:
            infer(channel, "tiny", {"text": texts("the cat", "a dog", "far")})
    running.stub.Predict(predict("tiny", text("the cat"), text("a dog")))
    running.stub.Attend(attend("tiny", text("the cat")))
    with pytest.raises(grpc.RpcError):
        infer(running.channel, "tiny", {"text": texts(" ")})
    after = statistics(running, "tiny")
    assert after.inference_count - before.inference_count == 9
    stats = after.inference_stats
    assert stats.success.count - before.inference_stats.success.count == 4
    assert stats.fail.count - before.inference_stats.fail.count == 1
    assert stats.fail.ns > before.inference_stats.fail.ns
    parts = [stats.queue, stats.compute_input, stats.compute_infer, stats.compute_output]
    assert all(each.count == stats.success.count for each in parts)
    assert 0 < sum(each.ns for each in parts) <= stats.success.ns
    assert sum(each.batch_size * each.compute_infer.count for each in after.batch_stats) == after.inference_count
    assert sum(each.compute_infer.count for each in after.batch_stats) == after.execution_count
    assert time.time() * 1000 - after.last_inference < 60_000
    assert after.last_inference >= before.last_inference


def test_rows_share_batches_with_those_of_other_callers_and_of_the_other_protocol(running: Running) -> None:
    request = infer_request("tiny", {"text": texts("the cat sat on a mat")}, "logits").SerializeToString()
    infer_one = running.channel.unary_unary(SERVICE + "ModelInfer")

    def shared() -> bool:
        ours = [infer_one.future(request, timeout=60) for _ in range(64)]
        theirs = [running.stub.Predict.future(predict("tiny", text("a dog")), timeout=60) for _ in range(64)]
        answers = [pb.ModelInferResponse.FromString(each.result()) for each in ours]
        sizes = [each.parameters["limelight_batch_rows"].int64_param for each in answers]
        others = [each.result().predictions[0].provenance.batch_rows for each in theirs]
        return max(sizes) > 1 and max(others) > 1

    assert eventually(shared)


def test_a_stream_counts_as_one_call(running: Running) -> None:
    before = statistics(running, "echo")
    list(running.stub.Generate(generate("echo", text("the cat"))))
    after = statistics(running, "echo")
    assert after.inference_stats.success.count == before.inference_stats.success.count + 1
    assert after.inference_count == before.inference_count + 1


def test_statistics_of_all_models_and_of_one_that_is_not_there(running: Running) -> None:
    names = [each.name for each in ask(running, "ModelStatistics").model_stats]
    assert names == sorted(make.__name__ for make in bundles.ALL)
    with pytest.raises(grpc.RpcError) as caught:
        ask(running, "ModelStatistics", name="nothing")
    assert refusal(caught.value).code == "NOT_FOUND"


def test_the_index_lists_every_version(running: Running) -> None:
    index = ask(running, "RepositoryIndex").models
    assert {(each.name, each.version, each.state, each.reason) for each in index} == {
        (make.__name__, "1", "READY", "") for make in bundles.ALL
    }
    with pytest.raises(grpc.RpcError) as caught:
        ask(running, "RepositoryIndex", repository_name="other")
    assert refusal(caught.value).field == "repository_name"


@pytest.mark.parametrize("method", ["RepositoryModelLoad", "RepositoryModelUnload"])
def test_models_are_not_changed_where_nobody_said_that_they_may(running: Running, method: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask(running, method, model_name="tiny")
    told = refusal(caught.value)
    assert told.code == "FAILED_PRECONDITION" and "--model-control explicit" in told.message
    with pytest.raises(grpc.RpcError) as caught:  # as a client of KServe's protocol sends it
        ask(running, method, repository_name="tiny")
    told = refusal(caught.value)
    assert (told.code, told.field) == ("INVALID_ARGUMENT", "repository_name") and "field 2" in told.message


def test_reflection_describes_the_service(running: Running) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(running.channel)
    ask_ = reflection_pb2.ServerReflectionRequest
    listing, found = stub.ServerReflectionInfo(
        iter([ask_(list_services=""), ask_(file_containing_symbol="inference.GRPCInferenceService")])
    )
    assert "inference.GRPCInferenceService" in [each.name for each in listing.list_services_response.service]
    (data,) = found.file_descriptor_response.file_descriptor_proto
    (service,) = descriptor_pb2.FileDescriptorProto.FromString(data).service
    assert {each.name for each in service.method} >= {"ModelInfer", "ModelStreamInfer"}


def test_tokens_bound_methods_models_and_rows(repository: Path, tmp_path: Path) -> None:
    file, open_token, bound = tmp_path / "tokens.toml", new_token(), new_token()
    lines = entry("open", open_token, {})
    file.write_text(lines + entry("bound", bound, {"methods": ["ModelInfer"], "models": ["tiny"], "rows_in_flight": 2}))
    with serving(repository, tokens=str(file), model_control="explicit") as running:

        def call(method: str, request: Any, token: str = "") -> Any:
            metadata, response = [("authorization", f"Bearer {token}")], getattr(pb, f"{method}Response")
            try:
                return unary(running.channel, method, request, response, metadata=metadata if token else [])
            except grpc.RpcError as error:
                return refusal(error).code

        good = infer_request("tiny", {"text": texts("the cat")}, "logits")
        assert call("ModelInfer", good) == "UNAUTHENTICATED"
        assert all(call("ModelInfer", good, token).outputs for token in (open_token, bound))
        for method, request, token, code in (
            ("ServerLive", pb.ServerLiveRequest(), bound, "PERMISSION_DENIED"),
            ("ModelInfer", infer_request("paper", {"text": texts("the cat")}), bound, "NOT_FOUND"),
            ("ModelInfer", infer_request("tiny", {"text": texts("a", "a", "a")}), bound, "RESOURCE_EXHAUSTED"),
            ("RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="tiny"), open_token, "PERMISSION_DENIED"),
        ):
            assert call(method, request, token) == code
