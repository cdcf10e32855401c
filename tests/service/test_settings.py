"""Settings: flag over environment over file over default, checked once, with messages that name the culprit."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_service.configuration import SettingsError, load_settings
from limelight_service.platform import machine
from limelight_service.settings import Group, Settings, public_settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A settings file."""
    path = tmp_path / "limelight.toml"
    path.write_text('port = 1\ncores = 2\nhost = "::1"\n')
    return path


def test_a_flag_counts_before_the_environment_before_the_file_before_the_default(file: Path) -> None:
    found = load_settings(
        {"port": 3, "cores": None}, environment={"LIMELIGHT_PORT": "2", "LIMELIGHT_CORES": "5"}, file=file
    )
    assert (found.port, found.cores, found.host, found.provider) == (3, 5, "::1", "auto")


def test_nothing_listens_beyond_this_machine_unless_told() -> None:
    found = load_settings({}, environment={})
    assert (found.host, found.metrics_host) == ("127.0.0.1", "127.0.0.1")
    assert (found.port, found.metrics_port, found.max_response_bytes) == (50051, 9464, 64 * 2**20)


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        ({"port": 70000}, {}, r"--port is 70000; it may be from 0 to 65535"),
        ({}, {"LIMELIGHT_PORT": "abc"}, r"LIMELIGHT_PORT is 'abc', which is not a whole number"),
        ({}, {"LIMELIGHT_PROVIDER": "gpu"}, r"LIMELIGHT_PROVIDER is 'gpu'; it may be auto, cpu, cuda"),
        ({"drain_seconds": float("nan")}, {}, r"--drain-seconds is nan"),
        ({}, {"LIMELIGHT_GRACE_SECONDS": "inf"}, r"LIMELIGHT_GRACE_SECONDS is inf"),
        ({"max_instances": 9, "queue_rows": 8}, {}, r"max_instances is 9, more than queue_rows"),
        ({}, {"LIMELIGHT_INSECURE": "maybe"}, r"LIMELIGHT_INSECURE is 'maybe', which is not true or false"),
        ({"tls_cert": "a.pem"}, {}, r"tls_cert and tls_key are needed together"),
        ({"tls_client_ca": "a.pem"}, {}, r"tls_client_ca is of no use without"),
        (
            {"http_origins": "https://a.example/, b"},
            {},
            r"http_origins has 'https://a.example/'; an origin is scheme and",
        ),
        ({"gpu_devices": "first"}, {}, r"gpu_devices is 'first'; name GPUs by their numbers, as 0 or 0,1"),
        ({"gpu_devices": "0,1"}, {}, r"gpu_devices is '0,1', which are several engines; give --frontends 1 or more"),
    ],
)
def test_what_cannot_be_used_is_named(flags: dict[str, object], environment: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings(flags, environment=environment)


TLS = {"tls_cert": "cert.pem", "tls_key": "key.pem"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"host": "0.0.0.0"},
            "whoever reaches it could call, unencrypted: give --tls-cert and --tls-key .and --tokens",
        ),
        ({"host": "::"}, "host is ::, which other machines reach"),
        ({"host": ""}, "host is , which other machines reach"),
        ({"host": "10.1.2.3"}, "which other machines reach"),
        ({"host": "no-such-host.invalid"}, "which other machines reach"),
        ({"host": "0.0.0.0", "tokens": "tokens.toml"}, "tokens would be sent unencrypted"),
        ({"host": "0.0.0.0", **TLS, "metrics_host": "0.0.0.0"}, "metrics_host is 0.0.0.0.*--insecure-metrics"),
    ],
)
def test_what_would_stand_open_is_refused_unless_somebody_says_that_it_may(
    flags: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings(flags, environment={})
    assert load_settings(flags | {"insecure": True}, environment={}).insecure


@pytest.mark.parametrize(
    "flags",
    [
        {"host": "localhost"},
        {"host": "127.9.9.9", "tokens": "tokens.toml"},
        {"host": "::1"},
        {"host": "0.0.0.0", **TLS},
        {"host": "0.0.0.0", **TLS, "tokens": "tokens.toml"},
        {"host": "0.0.0.0", **TLS, "tls_client_ca": "ca.pem"},
        {"metrics_host": "0.0.0.0", "metrics_port": 0},
        {"metrics_host": "0.0.0.0", "insecure_metrics": True},
    ],
)
def test_what_is_locked_or_reached_by_nobody_else_may_be_served(flags: dict[str, object]) -> None:
    assert load_settings(flags, environment={})


def test_a_truth_is_written_as_people_write_it() -> None:
    for text, value in (("true", True), ("1", True), ("No", False), ("false", False)):
        assert load_settings({}, environment={"LIMELIGHT_REFLECTION": text}).reflection is value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prot = 1", "no setting 'prot'"),
        ("lanes = 1", "no setting 'lanes'"),
        ('port = "1"', "port is '1', which is not a whole number"),
        ("port = true", "port is True, which is not a whole number"),
        ("port = ", "is not TOML"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(SettingsError, match=message) as refused:
        load_settings({}, environment={}, file=path)
    assert "bad.toml" in refused.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings({}, environment={}, file=tmp_path / "none.toml")


@given(
    repository=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    grace=st.floats(0, 3600),
    port=st.integers(0, 65535),
)
def test_what_is_printed_reads_back(repository: str, grace: float, port: int) -> None:
    import tempfile

    settings = load_settings({"repository": repository, "grace_seconds": grace, "port": port}, environment={})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "printed.toml"
        path.write_text(settings.to_toml(), encoding="utf-8", newline="\n")
        assert load_settings({}, environment={}, file=path) == settings


def test_cores_and_memory_are_cut_to_what_the_control_group_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    cores, memory = machine.available_cores(), machine.available_memory()
    assert cores >= 1 and memory > 2**28
    monkeypatch.setattr(machine, "cpu_quota", lambda: 0.5)
    monkeypatch.setattr(machine, "memory_limit", lambda: 2**28)
    assert (machine.available_cores(), machine.available_memory()) == (1, 2**28)
    monkeypatch.setattr(machine, "cpu_quota", lambda: cores + 0.5)
    monkeypatch.setattr(machine, "memory_limit", lambda: 2**62)
    assert (machine.available_cores(), machine.available_memory()) == (cores, memory)


def test_memory_is_cut_to_the_limit_of_the_address_space() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)); "
        "from limelight_service.platform.machine import available_memory; print(available_memory())"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) <= 2**31


def test_defaults_pass_their_own_checks() -> None:
    assert load_settings({}, environment={}) == Settings()


def test_cores_can_be_fewer_than_there_are() -> None:
    assert load_settings({"cores": 3}, environment={}).core_count == 3
    assert load_settings({}, environment={}).core_count == machine.available_cores()


def test_users_set_few_settings_each_in_a_group_of_the_help() -> None:
    public = public_settings()
    assert len(public) <= 39
    groups = [each.metadata["rule"].group for each in public]
    assert list(dict.fromkeys(groups)) == list(Group)
    result = subprocess.run(
        [sys.executable, "-m", "limelight.cli", "serve", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert result.returncode == 0, result.stderr
    shown = set(re.findall(r"--([a-z0-9-]+)", result.stdout))
    assert {each.name.replace("_", "-") for each in public} <= shown
    assert not shown & {each.name.replace("_", "-") for each in fields(Settings) if each not in public}
    places = [result.stdout.index(f"\n{group.value}:\n") for group in Group]
    assert places == sorted(places)


def test_limits_are_set_by_programs_alone(tmp_path: Path) -> None:
    assert load_settings({"lanes": 3, "max_held_bytes": 7}, environment={}).lanes == 3
    assert load_settings({}, environment={"LIMELIGHT_LANES": "3"}).lanes == 0
    with pytest.raises(SettingsError, match="--max-calls-per-connection is 0; it may be from 1"):
        load_settings({"max_calls_per_connection": 0}, environment={})


def test_each_device_is_an_engine() -> None:
    found = load_settings({"gpu_devices": "0,1", "frontends": 1}, environment={})
    assert found.devices == (0, 1)
