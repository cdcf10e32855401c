"""Every command finds the server in the same way, and none minds closed or full streams."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from limelight.base.commands import CommandError
from limelight.cli.connection import server_of
from tests.client.command.people import COMMAND, Run
from tests.kit.forwarder import Forwarder

KUBERNETES = {
    "LIMELIGHT_SERVICE_HOST": "10.96.0.7",
    "LIMELIGHT_SERVICE_PORT": "50051",
    "LIMELIGHT_PORT": "tcp://10.96.0.7:50051",
    "LIMELIGHT_PORT_50051_TCP": "tcp://10.96.0.7:50051",
}


@pytest.mark.parametrize(
    ("environment", "target"),
    [
        ({}, "127.0.0.1:50051"),
        ({"LIMELIGHT_TARGET": "a:1", "LIMELIGHT_PORT": "2", "LIMELIGHT_HOST": "b"}, "a:1"),
        ({"LIMELIGHT_PORT": "6000"}, "127.0.0.1:6000"),
        ({"LIMELIGHT_HOST": "models.example"}, "models.example:50051"),
        ({"LIMELIGHT_HOST": "0.0.0.0", "LIMELIGHT_PORT": "6000"}, "127.0.0.1:6000"),
        ({"LIMELIGHT_HOST": "::"}, "[::1]:50051"),
        ({"LIMELIGHT_HOST": "fd00::1"}, "[fd00::1]:50051"),
        ({"LIMELIGHT_TARGET": "", "LIMELIGHT_PORT": " ", "LIMELIGHT_HOST": ""}, "127.0.0.1:50051"),
        (KUBERNETES, "127.0.0.1:50051"),
        ({**KUBERNETES, "LIMELIGHT_TARGET": "a:1"}, "a:1"),
    ],
)
def test_the_server_is_where_the_environment_says(environment: dict[str, str], target: str):
    assert server_of(environment) == target


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "50051.0"])
def test_what_is_no_port_is_one_line(port: str):
    with pytest.raises(CommandError, match="LIMELIGHT_PORT is"):
        server_of({"LIMELIGHT_PORT": port})


@pytest.mark.parametrize(
    "command",
    [
        ("health",),
        ("models",),
        ("predict", "tiny", "x"),
        ("attend", "tiny", "x"),
        ("generate", "echo", "x"),
        ("bench", "tiny", "x", "-n", "1"),
    ],
)
def test_every_command_hears_the_same_variables(
    run: Run, server: Forwarder, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    for name in ("LIMELIGHT_CA", "LIMELIGHT_CERT", "LIMELIGHT_KEY", "LIMELIGHT_TLS", "LIMELIGHT_SERVER_NAME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("LIMELIGHT_TOKEN", "")
    monkeypatch.setenv("LIMELIGHT_TARGET", "")
    monkeypatch.setenv("LIMELIGHT_HOST", "0.0.0.0")
    monkeypatch.setenv("LIMELIGHT_PORT", str(server.port))
    assert run(*command)[::2] == (0, "")
    monkeypatch.setenv("LIMELIGHT_PORT", KUBERNETES["LIMELIGHT_PORT"])
    assert run(*command, "--target", server.target)[::2] == (0, "")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    limelight = " ".join(COMMAND)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("limelight ", f"{limelight} ")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_closed_streams_are_as_if_nobody_listened(server: Forwarder):
    for command in ("attend tiny x >&-", "models <&- >&- 2>&-"):
        done = shell(f"limelight {command}")
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (command, done.stderr)
    done = shell("limelight predict tiny - <&-")
    assert done.returncode == 1 and re.fullmatch("limelight: INVALID_ARGUMENT: .* is empty\n", done.stderr)
    done = shell("limelight models nope >&-")
    assert done.returncode == 1 and re.fullmatch("limelight: NOT_FOUND: .*\n", done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_line(server: Forwarder):
    done = shell("limelight models > /dev/full")
    assert (done.returncode, done.stderr) == (1, "limelight: No space left on device\n")


def test_a_terminal_that_lacks_characters_gets_escapes_and_json_stays_json(server: Forwarder):
    done = shell("limelight attend tiny '→ é' --map encoder.0.self", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "\n\\u2192(0.5000) \\xe9(0.5000)\n" in done.stdout
    done = shell("limelight predict tiny 'a → 😀' --json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["label_sets"]["tokens"]["labels"] == ["a", "→", "😀"]


def test_bytes_that_are_not_utf8_are_refused_by_field_and_place(run: Run, server: Forwarder, tmp_path: Path):
    (tmp_path / "a").write_bytes(b"7 \xe4")
    # Python gives the byte 0xff of an argument as "\udcff".
    for words, line in {
        ("predict", "tiny", "-i", "text=7 \udcff"): r'instances\[0\].inputs\["text"\]: character 2 is half.*',
        ("predict", "\udcff", "a"): "model.name: character 0 .*",
        ("attend", "tiny", "a", "--map", "\udcff"): "maps.0.: character 0 .*",
        ("attend", "tiny", "a", "--group", "\udcff=0:1"): ".*key_groups.*: character 0 .*",
        ("generate", "echo", "a", "--stop", "\udcff"): "stop.0.: character 0 .*",
        ("models", "--target", "\udcff"): "target: character 0 .*",
        ("predict", "tiny", f"@{tmp_path}/a"): r'instances\[0\].inputs\["text"\]: byte 2 of .*/a \(0xe4\) is not UTF-8',
        ("models", "--token-file", f"{tmp_path}/a"): "token: byte 2 of .*",
    }.items():
        status, _, errors = run(*words)
        assert status == 1 and re.fullmatch(f"limelight: {line}\n", errors), (words, errors)
    for command, line in {
        r"predict tiny $'7 \xff'": r'instances\[0\].inputs\["text"\]: character 2 is half .* byte 0xff.*',
        f"predict tiny - < {tmp_path}/a": r'instances\[0\].inputs\["text"\]: byte 2 of standard input .*',
    }.items():
        done = shell(f"limelight {command}")
        assert done.returncode == 1 and re.fullmatch(f"limelight: {line}\n", done.stderr), (command, done.stderr)
    # A file whose name is not UTF-8 is a file all the same.
    done = shell(f"limelight attend tiny a --png {tmp_path}/$'\\xff.png'")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{tmp_path}/\\udcff.png")
