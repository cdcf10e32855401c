"""Client and server of different versions, bundles of a newer one, and servers replaced one after the other."""

import json
import shutil
import signal
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

import limelight
from limelight.cli import main
from limelight.v1 import service_pb2, service_pb2_grpc
from limelight_service.configuration import load_settings
from tests.kit.bundles import tiny
from tests.kit.processes import process, scrape, started
from tests.kit.serving import Running, eventually, free_port, predict, serving, text

# A field that no message has: number 1000, three bytes.
NEWER = b"\xc2\x3e\x03new"
ROUND_ROBIN: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
# As docs/upgrades.md gives it: a server that stops says so, and gets no call from then on.
CONFIGURATION = ROUND_ROBIN | {"healthCheckConfig": {"serviceName": ""}}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    tiny(tmp_path / "models")
    return tmp_path / "models"


@pytest.fixture
def running(repository: Path) -> Iterator[Running]:
    with serving(repository) as found:
        yield found


def test_what_a_newer_side_adds_is_ignored_by_the_older(running: Running) -> None:
    call = running.channel.unary_unary("/limelight.v1.AttentionService/Predict")
    request = predict("tiny", text("the cat"))
    plain, added = (call(request.SerializeToString() + more) for more in (b"", NEWER))
    plain, added = (service_pb2.PredictResponse.FromString(each + NEWER).predictions[0] for each in (plain, added))
    assert plain.outputs == added.outputs and plain.outputs
    with pytest.raises(grpc.RpcError) as refused:
        running.channel.unary_unary("/limelight.v1.AttentionService/Newer")(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED  # and the client has an error for it
    assert issubclass(limelight.Unimplemented, limelight.Error)


def test_a_newer_setting_is_ignored_as_a_variable_and_refused_as_a_flag(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_settings({}, environment={"LIMELIGHT_REPOSITORY": str(repository), "LIMELIGHT_NEWER": "1"})
    assert main(["serve", "--repository", str(repository), "--newer", "1"]) == 2
    assert "--newer" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"schemaVersion": 99}, {"requiredFeatures": ["newer"]}])
def test_a_bundle_that_is_too_new_leaves_the_version_before_it(repository: Path, change: dict[str, Any]) -> None:
    shutil.copytree(repository / "tiny" / "1", repository / "tiny" / "2")
    file = repository / "tiny" / "2" / "bundle.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with serving(repository) as running, limelight.Client(running.server.address) as client:
        states = {each.version: each.state for each in client.models()}
        assert states == {1: "ready", 2: "failed"}
        assert client.predict("tiny", {"text": "the cat"}).provenance.version == 1


def test_servers_replaced_one_after_the_other_lose_no_call(repository: Path) -> None:
    """Without any retry. What stops says so a moment before it stops, and clients hear of it."""
    ports, metrics = [free_port(), free_port()], [free_port(), free_port()]
    codes: Counter[grpc.StatusCode] = Counter()
    over = threading.Event()

    def call(stub: service_pb2_grpc.AttentionServiceStub) -> None:
        while not over.is_set():
            try:
                stub.Predict(predict("tiny", text("the cat")), timeout=30)
                codes[grpc.StatusCode.OK] += 1
            except grpc.RpcError as error:
                codes[error.code()] += 1

    with ExitStack() as stack:

        def start(place: int) -> Any:
            flags = ["--repository", str(repository), "--port", str(ports[place]), "--drain-seconds", "2"]
            flags += ["--metrics-port", str(metrics[place]), "--max-connection-age-seconds", "2"]
            server, _ = stack.enter_context(process(*flags))
            started(server)
            return server

        servers = [start(place) for place in (0, 1)]
        options = [("grpc.service_config", json.dumps(CONFIGURATION)), ("grpc.enable_retries", 0)]
        target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
        channel = stack.enter_context(grpc.insecure_channel(target, options))
        grpc.channel_ready_future(channel).result(30)
        callers = [threading.Thread(target=call, args=(service_pb2_grpc.AttentionServiceStub(channel),)) for _ in "abc"]
        for each in callers:
            each.start()
        for place in (0, 1):
            servers[place].send_signal(signal.SIGTERM)
            assert servers[place].wait(60) == 0
            servers[place] = start(place)
            assert eventually(partial(_has_answered, metrics[place]))  # a lost address is tried again
        over.set()
        for each in callers:
            each.join()
    assert codes.keys() == {grpc.StatusCode.OK} and codes.total() > 100, codes


def _has_answered(metrics_port: int) -> bool:
    """Whether a server has answered a call to Predict."""
    answered = ("grpc_server_handled_total", 'grpc_method="Predict"', 'grpc_code="OK"')
    return any(value for name, value in scrape(metrics_port).items() if all(each in name for each in answered))


class Names(threading.Thread):
    """A server of names that gives every name the same addresses."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__(daemon=True)
        self.addresses = addresses
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def run(self) -> None:
        while True:
            asked, caller = self._socket.recvfrom(2048)
            end = asked.index(b"\0", 12) + 5
            found = self.addresses if asked[end - 4 : end - 2] == b"\0\1" else []  # A records
            records = [b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(each) for each in found]
            counts = struct.pack(">HHHH", 1, len(found), 0, 0)
            self._socket.sendto(asked[:2] + b"\x81\x80" + counts + asked[12:end] + b"".join(records), caller)


def test_clients_find_a_new_server_when_a_connection_has_its_age(repository: Path) -> None:
    names, port = Names(["127.0.0.1"]), free_port()
    names.start()
    options = [("grpc.service_config", json.dumps(ROUND_ROBIN)), ("grpc.dns_min_time_between_resolutions_ms", 500)]
    with ExitStack() as stack:
        for host in ("127.0.0.1", "127.0.0.2"):
            metrics = free_port()
            settings = {"host": host, "port": port, "metrics_port": metrics, "max_connection_age_seconds": 1.0}
            stack.enter_context(serving(repository, **settings))
        target = f"dns://127.0.0.1:{names.port}/limelight:{port}"
        stub = service_pb2_grpc.AttentionServiceStub(stack.enter_context(grpc.insecure_channel(target, options)))
        request = predict("tiny", text("the cat"))

        def reached_the_second() -> bool:
            stub.Predict(request, timeout=30)
            return _has_answered(metrics)

        assert not reached_the_second()
        names.addresses.append("127.0.0.2")
        assert eventually(reached_the_second)
