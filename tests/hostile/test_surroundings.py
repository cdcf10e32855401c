"""Surroundings of a server: each test starts it, has it answer, and stops it in order."""

import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from limelight.v1 import service_pb2, service_pb2_grpc, values_pb2
from limelight_service.configuration import ignored_variables, load_settings
from tests.kit import bundles
from tests.kit.processes import alive, children, engines, process, started
from tests.kit.serving import attend, eventually, predict, text

ROOT = Path(__file__).parents[2]
LOCAL = ("--port", "0", "--metrics-port", "0", "--provider", "cpu")
MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
ARCHITECTURE = platform.machine()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.tiny(folder, "wide", max_tokens=256)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


# A filter of system calls, as a sandbox has it: one of them fails with a number.
FILTERED = """
import ctypes, struct
library = ctypes.CDLL(None, use_errno=True)
def step(code, yes, no, value): return struct.pack("HBBI", code, yes, no, value)
steps = step(32, 0, 0, 0) + step(21, 0, 1, {call}) + step(6, 0, 0, 0x00050000 | {error}) + step(6, 0, 0, 0x7FFF0000)
buffer = ctypes.create_string_buffer(steps)
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
program = Program(4, ctypes.addressof(buffer))
if library.prctl(38, 1, 0, 0, 0) or library.prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit("cannot filter")
"""
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
NO_NEW_CODE = """
import ctypes
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    sys.exit("cannot filter")
"""
SURROUNDINGS = {
    "no memfd_create, refused": FILTERED.format(call=MEMFD_CREATE.get(ARCHITECTURE, 0), error=1),
    "no memfd_create, an old kernel": FILTERED.format(call=MEMFD_CREATE.get(ARCHITECTURE, 0), error=38),
    "files of 100 kB": LIMITED.format(size=100_000),
    "files of 1 MB": LIMITED.format(size=1_000_000),
    "files of 100 MB": LIMITED.format(size=100_000_000),
    "memory that is written is never run": NO_NEW_CODE,
}


@contextmanager
def announced(running: Any, logged: list[str]) -> Iterator[Any]:
    try:
        address = started(running)
    except AssertionError:
        if running.wait(timeout=30) and eventually(lambda: any("cannot filter" in line for line in list(logged)), 5):
            pytest.skip("this system does not let a process filter its own calls")
        raise AssertionError(logged) from None
    with grpc.insecure_channel(address) as channel:
        yield service_pb2_grpc.AttentionServiceStub(channel)


@pytest.mark.parametrize("frontends", [0, 1])
@pytest.mark.parametrize("where", SURROUNDINGS)
def test_a_server_starts_answers_large_maps_and_stops(repository: Path, where: str, frontends: int) -> None:
    if "memfd" in where and ARCHITECTURE not in MEMFD_CREATE:
        pytest.skip(f"the number of memfd_create is not known for {ARCHITECTURE}")
    long = text(" ".join(["a"] * 200))  # two maps of 320 kB, which processes share where they can
    flags = ("--repository", str(repository), *LOCAL, "--frontends", str(frontends))
    with process(*flags, before=SURROUNDINGS[where]) as (running, logged):
        with announced(running, logged) as stub:
            answer = stub.Attend(attend("wide", long), timeout=60)
            assert answer.ByteSize() > 2**19
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
    said = [line for line in logged if "processes cannot share memory" in line]
    assert len(said) == frontends * ("memfd" in where or where == "files of 100 kB")


def test_a_log_that_may_not_grow_keeps_no_server_from_answering(repository: Path, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        flags = ("--repository", str(repository), *LOCAL)
        with process(*flags, errors=log.fileno(), before=LIMITED.format(size=4096)) as (running, logged):
            with announced(running, logged) as stub:
                for _ in range(50):
                    assert stub.Predict(predict("tiny", text("the cat")), timeout=60).predictions
            running.send_signal(signal.SIGTERM)
            assert running.wait(timeout=30) == 0
    assert (tmp_path / "log").stat().st_size <= 4096


KUBERNETES = {
    "LIMELIGHT_SERVICE_HOST": "10.96.0.7",
    "LIMELIGHT_SERVICE_PORT": "50051",
    "LIMELIGHT_SERVICE_PORT_GRPC": "50051",
    "LIMELIGHT_PORT": "tcp://10.96.0.7:50051",
    "LIMELIGHT_PORT_50051_TCP": "tcp://10.96.0.7:50051",
    "LIMELIGHT_PORT_50051_TCP_PROTO": "tcp",
    "LIMELIGHT_PORT_50051_TCP_PORT": "50051",
    "LIMELIGHT_PORT_50051_TCP_ADDR": "10.96.0.7",
    "LIMELIGHT_METRICS_SERVICE_HOST": "fd00::8",
    "LIMELIGHT_METRICS_SERVICE_PORT": "9464",
    "LIMELIGHT_METRICS_PORT": "udp://[fd00::8]:9464",
}


def test_addresses_of_services_are_no_settings() -> None:
    settings = load_settings({}, environment=KUBERNETES)
    assert (settings.port, settings.metrics_port) == (50051, 9464)
    assert load_settings({"port": 3}, environment=KUBERNETES).port == 3
    assert ignored_variables(KUBERNETES) == ["LIMELIGHT_PORT", "LIMELIGHT_METRICS_PORT"]
    assert ignored_variables({"LIMELIGHT_PORT": "50052", "LIMELIGHT_HOST": "tcp://10.96.0.7:50051"}) == []


def test_a_server_beside_services_of_its_own_name_starts_and_says_what_it_ignores(repository: Path) -> None:
    before = f"import os; os.environ.update({KUBERNETES!r})"
    flags = ("--repository", str(repository), "--port", "0", "--provider", "cpu")
    local = before + "; os.environ['LIMELIGHT_METRICS_HOST'] = '127.0.0.1'"
    with process(*flags, "--metrics-port", "0", before=local) as (running, logged):
        with announced(running, logged) as stub:
            assert stub.Predict(predict("tiny", text("the cat")), timeout=60).predictions
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
    for name in ("LIMELIGHT_PORT", "LIMELIGHT_METRICS_PORT"):
        assert len([line for line in logged if f"{name} is an address" in line]) == 1


def whole_service(running: subprocess.Popen[str]) -> list[int]:
    """Every process of a server, the first one apart."""
    return [*children(running.pid), *children(running.pid, "limelight_service.checking")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("frontends", [0, 1, 2])
def test_signals_to_every_process_stop_a_server_once_and_in_order(
    repository: Path, frontends: int, number: signal.Signals
) -> None:
    flags = ("--repository", str(repository), *LOCAL, "--frontends", str(frontends))
    flags += ("--drain-seconds", "1", "--grace-seconds", "60")
    with process(*flags) as (running, logged):
        with announced(running, logged) as stub:
            options = service_pb2.GenerationOptions(max_new_tokens=2_000)
            request = service_pb2.GenerateRequest(
                model=values_pb2.Model(name="endless"), instance=text("the cat"), generation=options
            )
            stream = stub.Generate(request)
            next(stream), next(stream)
            others = whole_service(running)
            for _ in range(2):  # a service manager, and whoever else was told
                for pid in (*others, running.pid):
                    os.kill(pid, number)
            assert stub.Predict(predict("tiny", text("the cat")), timeout=60).predictions  # while it drains
            *_, last = stream
            assert last.end.sequences[0].finish_reason == service_pb2.FINISH_REASON_LENGTH
        assert running.wait(timeout=60) == 0
        assert eventually(lambda: not any(map(alive, others)))
    assert not [line for line in logged if '"error"' in line]


def test_a_process_that_is_starting_is_spared_as_well(repository: Path) -> None:
    flags = ("--repository", str(repository), *LOCAL, "--frontends", "1", "--cache-dir", "none")  # bundles are checked
    with process(*flags) as (running, logged):
        assert eventually(lambda: bool(children(running.pid)), 60)
        seen = set()
        end = time.monotonic() + 60
        while time.monotonic() < end and not seen & set(children(running.pid, "limelight_service.checking")):
            for pid in whole_service(running):
                seen.add(pid)
                os.kill(pid, signal.SIGTERM)
        with announced(running, logged) as stub:
            assert stub.Predict(predict("tiny", text("the cat")), timeout=60).predictions
            assert set(children(running.pid)) <= seen  # nobody had to take its place
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0


@pytest.mark.parametrize("frontends", ["0", "1"])
def test_a_service_manager_is_told_when_it_serves_and_when_it_stops(
    repository: Path, tmp_path: Path, frontends: str
) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        before = f"import os; os.environ['NOTIFY_SOCKET'] = {address!r}"
        flags = ("--repository", str(repository), *LOCAL, "--frontends", frontends)
        with process(*flags, before=before) as (running, _):
            assert manager.recv(100) == b"READY=1"
            running.send_signal(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert running.wait(timeout=30) == 0


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = tmp_path / "limelight.service"
    written = (ROOT / "deploy" / "systemd" / "limelight.service").read_text(encoding="utf-8")
    unit.write_text(written.replace("/opt/limelight/bin/limelight", "/bin/true"))
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("frontends", ["0", "1"])
def test_few_open_files_leave_room_for_connections_and_it_is_said(repository: Path, frontends: str) -> None:
    before = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))"
    flags = ("--repository", str(repository), *LOCAL, "--frontends", frontends)
    with process(*flags, before=before) as (running, logged):
        with ExitStack() as stack:
            address = started(running)
            for number in range(100):
                options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
                channel = stack.enter_context(grpc.insecure_channel(address, options))
                stub = service_pb2_grpc.AttentionServiceStub(channel)
                assert stub.Predict(predict("tiny", text("the cat")), timeout=60).predictions, number
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
    (said,) = [line for line in logged if "connections fit into the limit of 256 open files" in line]
    assert "raise it to 2560" in said


@pytest.mark.parametrize("frontends", ["0", "1"])
def test_bytes_that_are_no_handshake_are_not_logged(repository: Path, tmp_path: Path, frontends: str) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    certificate.private_key_pem.write_to_path(str(key))
    chain.write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    flags = ("--repository", str(repository), *LOCAL, "--tls-cert", str(chain), "--tls-key", str(key))
    flags += ("--frontends", frontends)
    with process(*flags) as (running, logged):
        host, _, port = started(running).rpartition(":")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 64, b""):
            for _ in range(50):
                with socket.create_connection((host, int(port)), timeout=30) as caller:
                    caller.sendall(garbage)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
    assert not [line for line in logged if not line.startswith("{")]
    assert len(logged) < 60


def test_an_engine_that_is_stopped_holds_no_stop_up(repository: Path) -> None:
    flags = ("--repository", str(repository), *LOCAL, "--frontends", "1", "--grace-seconds", "1")
    with process(*flags) as (running, logged):
        with announced(running, logged) as stub:
            (engine,) = engines(running.pid)
            os.kill(engine, signal.SIGSTOP)
            call = stub.Predict.future(predict("tiny", text("the cat")), timeout=120)
            time.sleep(0.3)
            running.send_signal(signal.SIGTERM)
            assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert running.wait(timeout=60) == 0
        assert not alive(engine)
    said = {line["event"]: datetime.fromisoformat(line["time"]) for line in map(json.loads, logged)}
    # Its grace of a second and two more, by the server's own timers; they were ten longer.
    assert said["1 processes (engine) did not stop in time and are killed"] - said["stopping"] < timedelta(seconds=10)
