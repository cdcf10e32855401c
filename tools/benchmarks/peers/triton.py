"""Triton's core with its python backend, as the package nvidia-pytriton brings it. `make peers` installs it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import onnx

from benchmarks.peers.kserve import model_ready
from benchmarks.process import Process, cores, free_port
from benchmarks.records import ROOT

HOME = ROOT / "build" / "peers"
_MODEL = Path(__file__).with_name("triton_model.py")
_TYPES = {onnx.TensorProto.FLOAT: "TYPE_FP32", onnx.TensorProto.INT64: "TYPE_INT64", onnx.TensorProto.BOOL: "TYPE_BOOL"}


@dataclass(frozen=True)
class Tuning:
    """A tuning: instances, each with its share of the cores, and the longest delay of a batch, in ms."""

    instances: int
    delay: int

    def __str__(self) -> str:
        return f"{self.instances} × {cores() // self.instances}, {self.delay} ms"


def tunings() -> list[Tuning]:
    """One instance with every core, and one a core; with and without waiting for a batch."""
    return [Tuning(instances, delay) for instances in sorted({1, cores()}) for delay in (0, 2)]


def missing() -> str:
    """Tell why Triton is not installed; empty where it is."""
    return "" if _server_folder() else "nvidia-pytriton is not in build/peers: run `make peers`"


class Triton(Process):
    """tritonserver with one model of one graph."""

    def __init__(self, name: str, graph: Path, tuning: Tuning, provider: str = "cpu") -> None:
        folder = _server_folder()
        if folder is None:
            raise FileNotFoundError(missing())
        self.tuning = tuning
        self._repository = Path(tempfile.mkdtemp(prefix="triton-"))
        version = self._repository / name / "1"
        version.mkdir(parents=True)
        shutil.copy(_MODEL, version / "model.py")
        (version.parent / "config.pbtxt").write_text(config(graph, tuning, provider))
        _install_stub(folder)
        ports = [free_port() for _ in range(3)]
        command = [str(folder / "bin" / "tritonserver"), f"--model-repository={self._repository}"]
        command += [f"--backend-directory={folder / 'backends'}", "--disable-auto-complete-config"]
        command += [f"--grpc-port={ports[0]}", f"--http-port={ports[1]}", f"--metrics-port={ports[2]}"]
        command += ["--grpc-address=127.0.0.1", "--http-address=127.0.0.1", "--metrics-address=127.0.0.1"]

        def ready(channel: grpc.Channel) -> bool:
            return model_ready(channel, name)

        libraries = f"{folder / 'external_libs'}:{_python('LIBDIR')}"
        # The backend's Python is the first on the path. It must be the peers': with NumPy 2 every answer is empty.
        environment = {"LD_LIBRARY_PATH": libraries, "PATH": f"{HOME / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": ""}
        log = self._repository / "log"
        super().__init__(command, f"127.0.0.1:{ports[0]}", ready, environment=environment, log=log)

    def _stop(self) -> None:
        super()._stop()
        shutil.rmtree(self._repository, ignore_errors=True)


def config(graph: Path, tuning: Tuning, provider: str = "cpu") -> str:
    """Write config.pbtxt: the graph's own inputs and outputs, without their first axis. provider: cpu or cuda."""
    model = onnx.load(graph, load_external_data=False).graph
    optional = {each.name for each in model.initializer}
    inputs = [each for each in model.input if each.name not in optional]
    outputs = [each for each in model.output if ":" not in each.name]  # the others are optional
    lines = ['backend: "python"', f"max_batch_size: {128 if provider == 'cuda' else 32}"]
    for kind, values in (("input", inputs), ("output", outputs)):
        tensors = []
        for each in values:
            sizes = [axis.dim_value or -1 for axis in each.type.tensor_type.shape.dim][1:]
            data_type = _TYPES[each.type.tensor_type.elem_type]
            tensors.append(f'{{ name: "{each.name}" data_type: {data_type} dims: {sizes} }}')
        lines.append(f"{kind} [ {', '.join(tensors)} ]")
    lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {tuning.delay * 1000} }}")
    lines.append(f"instance_group [ {{ kind: KIND_CPU count: {tuning.instances} }} ]")
    parameters = {"graph": graph.resolve(), "threads": cores() // tuning.instances, "provider": provider}
    for key, value in parameters.items():
        lines.append(f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}')
    return "\n".join(lines) + "\n"


def _server_folder() -> Path | None:
    return next(HOME.glob("lib/python3.*/site-packages/pytriton/tritonserver"), None)


def _install_stub(folder: Path) -> None:
    """Put the backend's stub for this Python where the backend looks for it."""
    stubs = folder / "python_backend_stubs" / _python("py_version_short")
    for file in stubs.iterdir():
        if not (place := folder / "backends" / "python" / file.name).exists():
            shutil.copy(file, place)


def _python(variable: str) -> str:
    """A variable of the peers' Python."""
    code = f"import sysconfig; print(sysconfig.get_config_var({variable!r}))"
    command: Sequence[str] = [str(HOME / "bin" / "python"), "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
