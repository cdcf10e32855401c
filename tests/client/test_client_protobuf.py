"""The client as a stranger installs it: a wheel of its own, under the oldest and the newest protobuf that it allows."""

import hashlib
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

from tests.client.served import tiny
from tests.kit.forwarder import Forwarder

ROOT = Path(__file__).resolve().parents[2]
# Environments are kept between runs: what they hold does not change, and making one takes longer than the test.
CACHE = ROOT / "build" / "client"


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's wheel, built again only where its sources changed."""
    sources = [*sorted(ROOT.glob("client/limelight/**/*.py")), *sorted(ROOT.glob("proto/**/*.proto"))]
    sources = [path for path in sources if not path.stem.endswith(("_pb2", "_pb2_grpc"))]
    sources += [ROOT / "client" / name for name in ("pyproject.toml", "hatch_build.py", "README.md")]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    folder = CACHE / digest.hexdigest()[:16]
    if not list(folder.glob("*.whl")):
        # Built from a copy: the build generates protocol code, and other tests are importing the one that is here.
        copy = tmp_path_factory.mktemp("source")
        for path in sources:
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (copy / "client" / "limelight" / "py.typed").touch()
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, copy / "client")
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("protobuf", ["6.31.1", "7.*"])
def test_the_client_works_with_protobuf(protobuf: str, wheel: Path, server: Forwarder):
    folder = CACHE / f"python{sys.version_info.major}.{sys.version_info.minor}-protobuf{protobuf.rstrip('.*')}-protos"
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)  # to install one there takes longer than the rest
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True)
        needed = (f"protobuf=={protobuf}", "grpcio>=1.76", "googleapis-common-protos", "numpy>=1.26")
        run(*pip, "install", "-q", "--no-compile", *needed)
        ready.touch()
    run(*pip, "install", "-q", "--no-deps", "--no-index", "--force-reinstall", wheel)
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
