"""A log that nobody reads: it stops neither calls nor the server, and what is lost is counted."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from limelight.v1 import service_pb2_grpc
from tests.kit import bundles
from tests.kit.processes import process, scrape, started
from tests.kit.serving import free_port, predict, text

DROPPED = "limelight_log_lines_dropped_total"


@pytest.mark.parametrize("frontends", [0, 1, 2])
def test_a_log_that_nobody_reads_stops_neither_calls_nor_the_server(tmp_path: Path, frontends: int) -> None:
    bundles.tiny(tmp_path)
    port = free_port()
    flags = ("--repository", str(tmp_path), "--port", "0", "--metrics-port", str(port), "--provider", "cpu")
    more, limits = ("--frontends", str(frontends), "--drain-seconds", "0.2"), {"log_buffer_bytes": 4096}
    there, here = os.pipe()
    fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096)
    with process(*flags, *more, errors=here, limits=limits) as (running, _):
        os.close(here)
        with grpc.insecure_channel(started(running)) as channel:
            stub, health = service_pb2_grpc.AttentionServiceStub(channel), health_pb2_grpc.HealthStub(channel)
            end = time.monotonic() + 60
            while scrape(port)[DROPPED] < 10 and time.monotonic() < end:
                for _ in range(20):
                    assert stub.Predict(predict("tiny", text("the cat")), timeout=30).predictions
            assert health.Check(health_pb2.HealthCheckRequest(), timeout=30).status == 1
        assert scrape(port)[DROPPED] >= 10
        os.set_blocking(there, False)
        found = read(there, "dropped")  # it flows again
        running.send_signal(signal.SIGTERM)
        found += read(there, "stopping")
        assert running.wait(timeout=30) == 0
    os.close(there)
    dropped = [line["lines"] for line in found if "dropped" in line["event"]]
    assert dropped and all(each > 0 for each in dropped)


@pytest.mark.parametrize("frontends", ["0", "1"])
def test_a_server_whose_log_is_stuck_stops_in_order(tmp_path: Path, frontends: str) -> None:
    bundles.tiny(tmp_path)
    flags = ("--repository", str(tmp_path), "--port", "0", "--metrics-port", "0", "--provider", "cpu")
    flags += ("--frontends", frontends)
    there, here = os.pipe()
    size = fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096)
    os.write(here, b" " * size)
    with process(*flags, errors=here) as (running, _):
        os.close(here)
        with grpc.insecure_channel(started(running)) as channel:
            stub = service_pb2_grpc.AttentionServiceStub(channel)
            for _ in range(50):
                assert stub.Predict(predict("tiny", text("the cat")), timeout=30).predictions
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0
    os.close(there)


def test_a_library_that_writes_to_a_full_pipe_itself_does_not_wait() -> None:
    there, here = os.pipe()
    program = (
        "import os; from limelight_service.observability.logs import configure_logs; configure_logs('info')\n"
        "try:\n"
        "    while True: os.write(2, b'x' * 1000)\n"
        "except BlockingIOError:\n"
        "    print('full')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=here, timeout=120, check=True
    )
    assert ended.stdout == b"full\n"
    assert os.get_blocking(here)  # others who write there are left as they were
    os.close(here)
    os.close(there)


def read(descriptor: int, until: str) -> list[dict[str, object]]:
    """Read lines of the log until one says so."""
    data, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        try:
            data += os.read(descriptor, 2**16)
        except BlockingIOError:
            time.sleep(0.01)
        if until.encode() in data and data.endswith(b"\n"):
            break
    return [json.loads(line) for line in data.splitlines()]
