"""A real server on a real socket, beside the test that calls it."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from limelight.v1 import attention_pb2, service_pb2, service_pb2_grpc, values_pb2
from limelight_service.checking.cache import Cached
from limelight_service.checking.checker import Checker, Checks
from limelight_service.configuration import load_settings
from limelight_service.settings import Settings
from limelight_service.supervisor.in_process import InProcessServer, running_in_process
from limelight_service.supervisor.supervisor import Supervisor, supervised

# One for all tests: a process that checks bundles takes a second to start.
CHECKS = Checker(idle=60.0)


def remembered_checks(settings: Settings) -> Checks:
    """Make the checks of a server with a cache, by the one process: a bundle is checked once, however often served."""
    cache = settings.cache_dir or os.environ.get("XDG_CACHE_HOME", "none")
    return CHECKS if cache == "none" else Cached(CHECKS, Path(cache) / "limelight", settings.max_cache_bytes)


@dataclass
class Running:
    """A server on a thread of its own, and a client."""

    server: InProcessServer | Supervisor
    loop: asyncio.AbstractEventLoop
    channel: grpc.Channel
    stub: Any

    def on_loop(self, function: Callable[[], None]) -> None:
        """Run something on the server's event loop, later."""
        self.loop.call_soon_threadsafe(function)

    def finish(self) -> None:
        """Stop in order, as a signal has a server do: say so, serve on for its drain, finish the calls in flight."""
        asyncio.run_coroutine_threadsafe(self.server.finish(), self.loop).result()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait until something holds; False where it does not in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@contextmanager
def serving(repository: Path, **settings: Any) -> Iterator[Running]:
    """Serve a repository on a free port of this machine. frontends: processes; by default all is in this one."""
    flags = {
        "repository": str(repository),
        "port": 0,
        "metrics_port": 0,
        "provider": "cpu",
        "grace_seconds": 5.0,
        "load_wait_seconds": 300.0,  # however busy the machine is
    }
    loaded = load_settings(flags | settings, environment={})
    started: list[tuple[InProcessServer | Supervisor, asyncio.AbstractEventLoop, asyncio.Event]] = []
    ready = threading.Event()
    failure: list[BaseException] = []

    async def run() -> None:
        running = supervised(loaded) if loaded.frontends else running_in_process(loaded, remembered_checks(loaded))
        async with running as server:
            stop = asyncio.Event()
            started.append((server, asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()

    def target() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failure.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=target, name="server")
    thread.start()
    ready.wait()
    if not started:
        thread.join()
        raise failure[0]
    server, loop, stop = started[0]
    options = [("grpc.max_receive_message_length", -1)]
    try:
        with grpc.insecure_channel(server.address, options) as channel:
            yield Running(server, loop, channel, service_pb2_grpc.AttentionServiceStub(channel))
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
    if failure:
        raise failure[0]


def text(words: str) -> values_pb2.Instance:
    """Make an instance of one text."""
    return values_pb2.Instance(inputs={"text": values_pb2.Value(text=words)})


def predict(model: str, *instances: values_pb2.Instance, **fields: Any) -> service_pb2.PredictRequest:
    """Make a request to Predict."""
    return service_pb2.PredictRequest(model=values_pb2.Model(name=model), instances=instances, **fields)


def generate(model: str, instance: values_pb2.Instance, **fields: Any) -> service_pb2.GenerateRequest:
    """Make a request to Generate."""
    return service_pb2.GenerateRequest(model=values_pb2.Model(name=model), instance=instance, **fields)


def tokenize(model: str, *instances: values_pb2.Instance, **fields: Any) -> service_pb2.TokenizeRequest:
    """Make a request to Tokenize."""
    return service_pb2.TokenizeRequest(model=values_pb2.Model(name=model), instances=instances, **fields)


def attend(model: str, *instances: values_pb2.Instance, outputs: tuple[str, ...] = (), **options: Any) -> Any:
    """Make a request to Attend; `options` are those of its attention."""
    return service_pb2.AttendRequest(
        model=values_pb2.Model(name=model),
        instances=instances,
        outputs=outputs,
        attention=attention_pb2.AttentionOptions(**options),
    )


@dataclass(frozen=True)
class Refusal:
    """An error as a client sees it. retry: seconds to wait, None where nothing is said of it."""

    code: str
    message: str
    field: str
    reason: str
    request_id: str
    retry: float | None


def refusal(error: grpc.RpcError) -> Refusal:
    """Read an error as a client does: code and message, and the rich details in the trailers."""
    trailers = dict(error.trailing_metadata())  # type: ignore[attr-defined]
    rich = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    bad, info, retry = error_details_pb2.BadRequest(), error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    delay = None
    for detail in rich.details:
        detail.Unpack(bad)
        detail.Unpack(info)
        if detail.Unpack(retry):
            delay = retry.retry_delay.ToTimedelta().total_seconds()
    assert (rich.code, rich.message) == (error.code().value[0], error.details())  # type: ignore[attr-defined]
    field = bad.field_violations[0].field if bad.field_violations else ""
    return Refusal(error.code().name, rich.message, field, info.reason, trailers["x-request-id"], delay)  # type: ignore[attr-defined]
