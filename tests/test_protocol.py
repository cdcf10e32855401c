"""The protocol lints, and the code that the build generates is the code of these files."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from google.protobuf import json_format

from bundle.v1 import bundle_pb2
from limelight.v1 import service_pb2

ROOT = Path(__file__).resolve().parent.parent


def buf() -> str | None:
    """Find buf, where somebody installed it."""
    local = ROOT / "build" / "node" / "node_modules" / ".bin" / "buf"
    return str(local) if local.exists() else shutil.which("buf")


@pytest.mark.skipif(buf() is None, reason="buf is not installed (npm install @bufbuild/buf)")
def test_the_protocol_lints() -> None:
    result = subprocess.run([str(buf()), "lint"], capture_output=True, text=True, cwd=ROOT / "proto", check=False)
    assert result.stdout + result.stderr == ""


def test_the_service_has_the_methods_of_the_design() -> None:
    service = service_pb2.DESCRIPTOR.services_by_name["AttentionService"]
    methods = {method.name: method.server_streaming for method in service.methods}
    assert methods == {
        "Predict": False,
        "Attend": False,
        "AttendStream": True,
        "Generate": True,
        "ListModels": False,
        "GetModel": False,
    }


def test_a_bundle_has_no_64_bit_integers_in_its_json() -> None:
    bundle = bundle_pb2.Bundle(schema_version=1)
    bundle.description.version = 3
    bundle.graphs.add(name="main", file="model.onnx")
    text = json_format.MessageToJson(bundle, preserving_proto_field_name=True)
    assert json.loads(text)["description"]["version"] == 3
