"""Execution of exported graphs in ONNX Runtime."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from limelight.base import installing
from limelight_bundle.offline import disable_telemetry
from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.external_weights import graph_files
from limelight_export.exported_graph import ExportedGraph
from limelight_export.surgery.gated_outputs import gate_name
from limelight_models.cards.card import Card

_THREADS = 2


def onnx_runtime() -> ModuleType:
    """Import ONNX Runtime with its telemetry off. Raises ExportError where it is not installed."""
    disable_telemetry()
    try:
        import onnxruntime
    except ImportError as error:
        raise ExportError(
            f"an export is verified with ONNX Runtime, which is not installed: {installing.extra('train,serve')}"
        ) from error
    return onnxruntime  # type: ignore[no-any-return]


# What ONNX Runtime says of an operator without code for its types.
_NO_KERNEL = re.compile(r"Could not find an implementation for \w+\(\d+\) node with name '(?P<name>[^']+)'")


class GraphSession:
    """A graph in an ONNX Runtime session on the CPU.

    Raises:
        ExportError: ONNX Runtime cannot load the graph.
    """

    def __init__(self, graph: ExportedGraph) -> None:
        ort = onnx_runtime()
        options = ort.SessionOptions()
        options.log_severity_level = 4  # errors are raised
        options.intra_op_num_threads = _THREADS
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.graph = graph
        self._run_options: Any = ort.RunOptions()
        try:
            self._session: Any = self._open(ort, options)
        except Exception as error:  # ONNX Runtime raises its own C++ errors
            raise ExportError(
                f"ONNX Runtime cannot load the graph {graph.name}: {_missing_kernel(str(error), graph.model) or error}"
            ) from error

    def _open(self, ort: ModuleType, options: Any) -> Any:
        with TemporaryDirectory() as scratch:  # a large graph is loaded from files
            files = graph_files({self.graph.file: self.graph.model}, Path(scratch))
            loaded: bytes | Path | str = files[self.graph.file]
            if len(files) > 1:
                (Path(scratch) / self.graph.file).write_bytes(files[self.graph.file])  # type: ignore[arg-type]
                loaded = str(Path(scratch) / self.graph.file)
            return ort.InferenceSession(loaded, options, providers=["CPUExecutionProvider"])

    def run(self, tensors: Mapping[str, Array], requests: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Run the graph, and return all of its outputs by name.

        Args:
            tensors: at least the inputs of the graph.
            requests: inputs that request optional maps; None requests whole maps.
        """
        feeds = {spec.name: tensors[spec.name] for spec in self.graph.inputs}
        for optional_map in self.graph.optional_maps.values() if requests is None else ():
            feeds |= optional_map.request_weights()
        feeds |= requests or {}
        feeds |= {gate_name(name): np.array(True) for name in self.graph.gated}
        names = [spec.name for spec in self.graph.outputs]
        names += dict.fromkeys(name for each in self.graph.optional_maps.values() for name in each.outputs)
        try:
            return dict(zip(names, self._session.run(names, feeds, self._run_options), strict=True))
        except Exception as error:
            shapes = {name: list(array.shape) for name, array in feeds.items()}
            raise ExportError(
                f"ONNX Runtime fails in the graph {self.graph.name} on inputs of the shapes {shapes}: {error}"
            ) from error

    def stop(self) -> None:
        """End the run that is under way, and every later one."""
        self._run_options.terminate = True


def _missing_kernel(error: str, model: ModelProto) -> str:
    """Return a sentence on an operator that ONNX Runtime does not compute for a type; empty for another error."""
    found = _NO_KERNEL.search(error)
    node = next((each for each in model.graph.node if found is not None and each.name == found["name"]), None)
    if node is None:
        return ""
    graph = model.graph
    types = {each.name: each.type.tensor_type.elem_type for each in (*graph.value_info, *graph.input, *graph.output)}
    types |= {each.name: each.data_type for each in graph.initializer}
    stated = {TensorProto.DataType.Name(types[each]).lower() for each in (*node.input, *node.output) if types.get(each)}
    return (
        f"it has no {node.op_type} of {' and '.join(sorted(stated)) or 'these types'} on CPUs; "
        "let the module compute that with another type, such as float32"
    )


# Runs a graph another time, given the outputs of a run with whole maps, and returns the outputs as they are then.
RunAgain = Callable[[GraphSession, Mapping[str, Array], Mapping[str, Array]], dict[str, Array]]


class GraphGenerationRunner:
    """Runs the graphs of a generating model (see `GenerationRunner`)."""

    def __init__(self, graphs: Sequence[ExportedGraph], card: Card) -> None:
        assert card.generation is not None
        parts = {card.generation.encoder, card.generation.prefill, card.generation.step}
        running = {graph.name: GraphSession(graph) for graph in graphs if graph.name in parts}
        self._encoder = running.get(card.generation.encoder)
        self._prefill = running.get(card.generation.prefill)
        self._step = running[card.generation.step]
        self._again: RunAgain = lambda session, tensors, whole: dict(whole)
        self._step_requests: Iterator[Mapping[str, Array]] = iter(())

    def by(self, again: RunAgain) -> "GraphGenerationRunner":
        """Return a runner of the same sessions that runs the encoder and the prefill graph again in another way."""
        other = copy(self)
        other._again = again
        return other

    def changed(self, part: str, requests: Mapping[str, Array]) -> "GraphGenerationRunner":
        """Return a runner of the same sessions, for one generation, that gives optional inputs to a part.

        Args:
            requests: [batch, head, query, …] each; a step gets its own query.
        """
        other = self.by(
            lambda session, tensors, whole: (
                session.run(tensors, requests) if session.graph.name == part else dict(whole)
            )
        )
        if part == self._step.graph.name:
            steps = next(iter(requests.values())).shape[2]
            every = ({name: array[:, :, step : step + 1] for name, array in requests.items()} for step in range(steps))
            other._step_requests = every
        return other

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the encoder graph, where there is one."""
        return self._run(self._encoder, tensors)

    def prefill(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the prefill graph, where there is one."""
        return self._run(self._prefill, tensors)

    def step(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the step graph."""
        return self._step.run(tensors, next(self._step_requests, None))

    def _run(self, session: GraphSession | None, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run a graph, and return its own outputs."""
        if session is None:
            return {}
        found = self._again(session, tensors, session.run(tensors))
        return {spec.name: found[spec.name] for spec in session.graph.outputs}
