"""A server without a port answers as one with a port does, and says what is wrong in the same words."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from limelight.v1 import service_pb2
from limelight_bundle.errors import LimelightError
from limelight_bundle.wire import to_array
from limelight_service.configuration import load_settings
from limelight_service.frontend.status import StatusError
from limelight_service.supervisor.embedded import embedded
from tests.kit.serving import Running, attend, generate, predict, text


def test_an_embedded_server_answers_streams_and_refuses(
    repository: Path, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load_settings({"repository": str(repository), "provider": "cpu", "cache_dir": "none"}, environment={})

    async def ask() -> tuple[Any, list[Any], StatusError]:
        async with embedded(settings) as server:
            assert server.is_ready
            data = await server.answer("Attend", attend("tiny", text("the cat sat")), "mine")
            streamed = server.stream("Generate", generate("echo", text("the cat")))
            events = [service_pb2.GenerateResponse.FromString(each) async for each in streamed]
            with pytest.raises(StatusError) as refused:
                await server.answer("Predict", predict("no-such-model", text("a")))
            return service_pb2.AttendResponse.FromString(data), events, refused.value

    with caplog.at_level(logging.INFO):
        answer, events, refused = asyncio.run(ask())
    expected = running.stub.Attend(attend("tiny", text("the cat sat")))
    maps = [to_array(each.results[0].maps[0].weights, "weights") for each in (answer, expected)]
    np.testing.assert_allclose(*maps, rtol=1e-4, atol=1e-5)
    others = list(running.stub.Generate(generate("echo", text("the cat"))))
    assert [each.token.delta for each in events] == [each.token.delta for each in others]
    assert refused.status.code is grpc.StatusCode.NOT_FOUND and "no-such-model" in refused.status.message
    lines = [record.fields for record in caplog.records if record.getMessage() == "request"]  # type: ignore[attr-defined]
    logged = {(each["method"], each["rows"], each["code"]) for each in lines}
    assert logged == {("Attend", 1, "OK"), ("Generate", 1, "OK"), ("Predict", 0, "NOT_FOUND")}
    assert "mine" in {each["id"] for each in lines}


def test_an_embedded_server_imports_no_checkpoint() -> None:
    async def start() -> None:
        async with embedded(load_settings({"checkpoint": "org/name", "cache_dir": "none"}, environment={})):
            pytest.fail("it serves without its checkpoint")

    with pytest.raises(LimelightError, match="only `limelight serve` imports the checkpoint org/name"):
        asyncio.run(start())
