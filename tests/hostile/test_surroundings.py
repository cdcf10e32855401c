"""Surroundings of a server: it starts, answers, and stops in order, whatever a system lacks or tells it."""

import platform
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
import trustme

from limelight.v1 import service_pb2_grpc
from limelight_service.configuration import ignored_variables, load_settings
from tests.hostile.capped import answering, good
from tests.kit import bundles
from tests.kit.processes import ROOT
from tests.kit.serving import attend, text

MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
ARCHITECTURE = platform.machine()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.tiny(folder, "wide", max_tokens=256)
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
    "memory that is written is never run": NO_NEW_CODE,
}
SHARING = [(each, 1) for each in SURROUNDINGS]  # processes share large maps


def can_filter(before: str) -> bool:
    """True where a process may filter its own calls as this code does."""
    ended = subprocess.run([sys.executable, "-c", f"import sys\n{before}"], capture_output=True, text=True, check=False)
    return "cannot filter" not in ended.stderr


@pytest.mark.parametrize(("where", "frontends"), [*SHARING, ("files of 100 kB", 0), (list(SURROUNDINGS)[-1], 0)])
def test_a_server_starts_answers_large_maps_and_stops(repository: Path, where: str, frontends: int) -> None:
    if ("memfd" in where and ARCHITECTURE not in MEMFD_CREATE) or not can_filter(SURROUNDINGS[where]):
        pytest.skip("this system does not let a process filter its own calls")
    long = text(" ".join(["a"] * 200))  # two maps of 320 kB, which processes share where they can
    with answering(repository, "--frontends", frontends, before=SURROUNDINGS[where]) as server:
        assert server.stub.Attend(attend("wide", long), timeout=60).ByteSize() > 2**19
    said = [line for line in server.logged if "processes cannot share memory" in line]
    assert len(said) == frontends * ("memfd" in where or where == "files of 100 kB")


def test_a_log_that_may_not_grow_keeps_no_server_from_answering(repository: Path, tmp_path: Path) -> None:
    before = LIMITED.format(size=4096)
    with (tmp_path / "log").open("wb") as log, answering(repository, errors=log.fileno(), before=before) as server:
        assert all(good(server.stub) for _ in range(50))
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


@pytest.mark.parametrize("frontends", [0, 1])
def test_a_service_tells_its_manager_and_minds_neither_names_nor_hangups_nor_few_files(
    repository: Path, tmp_path: Path, frontends: int
) -> None:
    """Beside services of its own name, with 256 files, behind a terminal that is closed."""
    address = str(tmp_path / "notify")
    variables = {**KUBERNETES, "NOTIFY_SOCKET": address, "LIMELIGHT_METRICS_HOST": "127.0.0.1"}
    before = "import os, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))"
    before += f"; os.environ.update({variables!r})"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, ExitStack() as stack:
        manager.bind(address)
        manager.settimeout(60)
        with answering(repository, "--frontends", frontends, before=before) as server:
            assert manager.recv(100) == b"READY=1"
            server.process.send_signal(signal.SIGHUP)
            assert good(server.stub)
            for number in range(100):
                options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
                channel = stack.enter_context(grpc.insecure_channel(server.address, options))
                assert good(service_pb2_grpc.AttentionServiceStub(channel)), number
            stack.close()
            assert server.process.poll() is None
        assert manager.recv(100) == b"STOPPING=1"
    for name in ("LIMELIGHT_PORT", "LIMELIGHT_METRICS_PORT"):
        assert len([line for line in server.logged if f"{name} is an address" in line]) == 1
    (said,) = [line for line in server.logged if "connections fit into the limit of 256 open files" in line]
    assert "raise it to 2560" in said


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = tmp_path / "limelight.service"
    written = (ROOT / "deploy" / "systemd" / "limelight.service").read_text(encoding="utf-8")
    unit.write_text(written.replace("/opt/limelight/bin/limelight", "/bin/true"))
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("frontends", [0, 1])
def test_bytes_that_are_no_handshake_are_not_logged(repository: Path, tmp_path: Path, frontends: int) -> None:
    certificate = trustme.CA().issue_cert("localhost", "127.0.0.1")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    certificate.private_key_pem.write_to_path(str(key))
    chain.write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    flags = ("--tls-cert", chain, "--tls-key", key, "--frontends", frontends)
    with answering(repository, *flags) as server:
        host, _, port = server.address.rpartition(":")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 64, b""):
            for _ in range(50):
                with socket.create_connection((host, int(port)), timeout=30) as caller:
                    caller.sendall(garbage)
    assert not [line for line in server.logged if not line.startswith("{")]
    assert len(server.logged) < 60
