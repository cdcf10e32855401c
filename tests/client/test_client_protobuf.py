"""The client as a stranger installs it: a wheel of its own, under the oldest and the newest protobuf that it allows."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

from tests.client.served import tiny
from tests.kit.forwarder import Forwarder
from tests.kit.wheels import client_wheel, run

ROOT = Path(__file__).resolve().parents[2]
# Environments are kept between runs: what they hold does not change, and making one takes longer than the test.
CACHE = ROOT / "build" / "client"


@pytest.mark.slow
@pytest.mark.parametrize("protobuf", ["6.31.1", "7.*"])
def test_the_client_works_with_protobuf(protobuf: str, server: Forwarder):
    folder = CACHE / f"python{sys.version_info.major}.{sys.version_info.minor}-protobuf{protobuf.rstrip('.*')}-protos"
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)  # to install one there takes longer than the rest
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True)
        needed = (f"protobuf=={protobuf}", "grpcio>=1.76", "googleapis-common-protos", "numpy>=1.26")
        run(*pip, "install", "-q", "--no-compile", *needed)
        ready.touch()
    run(*pip, "install", "-q", "--no-deps", "--no-index", "--force-reinstall", client_wheel())
    assert "No broken requirements" in run(*pip, "check")
    # -I: neither this folder nor the environment may lend it a module.
    versions, printed = run(python, "-I", Path(__file__).with_name("smoke.py"), server.target).splitlines()
    assert versions.startswith(protobuf.rstrip("*"))
    (weights, logits, ids), answer = json.loads(printed), tiny("a mat")
    np.testing.assert_allclose(weights, answer.maps["encoder.1.self"].weights, atol=1e-6)
    np.testing.assert_allclose(logits, answer.outputs["logits"], rtol=1e-4)
    assert ids == answer.tensors["ids"].tolist()
    # The command is there without the packages of its extra, and says so.
    bare = subprocess.run([folder / "bin" / "limelight", "models"], capture_output=True, text=True)
    assert bare.returncode == 1
    needed = f"{python} -m pip install 'limelight-client[cli]'"
    assert bare.stderr == f"limelight: the command line needs typer: {needed}\n"
