"""ModelStreamInfer: requests of one stream, answered in order, token by token where the model generates."""

import gc
import logging
import queue
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import numpy as np
import pytest

from limelight_service.open_inference import open_inference_pb2 as pb
from tests.kit import bundles
from tests.kit.serving import Running, generate, serving, text
from tests.service.open_inference.calls import SERVICE, infer, infer_request, outputs, streamed, texts

FINAL = "triton_final_response"
CROSS = "decoder.0.cross"


def is_final(response: pb.ModelStreamInferResponse) -> bool:
    return response.infer_response.parameters[FINAL].bool_param


def test_tokens_come_one_by_one_with_their_row_of_each_map(running: Running) -> None:
    events = list(running.stub.Generate(generate("echo", text("the cat sat"))))
    tokens = [each.token for each in events if each.HasField("token")]
    (sequence,) = events[-1].end.sequences
    whole = infer(running.channel, "echo", {"text": texts("the cat sat")}, CROSS)[CROSS]
    request = infer_request("echo", {"text": texts("the cat sat")}, "words", "words.token_ids", CROSS, id="mine")
    *parts, last = streamed(running.channel, request)
    assert [is_final(each) for each in parts] == [False] * len(tokens) and is_final(last)
    assert {each.infer_response.id for each in (*parts, last)} == {"mine"}
    found = [outputs(each.infer_response) for each in parts]
    assert [each["words"][0, 0].decode() for each in found] == [token.delta for token in tokens]
    assert [each["words.token_ids"].item() for each in found] == [token.id for token in tokens]
    for place, each in enumerate(found):
        np.testing.assert_allclose(each[CROSS][0, :, 0], whole[0, :, place], rtol=1e-4, atol=1e-5)
    end = outputs(last.infer_response)
    assert end["words"].tolist() == [[b""]] and end["words.token_ids"].shape == (1, 1, 0)
    assert last.infer_response.parameters["limelight_text"].string_param == sequence.text


def test_beam_search_answers_once_with_its_hypotheses(running: Running) -> None:
    options = '{"strategy": "STRATEGY_BEAM", "beams": 3, "hypotheses": 2}'
    request = infer_request("echo", {"text": texts("the cat")}, "words", parameters={"limelight_generation": options})
    (only,) = streamed(running.channel, request)
    assert is_final(only)
    expected = infer(
        running.channel, "echo", {"text": texts("the cat")}, "words", parameters={"limelight_generation": options}
    )
    assert outputs(only.infer_response)["words"].tolist() == expected["words"].tolist()


def test_other_models_answer_each_request_once_and_in_order(running: Running) -> None:
    requests = [infer_request("tiny", {"text": texts(word)}, "logits", id=word) for word in ("cat", "dog", "mat")]
    answers = list(streamed(running.channel, *requests))
    assert [each.infer_response.id for each in answers] == ["cat", "dog", "mat"]
    assert all(map(is_final, answers))
    alone = infer(running.channel, "tiny", {"text": texts("dog")}, "logits")["logits"]
    np.testing.assert_allclose(outputs(answers[1].infer_response)["logits"], alone, rtol=1e-4, atol=1e-5)


def test_a_request_with_several_rows_is_not_generated_on_a_stream(running: Running) -> None:
    two = infer_request("echo", {"text": texts("cat", "dog")}, id="two")
    (told, *rest) = streamed(running.channel, two, infer_request("echo", {"text": texts("cat")}))
    assert told.error_message.startswith("[INVALID_ARGUMENT] rows are 2") and told.infer_response.id == "two"
    assert is_final(rest[-1])


def test_bytes_that_are_no_request_are_told_so_and_the_stream_goes_on(running: Running) -> None:
    call = running.channel.stream_stream(SERVICE + "ModelStreamInfer")
    good = infer_request("tiny", {"text": texts("cat")}, "logits").SerializeToString()
    first, second = map(pb.ModelStreamInferResponse.FromString, call(iter([b"\xff\xff", good]), timeout=60))
    assert "is not a message of type inference.ModelInferRequest" in first.error_message
    assert second.infer_response.outputs


def test_a_caller_who_leaves_ends_the_generation(tmp_path: Path) -> None:
    bundles.echo(tmp_path, "endless", max_new_tokens=100_000, endless=True)
    with serving(tmp_path) as running:
        call = running.channel.stream_stream(
            SERVICE + "ModelStreamInfer", response_deserializer=pb.ModelStreamInferResponse.FromString
        )
        stream = call(iter([infer_request("endless", {"text": texts("the cat")}).SerializeToString()]))
        next(stream), next(stream)
        stream.cancel()
        answer = infer(running.channel, "endless", {"text": texts("cat")}, parameters={"limelight_generation": SHORT})
        assert answer["words"].shape == (1, 1)


SHORT = '{"maxNewTokens": 2}'


@pytest.mark.parametrize("frontends", [0, 1])
def test_a_stream_that_is_quiet_does_not_hold_up_a_stop(
    repository: Path, frontends: int, caplog: pytest.LogCaptureFixture
) -> None:
    requests: queue.Queue[bytes | None] = queue.Queue()

    def sent() -> Iterator[bytes]:
        while (each := requests.get()) is not None:
            yield each

    with ExitStack() as stack:
        with serving(repository, frontends=frontends, grace_seconds=60.0) as running:
            channel = stack.enter_context(grpc.insecure_channel(running.server.address))
            stream = channel.stream_stream(SERVICE + "ModelStreamInfer")(sent())
            requests.put(infer_request("tiny", {"text": texts("cat")}, "logits").SerializeToString())
            assert next(stream)
            began = time.monotonic()
        assert time.monotonic() - began < 30
        assert stream.code() is grpc.StatusCode.UNAVAILABLE
        requests.put(None)
    gc.collect()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
