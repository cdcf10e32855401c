"""Messages to watchers of the health."""

import asyncio
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2

import limelight
from limelight import cli
from limelight_service.frontend.transport.health import NOT_SERVING, SERVING, Health
from tests.kit.serving import Running, serving


def test_a_stop_while_a_watcher_is_told_something_else_is_told_before_the_watch_ends() -> None:
    async def watched() -> list[int]:
        health = Health(())
        health.set(True)
        told = []
        async for response in health.Watch(health_pb2.HealthCheckRequest(), None):
            told.append(response.status)
            if len(told) == 1:
                health.stop()  # the watch has not gone on yet since it told the first
        return told

    assert asyncio.run(watched()) == [SERVING, NOT_SERVING]


def test_clients_and_the_command_line_are_told_whether_a_server_is_ready(
    running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def asked(target: str) -> bool:
        async with limelight.AsyncClient(target) as client:
            return await client.ready()

    with serving(tmp_path) as empty:
        for each, ready in ((running, True), (empty, False)):
            target = each.server.address
            with limelight.Client(target) as client:
                assert client.ready() is ready
            assert asyncio.run(asked(target)) is ready
            assert cli.main(["health", "--target", target]) == int(not ready)
    output, errors = capsys.readouterr()
    assert (output, "is not ready" in errors) == ("ready\n", True)
    with limelight.Client("127.0.0.1:1", attempts=1) as client, pytest.raises(limelight.Unavailable):
        client.ready()
