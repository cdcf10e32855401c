"""What watchers of the health are told."""

import asyncio

from grpc_health.v1 import health_pb2

from service.rpc.health import NOT_SERVING, SERVING, Health


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
