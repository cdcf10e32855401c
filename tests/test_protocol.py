"""The protocol lints and breaks nobody, and the code that the build generates is the code of these files."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format

from limelight.v1 import service_pb2
from limelight_bundle.v1 import bundle_pb2

ROOT = Path(__file__).resolve().parent.parent
IMAGE = "limelight.binpb.gz"


def buf(*arguments: str, folder: Path = ROOT / "proto") -> str:
    """Complaints of buf about the protocol in a folder; empty where it has none."""
    command = [str(Path(sys.executable).parent / "buf"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert result.returncode in (0, 100), result.stderr  # 100: it found something
    return result.stdout + result.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The protocol in a folder of its own, to be changed."""
    return shutil.copytree(ROOT / "proto", tmp_path / "proto")


def change(path: Path, pattern: str, replacement: str) -> None:
    """Change one line of a .proto file."""
    text, number = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert number == 1, f"{pattern} stands {number} times in {path.name}"
    path.write_text(text, encoding="utf-8")


def test_the_protocol_lints() -> None:
    assert buf("lint") == ""


def test_the_protocol_breaks_nobody() -> None:
    assert buf("breaking", "--against", IMAGE) == ""


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "says"),
    [
        ("limelight/v1/values.proto", r"optional uint64 seed = 2;", "optional uint64 seed = 9;", "seed"),
        ("limelight/v1/attention.proto", r"^  string query_labels = (\d+);", r"  bytes query_labels = \1;", "bytes"),
        ("limelight/v1/service.proto", r"^  rpc ListModels\(.*$", "", "ListModels"),
        ("limelight/bundle/v1/bundle.proto", r"schema_version = 1;", "schema = 1;", "schema"),
    ],
)
def test_a_change_that_breaks_somebody_is_seen(
    copy: Path, file: str, pattern: str, replacement: str, says: str
) -> None:
    change(copy / file, pattern, replacement)
    assert says in buf("breaking", "--against", IMAGE, folder=copy)


def test_a_field_that_is_added_breaks_nobody(copy: Path) -> None:
    change(copy / "limelight/v1/values.proto", r"^message Pair \{$", "message Pair {\n  // New.\n  string third = 3;")
    assert buf("breaking", "--against", IMAGE, folder=copy) == ""


def test_the_image_is_the_same_whoever_writes_it(copy: Path) -> None:
    def image() -> bytes:
        buf("build", "--exclude-source-info", "-o", "again.binpb.gz", folder=copy)
        return (copy / "again.binpb.gz").read_bytes()

    assert image() == image()


def test_the_service_has_the_methods_of_the_design() -> None:
    service = service_pb2.DESCRIPTOR.services_by_name["AttentionService"]
    methods = {method.name: method.server_streaming for method in service.methods}
    assert methods == {
        "Predict": False,
        "Attend": False,
        "AttendStream": True,
        "Generate": True,
        "Explain": False,
        "ListModels": False,
        "GetModel": False,
    }


def test_a_bundle_has_no_64_bit_integers_in_its_json() -> None:
    bundle = bundle_pb2.Bundle(schema_version=1)
    bundle.description.version = 3
    bundle.graphs.add(name="main", file="model.onnx")
    text = json_format.MessageToJson(bundle, preserving_proto_field_name=True)
    assert json.loads(text)["description"]["version"] == 3
