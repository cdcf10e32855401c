"""Messages that gRPC could not send are freed."""

import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from limelight_service.frontend.transport.grpc_leak import free_failed
from limelight_service.frontend.transport.response_sender import ResponseSender
from tests.kit import bundles
from tests.kit.serving import serving

MEBIBYTE = 2**20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_messages_to_callers_who_have_gone_are_freed() -> None:
    failed: list[BaseException] = []
    over: list[int] = []

    async def write_too_late(_: Any, context: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            for _ in range(64):
                try:
                    await context.write(b"x" * MEBIBYTE)
                except grpc.aio.BaseError as error:
                    failed.append(error)
        over.append(1)

    def call_and_go(port: int) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            begun = channel.unary_stream("/test/Write")(b"")
            time.sleep(0.1)
            begun.cancel()

    async def run() -> int:
        free_failed(asyncio.get_running_loop())
        server = grpc.aio.server()
        handler = grpc.unary_stream_rpc_method_handler(write_too_late)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {"Write": handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        before = resident()
        for place in range(4):
            await asyncio.to_thread(call_and_go, port)
            while len(over) <= place:
                await asyncio.sleep(0.01)
        grown = resident() - before
        await server.stop(None)
        return grown

    assert asyncio.run(asyncio.wait_for(run(), 60)) < 64 * MEBIBYTE  # 256 were written
    assert not failed


def test_a_failure_of_anything_else_is_one() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        free_failed(loop)
        future = loop.create_future()
        future.set_exception(KeyError("x"))
        with pytest.raises(KeyError):
            await future

    asyncio.run(run())


def test_a_server_frees_what_failed(tmp_path: Path) -> None:
    bundles.tiny(tmp_path)
    with serving(tmp_path) as running:
        future = running.loop.create_future()
        running.on_loop(lambda: future.set_exception(grpc.aio.InternalError("a batch failed")))
        waiting = asyncio.run_coroutine_threadsafe(asyncio.wait_for(future, 10), running.loop)
        assert waiting.result(10) is None


def test_a_message_that_is_being_sent_when_its_call_is_cancelled_is_sent_to_its_end() -> None:
    sent: list[bytes] = []

    class Context:
        async def write(self, message: bytes) -> None:
            await asyncio.sleep(0.05)
            sent.append(message)

    async def run() -> None:
        writing = asyncio.create_task(ResponseSender(60.0).write(Context(), b"a chunk"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert not sent
        await asyncio.sleep(0.1)

    asyncio.run(run())
    assert sent == [b"a chunk"]
