"""The exported graphs in ONNX Runtime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from bundle.offline import disable_telemetry
from bundle.values import Array
from export.errors import ExportError
from export.exported_graph import Graph
from export.writing.external_weights import graph_files
from limelight.cli import installing
from models.cards.card import Card

_THREADS = 2


def onnx_runtime() -> ModuleType:
    """Import ONNX Runtime, with its telemetry off. Raises: ExportError saying what to install."""
    disable_telemetry()
    try:
        import onnxruntime
    except ImportError as error:
        raise ExportError(
            f"an export is compared with ONNX Runtime, which is not installed: {installing.extra('train,serve')}"
        ) from error
    return onnxruntime  # type: ignore[no-any-return]


class RunningGraph:
    """A graph in a session on the CPU.

    Raises: ExportError where the runtime refuses it.
    """

    def __init__(self, graph: Graph) -> None:
        ort = onnx_runtime()
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = _THREADS
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.graph = graph
        try:
            self._session: Any = self._open(ort, options)
        except Exception as error:  # the runtime raises its own C++ errors
            raise ExportError(f"ONNX Runtime cannot load the graph {graph.name}: {error}") from error

    def _open(self, ort: ModuleType, options: Any) -> Any:
        with TemporaryDirectory() as scratch:  # for a large graph, which is loaded from files
            files = graph_files(self.graph.file, self.graph.model, Path(scratch))
            loaded: bytes | Path | str = files[self.graph.file]
            if len(files) > 1:
                (Path(scratch) / self.graph.file).write_bytes(files[self.graph.file])  # type: ignore[arg-type]
                loaded = str(Path(scratch) / self.graph.file)
            return ort.InferenceSession(loaded, options, providers=["CPUExecutionProvider"])

    def run(self, tensors: Mapping[str, Array], asked: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Run the graph on those of the tensors that it takes; everything that it puts out, by name.

        asked: what its switches are fed; None for whole maps.
        """
        feeds = {port.name: tensors[port.name] for port in self.graph.inputs}
        for switch in self.graph.switches.values() if asked is None else ():
            feeds |= switch.whole()
        feeds |= asked or {}
        names = [port.name for port in self.graph.outputs]
        names += dict.fromkeys(name for each in self.graph.switches.values() for name in each.outputs)
        try:
            return dict(zip(names, self._session.run(names, feeds), strict=True))
        except Exception as error:
            shapes = {name: list(array.shape) for name, array in feeds.items()}
            raise ExportError(f"ONNX Runtime fails in the graph {self.graph.name} on {shapes}: {error}") from error


class RunningParts:
    """The graphs of a generating model."""

    def __init__(self, graphs: Sequence[Graph], card: Card) -> None:
        assert card.generation is not None
        running = {graph.name: RunningGraph(graph) for graph in graphs}
        self._encoder = running.get(card.generation.encoder)
        self._prefill = running.get(card.generation.prefill)
        self._step = running[card.generation.step]

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the encoder, where there is one."""
        return self._encoder.run(tensors) if self._encoder else {}

    def prefill(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Read many tokens, where there is a graph that does."""
        return self._prefill.run(tensors) if self._prefill else {}

    def step(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run one step."""
        return self._step.run(tensors)
