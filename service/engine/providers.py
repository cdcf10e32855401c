"""Execution providers: asked for by name, proved before use, never changed in silence."""

import logging
from dataclasses import dataclass, field
from importlib import metadata
from types import ModuleType
from typing import Any

from bundle.offline import disable_telemetry
from limelight.cli import installing
from service.engine.cuda import DEFAULT, Cuda
from service.engine.graphs import graph
from service.errors import ProviderError
from service.machine import available_cores
from service.settings import Settings

logger = logging.getLogger(__name__)

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
# A batch that computes, and one that is put together, or whose answers are made.
STAGES = 2
_DISTRIBUTIONS = ("onnxruntime", "onnxruntime-gpu")


@dataclass(frozen=True)
class Provider:
    """An execution provider that works here, and how it is used.

    lanes: batches that run at the same time, over all models.
    concurrent: the same, for one model.
    cores: threads of a session that has the machine to itself.
    options: the provider's own.
    staged: a session runs one batch at a time, and beside it the next is put together and the last one's answers are
    made: as on a GPU, whose one stream runs them one after the other in any case.
    device: where what runs take and put out lives, as the runtime names it, and its number; maps are cut there, before
    they travel. None for arrays of NumPy: on a CPU a value of the runtime's own wins nothing, and NumPy cuts by a view.
    records: whether runs of small batches may be recorded and played back (CUDA graphs).
    """

    name: str
    lanes: int
    concurrent: int
    cores: int = 1
    options: dict[str, str] = field(default_factory=dict)
    staged: bool = False
    device: tuple[str, int] | None = None
    records: bool = False

    @property
    def is_cuda(self) -> bool:
        """True on a GPU."""
        return self.name == CUDA

    @property
    def arena(self) -> str:
        """Name the arena that a session works in, as the runtime does."""
        return f"gpu:{self.options['device_id']}" if self.is_cuda else "cpu:0"

    def requested(self, *, recording: bool = False) -> list[str | tuple[str, dict[str, str]]]:
        """Give ONNX Runtime's `providers` argument: on CUDA the CPU stays behind it, for nodes on shapes.

        recording: for a session whose runs are recorded.
        """
        own = self.options | ({"enable_cuda_graph": "1"} if recording else {})
        return [(self.name, own), CPU] if self.is_cuda else [CPU]


def cuda_of(settings: Settings) -> Cuda:
    """Give what the settings choose of a GPU."""
    return Cuda(settings.gpu_device, settings.gpu_memory_bytes, settings.gpu_tf32, settings.gpu_graphs)


def choose_provider(wanted: str, *, lanes: int = 0, cores: int = 0, cuda: Cuda = DEFAULT) -> Provider:
    """Choose the provider that `--provider` asks for; `auto` is CUDA where a session on it can be made.

    lanes: 0 for one a core on the CPU, and two on CUDA, so that one batch is put together while another runs.
    cores: 0 for all that this process may use.
    Raises: ProviderError where CUDA is asked for and cannot be had, or the runtime is not installed exactly once.
    """
    if wanted != "cpu":
        problem = _cuda_problem(runtime(), cuda)
        if not problem:
            logger.info("provider: %s", CUDA)
            return on_cuda(cuda, lanes)
        if wanted == "cuda":
            raise ProviderError(f"CUDA was asked for and cannot be had: {problem}")
        logger.info("provider: %s (no CUDA: %s)", CPU, problem)
    else:
        runtime()
        logger.info("provider: %s", CPU)
    cores = cores or available_cores()
    lanes = lanes or cores
    return Provider(CPU, lanes, lanes, cores)


def on_cuda(cuda: Cuda, lanes: int = 0) -> Provider:
    """Use a GPU: two batches of a model at a time, of which one computes. lanes: 0 for as many."""
    lanes = lanes or STAGES
    return Provider(
        CUDA,
        lanes,
        min(lanes, STAGES),
        options=cuda.options(),
        staged=True,
        device=("cuda", cuda.device),
        records=cuda.graphs,
    )


def runtime() -> ModuleType:
    """Import ONNX Runtime, with its telemetry off, once it is certain that it is installed exactly once.

    Raises: ProviderError where both of its distributions are installed (the CPU one then hides CUDA), or none.
    """
    found = [name for name in _DISTRIBUTIONS if _installed(name)]
    if not found:
        raise ProviderError(
            f"ONNX Runtime is not installed: {installing.extra('serve')}; for CUDA, the extra is serve-gpu"
        )
    if len(found) > 1:
        raise ProviderError(
            "onnxruntime and onnxruntime-gpu are both installed, and hide CUDA from each other: uninstall both, then "
            "pip install '.[serve]' or '.[serve-gpu]' in a checkout of Limelight"
        )
    disable_telemetry()
    import onnxruntime

    return onnxruntime  # type: ignore[no-any-return]


def _installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _cuda_problem(ort: Any, cuda: Cuda) -> str:
    """Say why CUDA cannot be used; empty where it can."""
    if CUDA not in ort.get_available_providers():
        return "this ONNX Runtime is built without it (onnxruntime-gpu has it)"
    ort.preload_dlls()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:  # making a session is the one proof that the CUDA libraries can be loaded: the runtime only warns otherwise
        session = ort.InferenceSession(graph("probe"), options, providers=on_cuda(cuda).requested())
    except Exception as error:
        logger.debug("the CUDA probe failed", exc_info=error)
        return "the runtime failed to start it"
    if session.get_providers()[0] != CUDA:
        return f"its libraries or device {cuda.device} are missing (see ONNX Runtime's requirements for CUDA and cuDNN)"
    return ""
