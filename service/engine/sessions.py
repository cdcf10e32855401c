"""A graph of a bundle in ONNX Runtime: one session, shared by every lane."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bundle.errors import BundleError
from bundle.reader import BundleFolder
from bundle.v1 import bundle_pb2
from bundle.values import Array
from service.engine.providers import Provider, runtime
from service.errors import InferenceError, ProviderError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Session:
    """A graph ready to run. `run` is thread-safe and lets other threads go on.

    nodes: how many of its nodes run on which provider, as far as the runtime tells.
    """

    name: str
    inputs: frozenset[str]
    outputs: tuple[str, ...]
    nodes: Mapping[str, int]
    _session: Any

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
        """Run the graph once and fetch these outputs, in this order.

        Raises: InferenceError; what the runtime said is in the log only, since it can quote paths.
        """
        try:
            return self._session.run(outputs, feeds)  # type: ignore[no-any-return]
        except Exception as error:
            shapes = {name: list(array.shape) for name, array in feeds.items()}
            logger.error("the graph %s failed on inputs of shapes %s: %s", self.name, shapes, error)
            raise InferenceError("the model failed on this input") from error


def open_session(folder: BundleFolder, graph: bundle_pb2.OnnxGraph, provider: Provider) -> Session:
    """Load a graph.

    Raises: BundleError where the runtime refuses it or its inputs and outputs are not those that the bundle states;
    ProviderError where the runtime falls back from CUDA to the CPU.
    """
    ort = runtime()
    try:
        session = ort.InferenceSession(folder.file(graph.file), _options(ort, provider), providers=provider.requested())
    except Exception as error:
        logger.error("%s cannot be loaded: %s", graph.file, error)
        raise BundleError(f"the runtime cannot load {graph.file}") from error
    if session.get_providers()[0] != provider.name:
        raise ProviderError(f"the runtime loaded the graph {graph.name} without {provider.name}")
    session.disable_fallback()
    for kind, stated, found in (
        ("inputs", graph.inputs, session.get_inputs()),
        ("outputs", graph.outputs, session.get_outputs()),
    ):
        names = {each.name for each in found}
        if names != set(stated):
            raise BundleError(f"{graph.file} has the {kind} {sorted(names)}, the bundle states {sorted(stated)}")
    nodes = {each.ep_name: 0 for each in session.get_provider_graph_assignment_info()}
    for each in session.get_provider_graph_assignment_info():
        nodes[each.ep_name] += len(each.get_nodes())
    return Session(graph.name, frozenset(graph.inputs), tuple(graph.outputs), nodes, session)


def _options(ort: Any, provider: Provider) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.inter_op_num_threads = 1
    # One thread: the one that calls. Lanes run in parallel on the shared session, which beats parallelism inside an
    # operator.
    options.intra_op_num_threads = 1
    # A plan of memory made for one shape is of no use to the next.
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options
