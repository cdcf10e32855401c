"""Installation, builds and training: versions are named once, and nothing that is tracked is written unasked."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_image_takes_the_wheel_whatever_its_version() -> None:
    assert "limelight-*.whl" in text("deploy/Dockerfile")
    for version in re.findall(r'^version = "(.*)"$', text("pyproject.toml"), re.MULTILINE):
        assert version not in text("deploy/Dockerfile")


def test_packages_for_node_have_the_same_exact_version_everywhere() -> None:
    found = {
        name: set(re.findall(r"@grpc/[a-z-]+@\S+", text(name)))
        for name in (".ci/run", "docs/calling.md", "examples/attend.cjs")
    }
    packages = found[".ci/run"]
    assert len(packages) == 2 and all(re.fullmatch(r"@grpc/[a-z-]+@\d+\.\d+\.\d+", package) for package in packages)
    assert all(each == packages for each in found.values()), found


def test_tritons_client_has_the_same_exact_version_everywhere() -> None:
    names = ("tests/kit/clients.txt", "docs/open-inference-protocol.md")
    found = {name: set(re.findall(r"tritonclient\[grpc[a-z,]*\]==(\d+\.\d+\.\d+)", text(name))) for name in names}
    assert all(len(each) == 1 for each in found.values()) and len(set.union(*found.values())) == 1, found


def test_a_server_has_one_version_of_grpc_and_a_client_any_from_a_certain_one_on() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    client = tomllib.loads(text("client/pyproject.toml"))["project"]
    (exact,) = (each for each in project["optional-dependencies"]["serving"] if re.match("grpcio[=<>]", each))
    assert re.fullmatch(r"grpcio==\d+\.\d+\.\d+", exact) and exact in text("constraints.txt").splitlines()
    assert "grpcio>=1.76" in client["dependencies"]


@pytest.mark.parametrize(("target", "writes"), [("demo-models", False), ("install-demo-models", True)])
def test_tracked_models_are_replaced_only_when_asked(target: str, writes: bool) -> None:
    planned = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ("deploy/demo" in planned) == writes


def test_the_demo_has_the_models_that_make_trains_and_is_small() -> None:
    demo = ROOT / "deploy" / "demo"
    command = ["make", "--dry-run", "demo-models"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {each.name for each in demo.iterdir()} == set(re.findall(r"--name (\S+)", planned))
    assert sum(file.stat().st_size for file in demo.rglob("*") if file.is_file()) <= 2_000_000
