"""Addresses of a server when ports are taken, and that it serves and stops in order where nobody reads it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import limelight
from limelight_bundle.errors import LimelightError
from limelight_service.command import remedy
from limelight_service.demo import on_free_ports
from limelight_service.platform.addresses import check_free
from limelight_service.settings import Settings

DEMO = Path(__file__).resolve().parents[3] / "deploy" / "demo"


def taken() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_the_demo_moves_from_ports_that_are_taken_unless_they_were_chosen():
    with taken() as one, taken() as other:
        port, metrics_port = one.getsockname()[1], other.getsockname()[1]
        settings = Settings(port=port, metrics_port=metrics_port)
        moved, told = on_free_ports(settings, {"port": None, "metrics_port": None})
        assert told == [port, metrics_port]
        assert moved.port not in (0, port) and moved.metrics_port not in (0, metrics_port)
        check_free(moved.host, moved.port)
        assert on_free_ports(settings, {"port": port, "metrics_port": metrics_port}) == (settings, [])
    free = Settings(port=0, metrics_port=0)
    assert on_free_ports(free, {"port": None, "metrics_port": None}) == (free, [])


def test_a_server_says_which_flag_helps_where_a_port_is_taken():
    with taken() as one:
        port = one.getsockname()[1]
        with pytest.raises(LimelightError) as refused:
            check_free("127.0.0.1", port)
    assert "--port" in remedy(refused.value, Settings(port=port))
    assert "--metrics-port" in remedy(refused.value, Settings(metrics_port=port))
    assert remedy(LimelightError("another"), Settings()) == ""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "read by nobody", "full"])
def test_a_server_whose_output_goes_nowhere_serves_and_stops_in_order(how: str, tmp_path: Path):
    if how == "full" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with taken() as one:
        port = one.getsockname()[1]
    command = [sys.executable, "-m", "limelight.cli", "serve", "--repository", str(DEMO), "--port", str(port)]
    command += ["--metrics-port", "0", "--drain-seconds", "0"]
    reader, writer = os.pipe()
    os.close(reader)
    shell = {"closed": 'exec "$@" >&-', "full": 'exec "$@" >/dev/full', "read by nobody": 'exec "$@"'}[how]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(["bash", "-c", shell, "-", *command], stdout=writer, stderr=log)
    os.close(writer)
    try:
        with limelight.Client(f"127.0.0.1:{port}", attempts=1) as client:
            until = time.monotonic() + 120
            while time.monotonic() < until and process.poll() is None:
                try:
                    if client.ready():
                        break
                except limelight.Unavailable:
                    pass
                time.sleep(0.2)
            assert client.predict("dates", {"text": "7 March 2021"}).text == "2021-03-07"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert not re.search("Traceback|BrokenPipe", (tmp_path / "log").read_text())
