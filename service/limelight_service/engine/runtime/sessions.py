"""A graph of a bundle in ONNX Runtime: a session of one thread, shared by every worker, and one of all cores."""

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from limelight_bundle.errors import BundleError
from limelight_bundle.interventions import intervened_graph
from limelight_bundle.reader import BundleFolder
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.out_of_memory import is_out_of_memory, memory_short_error
from limelight_service.engine.runtime.arena import use_arena
from limelight_service.engine.runtime.device_cache import DeviceCache
from limelight_service.engine.runtime.placement import Cut, Fed, Placement, placement_of
from limelight_service.engine.runtime.prepacked import SMALLEST, prepacked
from limelight_service.engine.runtime.providers import Provider, runtime
from limelight_service.engine.watch import WATCH, Run, RunLimit
from limelight_service.errors import InferenceError, OverrunError, ProviderError

logger = logging.getLogger(__name__)

# A smaller graph is done before its parts are handed out (measured on four of 0.01 to 0.6 MB: all cores took 1 to 8 %
# longer than one), and every session of several threads keeps threads of its own: 500 such models had thousands.
SMALLEST_WIDE = 2**20
_DTYPES = {
    f"tensor({name})": np.dtype(name.replace("double", "float64")) if name != "float" else np.dtype(np.float32)
    for name in ("float", "double", "float16", "bool", "int8", "uint8", "int16", "int32", "int64")
}


def unlimited() -> RunLimit:
    """Make a limit that no run exceeds."""
    return RunLimit(math.inf)


class _Turn:
    """A run's turn to compute: it waits for those before it, where runs take turns, and is watched from then on."""

    def __init__(self, turn: AbstractContextManager[Any], options: Any, seconds: float) -> None:
        self._turn, self._options, self._seconds = turn, options, seconds
        self._run: Run | None = None

    @property
    def overdue(self) -> bool:
        """True where it was stopped for taking too long."""
        return self._run is not None and self._run.overdue

    def __enter__(self) -> None:
        self._turn.__enter__()
        self._run = WATCH.begin(self._options, self._seconds)

    def __exit__(self, *error: Any) -> None:
        assert self._run is not None
        WATCH.end(self._run)
        self._turn.__exit__(*error)


class Stated(NamedTuple):
    """An input or output as a graph states it. type: as the runtime writes it, `tensor(float)`; shape: sizes, and names
    of axes that vary.
    """

    type: str
    shape: tuple[int | str | None, ...]

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Its type; None for one that no bundle has."""
        return _DTYPES.get(self.type)


@dataclass(frozen=True, eq=False)
class Session:
    """A graph ready to run. `run` is thread-safe and lets other threads go on.

    Attributes:
        nodes: number of nodes by the provider that runs them, as far as the runtime states it.
        limit: of the time of a run.
    """

    name: str
    inputs: frozenset[str]
    outputs: tuple[str, ...]
    nodes: Mapping[str, int]
    _session: Any
    _wide: Any
    _run_options: Callable[[], Any]
    _placement: Placement
    _turn: AbstractContextManager[Any]
    _provider: Provider
    limit: RunLimit = field(default_factory=unlimited)
    _short: threading.Event = field(default_factory=threading.Event)
    _used: set[bool] = field(default_factory=set)

    @property
    def is_wide(self) -> bool:
        """True where running it on every core is another way of running it."""
        return self._wide is not self._session

    @property
    def cuts(self) -> bool:
        """True where a map is better cut before it is brought back."""
        return self._placement.cuts

    def device_cache(self) -> DeviceCache | None:
        """Make a copy on the device for inputs of run after run; None where arrays of NumPy are as near."""
        return DeviceCache(self._provider) if self._provider.device is not None else None

    def stated(self) -> dict[str, Stated]:
        """Give the graph's statements of all inputs and outputs, by name."""
        return {
            each.name: Stated(each.type, tuple(each.shape))
            for each in [*self._session.get_inputs(), *self._session.get_outputs()]
        }

    def run(
        self,
        outputs: Sequence[str],
        feeds: Mapping[str, Fed],
        *,
        wide: bool = False,
        cuts: Mapping[str, Cut] = MappingProxyType({}),
    ) -> list[Array]:
        """Run the graph once and fetch these outputs, in this order.

        Args:
            wide: on every core, instead of the calling thread alone.
            cuts: the needed parts of some outputs.

        Raises:
            InferenceError: the run failed; the runtime's message is in the log only, since it can quote paths.
            OverrunError: the run took longer than it may.
            MemoryShortError: memory was too short; before the next run, what its arena does not need is given back.
        """
        if self._short.is_set():
            self._short.clear()
            self.shrink()
        options = self._run_options()
        turn = _Turn(self._turn, options, self.limit.seconds)
        try:
            self._used.add(wide)
            found = self._placement.run(self._wide if wide else self._session, outputs, feeds, cuts, options, turn)
        except Exception as error:
            if turn.overdue:
                self.limit.overran()
                logger.error("the graph %s was ended: it ran for more than %g s", self.name, self.limit.seconds)
                raise OverrunError(f"the model took longer than the {self.limit.seconds:g} s that it may") from error
            shapes = {name: _shape(each) for name, each in feeds.items()}
            logger.error("the graph %s failed on inputs of shapes %s: %s", self.name, shapes, error)
            if is_out_of_memory(error):
                self._short.set()
                raise memory_short_error() from error
            raise InferenceError("the model failed on this input") from error
        self.limit.ended()
        return found

    def shrink(self) -> None:
        """Give back memory that the arenas have kept of the largest runs since the last time.

        An arena shrinks at the end of a run, by the regions of which nothing is in use: not even the outputs of
        that run, which lies wherever a little room is left. So the run is stopped before it has begun, and
        may fail: a provider may have no such arena.
        """
        for wide in tuple(self._used):
            self._used.discard(wide)
            session = self._wide if wide else self._session
            options = self._run_options()
            options.add_run_config_entry("memory.enable_memory_arena_shrinkage", self._provider.arena)
            options.log_severity_level = 4
            options.terminate = True
            with contextlib.suppress(Exception), self._turn:  # that it was ended
                session.run(self.outputs[:1], _zeros(session), options)


def _shape(fed: Fed) -> list[int]:
    return list(fed.shape if isinstance(fed, np.ndarray) else fed.shape())


def _zeros(session: Any) -> dict[str, Array]:
    """Make inputs of one place along every axis that varies."""
    return {
        each.name: np.zeros([size if isinstance(size, int) else 1 for size in each.shape], _DTYPES[each.type])
        for each in session.get_inputs()
    }


def open_sessions(
    folder: BundleFolder,
    provider: Provider,
    limits: Mapping[str, RunLimit] = MappingProxyType({}),
    saved: Path | None = None,
) -> dict[str, Session]:
    """Load the graphs of a bundle, over one copy of their weights where that is worth it.

    Those for interventions get one session: a second would serve only a batch that nothing runs beside, and cost
    more than the first at every start.

    Args:
        limits: of the time of a run, by graph; those that are not there run for any time.
        saved: a folder of the graphs as the runtime has packed them; where there is none, it is made if one is large
            enough.

    Raises:
        BundleError: the runtime refuses a graph, or its inputs and outputs are not those that the bundle states.
        ProviderError: the runtime falls back from CUDA to the CPU.
    """
    ort = runtime()
    graphs = {each.name: folder.file(each.file) for each in folder.bundle.graphs}
    once = {intervened_graph(folder.bundle, name) for name in graphs}
    packing = {name: file for name, file in graphs.items() if _is_packed(file, folder.graph_bytes[name], provider)}
    with prepacked(ort, packing, partial(_options, ort, 1), saved) as files:
        return {
            each.name: _session(
                ort, folder, each, provider, limits.get(each.name), files.get(each.name), once=each.name in once
            )
            for each in folder.bundle.graphs
        }


def _session(
    ort: Any,
    folder: BundleFolder,
    graph: bundle_pb2.OnnxGraph,
    provider: Provider,
    limit: RunLimit | None,
    saved: Path | None,
    *,
    once: bool,
) -> Session:
    try:
        session, wide = _open(ort, folder.file(graph.file), folder.graph_bytes[graph.name], provider, saved, once=once)
    except Exception as error:
        logger.error("%s cannot be loaded: %s", graph.file, error)
        raise BundleError(f"the runtime cannot load {graph.file}") from error
    for each in (session, wide):
        if each.get_providers()[0] != provider.name:
            raise ProviderError(f"the runtime loaded the graph {graph.name} without {provider.name}")
        each.disable_fallback()
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
    return Session(
        graph.name,
        frozenset(graph.inputs),
        tuple(graph.outputs),
        nodes,
        session,
        wide,
        ort.RunOptions,
        placement_of(provider),
        # On a stream of its own, a session runs one batch after the other; where the others wait here, they do not
        # wait there with all that they have put on the device.
        threading.Lock() if provider.staged else nullcontext(),
        provider,
        limit or unlimited(),
    )


def _is_twice(size: int, provider: Provider) -> bool:
    """Tell whether a graph of a size in bytes is worth two sessions, for one core and for all of them."""
    return not provider.is_cuda and provider.cores > 1 and size >= SMALLEST_WIDE


def _is_packed(file: Path, size: int, provider: Provider) -> bool:
    """Tell whether a graph is served from a copy as the runtime packs it.

    So is one whose weights lie in a file of their own: the runtime maps them, and truncating a mapped file ends the
    process.

    Args:
        size: in bytes, with such weights.
    """
    beside = size > file.stat().st_size
    return not provider.is_cuda and (beside or (_is_twice(size, provider) and size >= SMALLEST))


def _open(ort: Any, file: Path, size: int, provider: Provider, saved: Path | None, *, once: bool) -> tuple[Any, Any]:
    """Open a graph twice where that is worth it, over one copy of large weights.

    Args:
        size: in bytes, with weights that lie in a file of their own.
        saved: the graph as the runtime has packed it; None where it has not.
        once: open it once, whatever its size.
    """
    twice = _is_twice(size, provider) and not once
    if saved is not None:
        try:
            return _open_both(ort, saved, provider, twice=twice, optimise=False)
        except Exception as error:  # of float16 around an If, the runtime saves what it does not read
            logger.warning("%s has one session, since what was saved of it cannot be opened: %s", file, error)
    return _open_both(ort, file, provider, twice=twice and not _is_packed(file, size, provider))


def _open_both(ort: Any, file: Path, provider: Provider, *, twice: bool, optimise: bool = True) -> tuple[Any, Any]:
    narrow, *wide = (
        ort.InferenceSession(file, _options(ort, threads, optimise=optimise), providers=provider.requested())
        for threads in ((1, provider.cores) if twice else (1,))
    )
    return narrow, *(wide or [narrow])


def _options(ort: Any, threads: int, *, optimise: bool = True) -> Any:
    """Make options. threads: 1 for the one that calls. Workers run in parallel on the shared session, which beats
    parallelism inside an operator as soon as there are two batches to run.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = threads
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # A plan of memory made for one shape is of no use to the next.
    options.enable_mem_pattern = False
    # Threads that wait awake between two parts of a batch win a third of its time on an idle machine; awake behind it,
    # they would only keep the event loop waiting.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if threads > 1 else "0")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    use_arena(options)
    # The checked file is ONNX; the runtime would read other formats too.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options
