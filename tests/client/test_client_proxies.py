"""This machine is never reached through another one; other exceptions are as the environment writes them."""

import os
import subprocess
import sys

import pytest

from limelight.targets import is_direct
from tests.kit.forwarder import Forwarder

# Port 9 answers nobody: who is sent there by a proxy's variable gets no answer.
NOWHERE = "http://127.0.0.1:9"
ASKS = """
import asyncio, sys, limelight

async def ask(target):
    async with limelight.AsyncClient(target, attempts=1, timeout=20) as client:
        return len(await client.models())

for target in sys.argv[1:]:
    with limelight.Client(target, attempts=1, timeout=20) as client:
        assert len(client.models()) == asyncio.run(ask(target)) > 1, target
"""


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_this_machine_is_reached_directly_however_it_is_written(server: Forwarder, variable: str):
    environment = {**os.environ, variable: NOWHERE}
    hosts = "127.0.0.1 localhost localhost. LOCALHOST 127.1 2130706433 0.0.0.0 [::ffff:127.0.0.1]"
    targets = [f"{host}:{server.port}" for host in hosts.split()] + [f"dns:///localhost:{server.port}"]
    targets += [f"ipv4:127.0.0.1:{server.port}", f"ipv6:[::ffff:127.0.0.1]:{server.port}"]
    done = subprocess.run(
        [sys.executable, "-c", ASKS, *targets], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_no_proxy_in_capitals_counts_for_other_machines():
    """The name is nobody's: with a proxy it is the proxy that does not answer, without it the name is looked up."""
    program = (
        "import limelight\ntry:\n  limelight.Client('models.invalid:1', attempts=1, timeout=20).models()\n"
        "except limelight.Unavailable as error:\n  print(error)"
    )

    def said(**variables: str) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return subprocess.run(
            [sys.executable, "-c", program], env=clean | variables, capture_output=True, text=True, timeout=60
        ).stdout

    assert "127.0.0.1:9" in said(http_proxy=NOWHERE)
    for name in ("no_proxy", "NO_PROXY"):
        assert "127.0.0.1:9" not in said(http_proxy=NOWHERE, **{name: "x.example, .invalid"})


HERE = (
    "127.0.0.1:1 127.1:1 2130706433:1 [::1]:1 ::1 [::1%lo]:1 [::]:1 LocalHost.:1 models.localhost:1 unix:/run/x.sock "
    "unix-abstract:x vsock:2:1 dns:///127.0.0.1:1 ipv6:[::1]:1"
)
ELSEWHERE = "127.0.0.1.example:1 localhost.example:1 192.0.2.1:1 128.1:1 [fe80::1]:1 xlocalhost:1"


@pytest.mark.parametrize("target", [*HERE.split(), *ELSEWHERE.split(), ""])
def test_this_machine_is_told_from_others(target: str):
    assert is_direct(target, {}) is (target in HERE.split())


@pytest.mark.parametrize(
    ("exceptions", "target", "direct"),
    [
        ("*", "models.example:1", True),
        ("example", "models.example:1", True),
        (".example", "models.example:1", True),
        ("*.example", "models.example:1", True),
        (" a , models.example ", "MODELS.example.:1", True),
        ("models.example:1", "models.example:1", True),
        ("models.example:2", "models.example:1", False),
        ("dels.example", "models.example:1", False),
        ("10.0.0.0/8", "10.1.2.3:1", True),
        ("10.1.2.3", "ipv4:10.1.2.3:1", True),
        ("10.1.2.3:1", "10.1.2.3:1", True),
        ("10.1.2.3", "110.1.2.3:1", False),
        ("fd00::/8", "[fd00::1]:1", True),
        ("[fd00::1]", "[fd00::1]:1", True),
        ("", "models.example:1", False),
        (",", "models.example:1", False),
    ],
)
def test_exceptions_are_names_domains_addresses_and_networks(exceptions: str, target: str, direct: bool):
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        assert is_direct(target, {name: exceptions}) is direct
