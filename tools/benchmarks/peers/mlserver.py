"""MLServer with a runtime of four lines around ONNX Runtime. `make peers` installs it."""

import json
import shutil
import tempfile
from pathlib import Path

import grpc

from benchmarks.peers.kserve import model_ready
from benchmarks.process import Process, free_port
from benchmarks.records import ROOT

HOME = ROOT / "build" / "peers-mlserver"
_MODEL = Path(__file__).with_name("mlserver_model.py")


def missing() -> str:
    """Why there is no MLServer here; empty where there is."""
    return "" if (HOME / "bin" / "mlserver").exists() else "mlserver is not in build/peers-mlserver: run `make peers`"


class MLServer(Process):
    """mlserver with one model of one graph, in one process; its rows run on threads."""

    def __init__(self, name: str, graph: Path) -> None:
        if missing():
            raise FileNotFoundError(missing())
        self._folder = Path(tempfile.mkdtemp(prefix="mlserver-"))
        shutil.copy(_MODEL, self._folder)
        ports = [free_port() for _ in range(3)]
        settings = {"host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1], "metrics_port": ports[2]}
        settings |= {"parallel_workers": 0, "debug": False, "grpc_max_message_length": 2**30}
        model = {"name": name, "implementation": "mlserver_model.Encoder", "parameters": {"uri": str(graph.resolve())}}
        (self._folder / "settings.json").write_text(json.dumps(settings))
        (self._folder / "model-settings.json").write_text(json.dumps(model))

        def ready(channel: grpc.Channel) -> bool:
            return model_ready(channel, name)

        command = [str(HOME / "bin" / "mlserver"), "start", str(self._folder)]
        log = self._folder / "log"
        super().__init__(
            command, f"127.0.0.1:{ports[1]}", ready, environment={"PYTHONPATH": str(self._folder)}, log=log
        )

    def _stop(self) -> None:
        super()._stop()
        shutil.rmtree(self._folder, ignore_errors=True)
